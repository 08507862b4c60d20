"""`tl.dot`: the matrix product of two tiles (semantics §6).

Any M, N, K >= 1 and any rank from 2 are allowed here; a target that needs larger sizes says so itself.
Tests: tests/lang/test_dot.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.ops.attributes import Precision
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, argument, as_written
from tilewright.language.tensor import tensor
from tilewright.language.types import (
    bfloat16,
    block_type,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    int8,
    int32,
)
from tilewright.language.values import (
    Shape,
    describe,
    emit,
    full_of,
    known,
    known_dtype,
    known_int,
    refuse_pointer,
    shape,
)

_OPERANDS = (int8, float16, bfloat16, float32, float64, float8e4nv, float8e5)


@builtin
def dot(input: Any, other: Any, acc: Any = None, input_precision: Any = None, allow_tf32: Any = None,
        max_num_imprecise_acc: Any = None, out_dtype: Any = None, *, _builder: Builder) -> tensor:
    """`input @ other + acc`, of tiles [M, K] and [K, N], or with equal sizes before: [..., M, K] and [..., K, N].

    Both have one type, or are any two of fp8.  The result, and `acc`, of the shape [..., M, N], have the type:

    * int8: int32;
    * fp16, fp8: `out_dtype`, fp16 or fp32; if it is not given, the type of `acc`, else fp32;
    * bf16, fp32: fp32;
    * fp64: fp64.

    `input_precision` ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"; `allow_tf32` is its old name) allows a rougher
    product of fp32 on machines that have units for it; others, and all CPUs, compute IEEE.  `max_num_imprecise_acc` is
    a hint for fp8.  Any sizes of 1 and more are allowed.  Refused: other types; sizes that do not fit; an `acc` of
    another type or shape; bf16 as `out_dtype`; `input_precision` together with `allow_tf32`.
    """
    a, b = _operand(input, "input"), _operand(other, "other")
    start = unwrap(acc)
    if start is not None and not isinstance(start, tensor):
        raise LanguageTypeError(f"acc of tl.dot must be a tensor, not {describe(start)}; start with tl.zeros")
    _check_types(a, b)
    sizes = _result_shape(a, b)
    result = _result_type(a, start, out_dtype)
    precision = _precision(_builder, a, input_precision, allow_tf32)
    _check_imprecise(a, max_num_imprecise_acc)
    if start is None:
        start = full_of(_builder, 0, result, sizes)
    elif shape(start) != sizes:
        raise LanguageValueError(f"acc of tl.dot must have the shape {list(sizes)} of the product, but it is {start}")
    return emit(_builder, "dot", (a, b, start), block_type(result, sizes), {"precision": precision})


def _operand(value: Any, name: str) -> tensor:
    value = unwrap(value)
    if not isinstance(value, tensor):
        raise LanguageTypeError(f"{name} of tl.dot must be a tile, not {describe(value)}")
    return value


def _check_types(a: tensor, b: tensor) -> None:
    for position, (x, name) in enumerate(((a, "input"), (b, "other"))):
        refuse_pointer(x, "tl.dot", argument("dot", position, name))
        if x.dtype not in _OPERANDS:
            raise LanguageTypeError(f"Unsupported dtype {x.dtype} of `{name}` in tl.dot; allowed are "
                                    f"{', '.join(map(str, _OPERANDS))}")
    both_fp8 = a.dtype.is_fp8() and b.dtype.is_fp8()
    if a.dtype != b.dtype and not both_fp8:
        raise LanguageTypeError(f"Both operands must be same dtype. Got {a.dtype} and {b.dtype}: cast one with "
                                f".to(tl.{a.dtype.codegen_name if isinstance(a.dtype, dtype) else a.dtype})")


def _result_shape(a: tensor, b: tensor) -> Shape:
    left, right = shape(a), shape(b)
    if len(left) != len(right) or len(left) < 2:
        raise LanguageValueError(f"Both inputs must be either 2D or 3D; (lhs: {list(left)} vs rhs: {list(right)}): "
                                 "they need one rank of at least 2")
    if left[:-2] != right[:-2]:
        raise LanguageValueError(f"the batch sizes of tl.dot differ: {list(left[:-2])} and {list(right[:-2])}")
    if left[-1] != right[-2]:
        raise LanguageValueError(f"First input shape ({list(left)}) and second input shape {list(right)} are not "
                                 "compatible for matmul: second index of first shape "
                                 f"({left[-1]}) must be equal to first index of second shape ({right[-2]}); "
                                 f"{_how_to_fit(left, right)}")
    return (*left[:-1], right[-1])


def _how_to_fit(left: Shape, right: Shape) -> str:
    """What to do with shapes whose inner sizes differ."""
    first, second = (as_written(argument("dot", i, name), name) for i, name in enumerate(("input", "other")))
    if left[-1] == right[-1]:
        return f"transpose the second: tl.trans({second})"
    if left[-2] == right[-2]:
        return f"transpose the first: tl.trans({first})"
    return f"{first} is [M, K] and {second} [K, N]: make both with the same K"


def _result_type(a: tensor, acc: tensor | None, out_dtype: Any) -> dtype:
    """The accumulator's type, by the table of semantics §6."""
    element = a.dtype
    wanted = None if unwrap(out_dtype) is None else known_dtype(out_dtype, "out_dtype")
    if wanted is None:
        wanted = float32 if acc is None or not isinstance(acc.dtype, dtype) else acc.dtype
    if wanted == bfloat16:
        raise LanguageValueError("out_dtype=bfloat16 is unsupported. Please use out_dtype=float32/float16 and cast "
                                 "with `.to(tl.bfloat16)`")
    if element == int8:
        result: dtype = int32
    elif element == float64:
        result = float64
    elif element in (bfloat16, float32):
        result = float32
    else:
        result = float16 if wanted == float16 else float32
    if acc is not None and acc.dtype != result:
        raise LanguageTypeError(f"acc of tl.dot has type {acc.dtype}, but a dot of {element} accumulates in {result}"
                                f"{' (pass out_dtype=tl.float16 for fp16)' if acc.dtype == float16 else ''}; make acc "
                                f"with dtype=tl.{result.codegen_name}")
    return result


def _precision(builder: Builder, a: tensor, input_precision: Any, allow_tf32: Any) -> Precision:
    name = known(input_precision, "input_precision")
    tf32 = known(allow_tf32, "allow_tf32")
    if name is not None and tf32 is not None:
        raise LanguageValueError("Only one of input_precision and allow_tf32 can be specified; allow_tf32 is the old "
                                 "name: True means 'tf32', False means 'ieee'")
    if name is None:
        name = builder.options.default_dot_input_precision if tf32 is None else ("tf32" if tf32 else "ieee")
    allowed = [p.value for p in Precision]
    if not isinstance(name, str) or name.lower() not in allowed:
        raise LanguageValueError(f"input_precision must be one of {allowed}. Got {name!r}")
    return Precision(name.lower()) if a.dtype == float32 else Precision.IEEE


def _check_imprecise(a: tensor, limit: Any) -> None:
    """`max_num_imprecise_acc` is a hint for fp8 on one GPU; it may not exceed K."""
    if known(limit, "max_num_imprecise_acc") is None:
        return
    value = known_int(limit, "max_num_imprecise_acc")
    if a.dtype.is_fp8() and value > shape(a)[-1]:
        raise LanguageValueError(f"max_num_imprecise_acc ({value}) must be <= K ({shape(a)[-1]})")
