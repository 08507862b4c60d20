"""Where we depart from triton on purpose, as far as no other test pins it (docs/differences.md)."""

import warnings

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.runtime import knobs

HALF_ULP = 2.0**-12     # (1 + HALF_ULP) ** 2 is 1 + 2**-11 + 2**-24, and the last term is rounded away in fp32


@triton.jit
def product_and_sum(out, x, y):
    tl.store(out, tl.load(x) * tl.load(x) - tl.load(y))


def operands():
    return np.zeros(1, np.float32), np.full(1, 1 + HALF_ULP, np.float32), np.full(1, 1 + 2 * HALF_ULP, np.float32)


@differs("A product and a sum are rounded apart", topic="Numbers",
         peer="3.6 and 3.9 contract `x * y + z` to one rounding by default (3.9 warns that this will end).",
         ours="Contraction is off, on by `enable_fp_fusion=True` or `TRITON_DEFAULT_FP_FUSION=1`, and then the same "
              "on every engine.")
def test_a_product_is_rounded_before_it_is_added_to(launch):
    out, x, y = operands()
    launch(product_and_sum, (1,), out, x, y)
    assert out[0] == 0


@differs("A product and a sum are rounded apart")
def test_fusion_is_an_option_and_a_knob():
    out, x, y = operands()
    product_and_sum[(1,)](out, x, y, enable_fp_fusion=True)
    assert out[0] == 2.0**-24
    out[0] = 7
    with knobs.scope(default_fp_fusion=True):
        product_and_sum[(1,)](out, x, y)
    assert out[0] == 2.0**-24


@triton.jit
def one_product(out, x, PRECISION: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x + i[:, None] * 16 + i[None, :])
    tl.store(out + i[:, None] * 16 + i[None, :], tl.dot(a, a, input_precision=PRECISION))


@differs("`tl.dot` of fp32 keeps its bits on a CPU", topic="Numbers",
         peer="The default `input_precision` is tf32, with 10 bits of fraction.",
         ours="The argument allows a rougher product and never asks for it; CPUs and interpreters compute IEEE, "
              "GPUs tf32.")
@pytest.mark.parametrize("precision", [None, "tf32", "ieee", "bf16x3"])
def test_a_product_of_fp32_keeps_its_bits(launch, precision, request):
    """tf32 would cut 1 + 2**-12, of which it has 10 bits, to 1."""
    x = (np.eye(16) * (1 + HALF_ULP)).astype(np.float32)
    out = np.zeros_like(x)
    launch(one_product, (1,), out, x, PRECISION=precision)
    has_tf32 = request.node.callspec.params["launch"] in ("ptx", "cuda") and precision == "tf32"
    np.testing.assert_array_equal(out, np.eye(16, dtype=np.float32) * (1 if has_tf32 else x[0, 0] * x[0, 0]))


@triton.jit
def running_total(out, x, n, B: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    for i in tl.range(0, n, num_stages=3):
        total += tl.load(x + i * B + tl.arange(0, B))
        tl.store(x + i * B + tl.arange(0, B), total)
    tl.store(out, tl.sum(total, 0))


@differs("`num_warps`, `num_stages` and the like do nothing on a CPU", topic="Launching and tuning",
         peer="They change the code, and can change results.",
         ours="They are checked and are part of the key, and change no bit.")
@pytest.mark.parametrize("options", [{}, {"num_stages": 1}, {"num_stages": 5, "num_warps": 1}, {"num_warps": 16},
                                     {"num_ctas": 2}])
def test_options_of_gpus_change_no_bit(options):
    first = np.random.default_rng(0).standard_normal((8, 48)).astype(np.float32)
    second, sums = first.copy(), np.zeros(2, np.float32)
    running_total[(1,)](sums, first, 8, B=48)
    running_total[(1,)](sums[1:], second, 8, B=48, **options)
    assert sums[0] == sums[1] != 0
    np.testing.assert_array_equal(first, second)


@differs("`num_ctas` has no effect", topic="Launching and tuning",
         peer="From compute capability 9.0 on, a program is spread over so many thread blocks of a cluster.",
         ours="It is checked and is part of the key; a program runs on one block everywhere. For GPUs a "
              "`SingleCtaWarning` says so once a process.")
@pytest.mark.parametrize("num_ctas", [2, 4])
@pytest.mark.filterwarnings("ignore::tilewright.diagnostics.SingleCtaWarning")
def test_programs_of_several_ctas(launch, num_ctas):
    """The sum depends on its order, which one block alone decides."""
    x = np.random.default_rng(1).standard_normal((8, 48)).astype(np.float32)
    sums = np.zeros((2, 1), np.float32)
    launch(running_total, (1,), sums[0], x.copy(), 8, B=48)
    launch(running_total, (1,), sums[1], x.copy(), 8, B=48, num_ctas=num_ctas)
    assert sums[0] == sums[1] != 0


@triton.jit
def returns_its_sum(out, x, WITH: tl.constexpr):
    total = tl.load(x) + tl.load(x + 1)
    tl.store(out, total)
    if WITH:
        return total
    else:
        return None


@differs("A value that a kernel returns is warned of", topic="Control flow",
         peer="Code for GPUs fails in a pass of the compiler; the interpreter drops the value.",
         ours="Every engine drops it, with a warning at the `return`.")
def test_what_a_kernel_returns_is_dropped_with_a_warning(launch):
    out, x = np.zeros(1, np.int32), np.array([3, 4], np.int32)
    with pytest.warns(UserWarning, match="returns_its_sum is launched as a kernel, and nobody takes") as seen:
        launch(returns_its_sum, (1,), out, x, True)
    line = returns_its_sum.fn.__code__.co_firstlineno + 5
    assert out[0] == 7 and {(w.filename, w.lineno) for w in seen} == {(__file__, line)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(returns_its_sum, (1,), out, x, False)
