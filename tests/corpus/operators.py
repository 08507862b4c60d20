"""The named list of flag-gems operators that must work: for each its arguments, and what torch calls it.

An operator is called once for each of its argument lists, on copies, so those that write in place are compared like
the others.  `draw` (test_flag_gems.py) makes the tensors: `draw(2, 3)` is a float32 one of that shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
F32 = (torch.float32,)
INTS = (torch.int32, torch.int16, torch.int64)


class Draw(Protocol):
    """Makes tensors of random numbers: normal ones, or uniform in [low, high)."""

    def __call__(self, *shape: int, dtype: torch.dtype = ..., low: float | None = ..., high: float = ...) -> Any: ...


Arguments = Callable[[Draw], Sequence[Any]]


class Operator(NamedTuple):
    """One operator: `name` in flag-gems, argument lists, what it must equal, and with which keywords it is called."""

    name: str
    arguments: Sequence[Arguments]
    reference: Callable[..., Any]
    keywords: dict[str, Any] = {}
    tolerance: float = 1.0                      # in units of the dtype's usual tolerance
    part: Callable[[Any], Any] = lambda result: result      # what of the result is compared
    outside: str = ""                           # why it may touch memory outside of the tensors that it passes
    wrong: str = ""                             # why it cannot work: the test expects it to fail
    is_right_on_gpus: bool = False              # what is wrong with it is so on a CPU only


def pointwise(name: str, reference: Callable[..., Any], inputs: int = 1, dtypes: Sequence[torch.dtype] = FLOATS,
              low: float | None = None, high: float = 2.0, rest: Sequence[Any] = (), **keywords: Any) -> Operator:
    """An operator on `inputs` tensors of one shape, which is not a power of two."""
    def arguments(dtype: torch.dtype) -> Arguments:
        return lambda draw: [draw(5, 37, dtype=dtype, low=low, high=high) for _ in range(inputs)] + [*rest]

    return Operator(name, [arguments(dtype) for dtype in dtypes], reference, keywords)


def unary() -> Iterator[Operator]:
    for name in ("abs", "acos", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "neg", "relu", "sigmoid",
                 "sin", "square", "tan", "tanh", "isinf", "isnan", "isfinite", "isneginf", "signbit"):
        low = -0.95 if name == "acos" else None
        yield pointwise(name, getattr(torch, name), low=low, high=0.95)
    for name in ("log", "log10", "rsqrt", "sqrt", "reciprocal"):
        yield pointwise(name, getattr(torch, name), low=0.1, high=4.0)
    yield pointwise("gelu", F.gelu)
    yield pointwise("silu", F.silu)
    yield pointwise("softplus", F.softplus)
    yield pointwise("log_sigmoid", F.logsigmoid)
    yield pointwise("hardsigmoid", F.hardsigmoid)
    yield pointwise("elu", F.elu)
    yield pointwise("celu", F.celu, rest=[1.5])
    yield pointwise("logit", torch.logit, low=0.1, high=0.9)
    yield pointwise("relu6", F.relu6, low=-9, high=9)
    yield pointwise("softshrink", F.softshrink)
    yield pointwise("threshold", F.threshold, rest=[0.1, 20.0])
    yield pointwise("round", torch.round, low=-9, high=9)
    yield pointwise("floor_", torch.floor)
    yield pointwise("logical_not", torch.logical_not, dtypes=(torch.bool, *FLOATS))
    yield pointwise("bitwise_not", torch.bitwise_not, dtypes=(torch.bool, *INTS), low=-99, high=99)
    yield pointwise("nan_to_num", torch.nan_to_num)


def binary() -> Iterator[Operator]:
    for name in ("add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "atan2", "copysign",
                 "hypot", "logaddexp"):
        yield pointwise(name, getattr(torch, name), 2)
    for name in ("bitwise_and_tensor", "bitwise_or_tensor"):
        yield pointwise(name, getattr(torch, name.removesuffix("_tensor")), 2, INTS, -99, 99)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        yield pointwise(name, getattr(torch, name), 2, INTS, 0, 12)._replace(
            wrong="it hands its default out=None on to its kernel, on every device")
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield pointwise(name, getattr(torch, name), 2, (torch.bool, torch.float32))
    yield pointwise("true_divide", torch.true_divide, 2, low=0.5)
    yield pointwise("floor_divide", torch.floor_divide, 2, (*INTS, torch.float32), 1, 50)
    yield pointwise("remainder", torch.remainder, 2, (*INTS, torch.float32), 1, 50)
    yield pointwise("pow_tensor_tensor", torch.pow, 2, F32, 0.2)
    yield pointwise("pow_tensor_scalar", torch.pow, 1, F32, 0.2, rest=[2.5])
    yield pointwise("isclose", torch.isclose, 2, F32)
    yield pointwise("clamp", torch.clamp, rest=[-0.5, 0.5])
    yield pointwise("lerp_scalar", torch.lerp, 2, F32, rest=[0.3])
    yield pointwise("addcmul", torch.addcmul, 3, F32, value=0.5)
    yield pointwise("addcdiv", torch.addcdiv, 3, F32, 0.5, value=0.5)
    yield pointwise("tanh_backward", aten.tanh_backward, 2)
    yield pointwise("sigmoid_backward", aten.sigmoid_backward, 2)
    yield pointwise("gelu_backward", aten.gelu_backward, 2, F32)
    yield Operator("where_self", [lambda d: [d(5, 1) > 0, d(5, 9), d(9)]], torch.where,
                   wrong="it asserts that one of its tensors is not on the CPU", is_right_on_gpus=True)
    yield Operator("masked_fill", [lambda d: [d(5, 9), d(5, 9) > 0, 7.0]], torch.masked_fill)


def reductions() -> Iterator[Operator]:
    whole: Arguments = lambda d: [d(7, 51)]  # noqa: E731
    for name in ("sum", "mean", "max", "min", "all", "any", "count_nonzero"):
        yield Operator(name, [whole, lambda d: [d(3, 5, 7, dtype=torch.float16)]], getattr(torch, name))
    yield Operator("prod", [lambda d: [d(5, 6)]], torch.prod)
    rows: Sequence[Arguments] = (lambda d: [d(7, 51), 1], lambda d: [d(5, 33, 3), 1])
    yield Operator("amax", [lambda d: [d(7, 51), [1]], lambda d: [d(5, 33, 3), [0, 2]]], torch.amax)
    for name, reference in (("argmax", torch.argmax), ("max_dim", torch.max), ("min_dim", torch.min),
                            ("cummax", torch.cummax), ("cummin", torch.cummin), ("cumsum", torch.cumsum),
                            ("all_dim", torch.all), ("any_dim", torch.any), ("prod_dim", torch.prod)):
        yield Operator(name, rows, reference)
    yield Operator("argmin", rows, torch.argmin,
                   wrong="in the last block of a row it loads with mask=True, past the end of the tensor",
                   is_right_on_gpus=True)       # accesses are not tested there
    for name, reference in (("sum_dim", torch.sum), ("mean_dim", torch.mean)):
        yield Operator(name, [lambda d: [d(7, 51), [1]], lambda d: [d(5, 33, 3), [0, 1], True]], reference)
    yield Operator("var_mean", [lambda d: [d(7, 51), [1]]], torch.var_mean)
    yield Operator("std", [lambda d: [d(7, 51), [1]]], torch.std)
    yield Operator("vector_norm", [lambda d: [d(7, 51), 2, [1]], lambda d: [d(7, 51), 1]], torch.linalg.vector_norm)
    yield Operator("aminmax", [lambda d: [d(7, 51)]], torch.aminmax)
    yield Operator("trace", [lambda d: [d(6, 9)]], torch.trace)


def norms() -> Iterator[Operator]:
    rows: Sequence[Arguments] = (lambda d: [d(7, 51), 1], lambda d: [d(5, 33, 3), 1],
                                 lambda d: [d(7, 51, dtype=torch.float16), 1])
    yield Operator("softmax", rows, torch.softmax)
    yield Operator("log_softmax", rows, torch.log_softmax)
    yield Operator("softmax_backward", [lambda d: [d(7, 51), torch.softmax(d(7, 51), 1), 1, torch.float32]],
                   aten._softmax_backward_data)
    yield Operator("log_softmax_backward", [lambda d: [d(7, 51), torch.log_softmax(d(7, 51), 1), 1, torch.float32]],
                   aten._log_softmax_backward_data)
    yield Operator("layer_norm", [lambda d: [d(7, 40), [40], d(40), d(40), 1e-5]],
                   lambda *a: [t.squeeze(-1) for t in aten.native_layer_norm(*a)])
    yield Operator("rms_norm", [lambda d: [d(7, 40), [40], d(40), 1e-5]], F.rms_norm)
    yield Operator("group_norm", [lambda d: [d(2, 6, 5), d(6), d(6), 2, 6, 5, 3]],
                   lambda *a: aten.native_group_norm(*a, 1e-5))
    yield Operator("batch_norm", [lambda d: [d(4, 6, 5), d(6), d(6), d(6), d(6, low=0.5), True]],
                   lambda *a: aten.native_batch_norm(*a, 0.1, 1e-5))
    yield Operator("weight_norm_interface", [lambda d: [d(6, 40), d(6, 1)]],
                   lambda *a: aten._weight_norm_interface(*a, 0))
    yield Operator("mse_loss", [lambda d: [d(7, 40), d(7, 40)]], F.mse_loss)
    yield Operator("nll_loss_forward", [lambda d: [d(7, 9), d(7, dtype=torch.int64, low=0, high=9)]],
                   lambda x, y: aten.nll_loss_forward(x, y, None, 1, -100))
    yield Operator("glu", [lambda d: [d(7, 40)]], F.glu)


def products() -> Iterator[Operator]:
    for dtype, name in ((F32, "mm"), (FLOATS, "mm"), (FLOATS, "bmm")):
        if dtype is FLOATS:
            batch = (3,) if name == "bmm" else ()
            yield Operator(name, [(lambda d, t=t, b=batch: [d(*b, 17, 40, dtype=t), d(*b, 40, 23, dtype=t)])
                                  for t in dtype], getattr(torch, name), tolerance=4)
    yield Operator("addmm", [lambda d: [d(23), d(17, 40), d(40, 23)]], torch.addmm, tolerance=4)
    yield Operator("baddbmm", [lambda d: [d(2, 17, 23), d(2, 17, 40), d(2, 40, 23)]], torch.baddbmm, tolerance=4)
    yield Operator("mv", [lambda d: [d(17, 40), d(40)]], torch.mv, tolerance=4)
    yield Operator("dot", [lambda d: [d(300), d(300)]], torch.dot, tolerance=4)
    yield Operator("addr", [lambda d: [d(5, 9), d(5), d(9)]], torch.addr)
    yield Operator("kron", [lambda d: [d(3, 4), d(5, 2)]], torch.kron)
    yield Operator("conv1d", [lambda d: [d(2, 3, 20), d(4, 3, 3)]], F.conv1d, tolerance=4)
    yield Operator("conv2d", [lambda d: [d(2, 3, 9, 9), d(4, 3, 3, 3)]], F.conv2d, tolerance=4)
    yield Operator("scaled_dot_product_attention_forward",
                   [lambda d: [d(1, 2, 40, 128, dtype=torch.float16) for _ in range(3)]],
                   F.scaled_dot_product_attention, tolerance=2)


def indexing() -> Iterator[Operator]:
    def numbers(d: Draw, *shape: int, high: int) -> Any:
        return d(*shape, dtype=torch.int64, low=0, high=high)

    yield Operator("gather", [lambda d: [d(7, 20), 1, numbers(d, 7, 5, high=20)]], torch.gather,
                   outside="it passes a view with stride 0 in that dimension and goes on from there by itself")
    yield Operator("scatter", [lambda d: [d(7, 20), 1, torch.arange(35).view(7, 5) % 20, d(7, 5)]], torch.scatter)
    yield Operator("scatter_add_", [lambda d: [d(7, 20), 1, numbers(d, 7, 5, high=20), d(7, 5)]], torch.scatter_add)
    yield Operator("index_select", [lambda d: [d(7, 20), 1, numbers(d, 5, high=20)]], torch.index_select)
    yield Operator("index_add", [lambda d: [d(7, 20), 0, torch.tensor([4, 1, 6]), d(3, 20)]], torch.index_add)
    yield Operator("index", [lambda d: [d(7, 20), [numbers(d, 5, high=7), numbers(d, 5, high=20)]]], aten.index)
    yield Operator("index_put", [lambda d: [d(7, 20), [torch.tensor([4, 1, 6])], d(3, 20)]], torch.index_put)
    yield Operator("embedding", [lambda d: [d(30, 16), numbers(d, 4, 6, high=30)]], aten.embedding)
    yield Operator("masked_select", [lambda d: [d(7, 20), d(7, 20) > 0]], torch.masked_select)
    yield Operator("nonzero", [lambda d: [d(7, 20).round()]], torch.nonzero)
    yield Operator("flip", [lambda d: [d(7, 20), [0, 1]]], torch.flip)
    yield Operator("roll", [lambda d: [d(7, 20), [3], [1]]], torch.roll)
    yield Operator("tile", [lambda d: [d(7, 5), [2, 3]]], torch.tile)
    yield Operator("repeat", [lambda d: [d(7, 5), [2, 1, 3]]], lambda x, sizes: x.repeat(sizes))
    yield Operator("repeat_interleave_self_int", [lambda d: [d(7, 5), 3, 1]], torch.repeat_interleave)
    yield Operator("cat", [lambda d: [[d(7, 5), d(7, 3)], 1]], torch.cat)
    yield Operator("stack", [lambda d: [[d(7, 5), d(7, 5)], 1]], torch.stack)
    yield Operator("tril", [lambda d: [d(9, 12), 1]], torch.tril)
    yield Operator("triu", [lambda d: [d(9, 12), -1]], torch.triu)
    yield Operator("diag", [lambda d: [d(9)], lambda d: [d(9, 7)]], torch.diag)
    yield Operator("diag_embed", [lambda d: [d(3, 5)]], torch.diag_embed)
    yield Operator("constant_pad_nd", [lambda d: [d(4, 7), [1, 2, 3, 0], 5.0]], aten.constant_pad_nd)
    yield Operator("select_scatter", [lambda d: [d(7, 20), d(20), 0, 3]], torch.select_scatter)
    yield Operator("slice_scatter", [lambda d: [d(7, 20), d(7, 5), 1, 3, 13, 2]], torch.slice_scatter)
    yield Operator("isin", [lambda d: [numbers(d, 9, 9, high=30), numbers(d, 9, high=30)]], torch.isin)
    yield Operator("max_pool2d_with_indices", [lambda d: [d(2, 3, 9, 9), 3, 2]],
                   lambda *a: F.max_pool2d(*a, return_indices=True))
    yield Operator("avg_pool2d", [lambda d: [d(2, 3, 9, 9), 3, 2]], F.avg_pool2d)
    yield Operator("upsample_nearest2d", [lambda d: [d(2, 3, 5, 5), [8, 9]]], aten.upsample_nearest2d)


def order() -> Iterator[Operator]:
    yield Operator("sort", [lambda d: [d(7, 33), 1], lambda d: [d(3, 300), 1, True]], torch.sort)
    yield Operator("topk", [lambda d: [d(7, 33), 5], lambda d: [d(3, 300), 7]], torch.topk)
    yield Operator("_unique2", [lambda d: [d(60, dtype=torch.int64, low=0, high=20), True, True, True]],
                   torch._unique2)
    yield Operator("quantile", [lambda d: [d(7, 33), 0.4, 1]], torch.quantile)


def makers() -> Iterator[Operator]:
    yield Operator("arange_start", [lambda d: [3, 50, 4]], torch.arange)
    yield Operator("linspace", [lambda d: [0.5, 9.0, 21]], torch.linspace)
    yield Operator("eye", [lambda d: [9]], torch.eye)
    yield Operator("full", [lambda d: [[5, 7], 2.5]], torch.full)
    yield Operator("zeros_like", [lambda d: [d(5, 7)]], torch.zeros_like)
    yield Operator("to_copy", [lambda d: [d(5, 37)]], lambda x, dtype: x.to(dtype), {"dtype": torch.float16})


def kept(result: Any) -> list[Any]:
    """The values that occur, and how many tenths of them are kept."""
    x = result[0] if isinstance(result, tuple) else result
    return [x.unique(), (x > 0).float().mean().mul(10).round()]


def chances() -> Iterator[Operator]:
    """Random numbers: the shape, and what 3500 of them do on the average."""
    def seen(result: Any) -> list[Any]:
        x = result[0] if isinstance(result, tuple) else result
        return [torch.tensor(x.shape), x.float().mean(), x.float().std(), x.unique().numel() > 1000]

    roughly = 1000.0        # a tenth: four standard deviations of the mean of 3500 numbers that spread like uniform_'s
    yield Operator("rand", [lambda d: [[50, 70]]], torch.rand, part=seen, tolerance=roughly)
    yield Operator("randn", [lambda d: [[50, 70]]], torch.randn, part=seen, tolerance=roughly)
    yield Operator("rand_like", [lambda d: [d(50, 70)]], torch.rand_like, part=seen, tolerance=roughly)
    yield Operator("uniform_", [lambda d: [d(50, 70), -1.0, 3.0]], lambda x, a, b: x.uniform_(a, b),
                   part=seen, tolerance=roughly)
    yield Operator("normal_", [lambda d: [d(50, 70), 2.0, 0.5]], lambda x, m, s: x.normal_(m, s),
                   part=seen, tolerance=roughly)
    yield Operator("dropout", [lambda d: [torch.ones(50, 70), 0.3]], F.dropout,
                   part=kept)
    yield Operator("randperm", [lambda d: [300]], torch.randperm, part=lambda r: r.sort()[0])


OPERATORS = (*unary(), *binary(), *reductions(), *norms(), *products(), *indexing(), *order(), *makers(), *chances())
