"""heuristics: computed meta-parameters."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"]),
                    "EVEN": lambda args: args["n"] == args["BLOCK"]})
@triton.jit
def fill(out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, 2)
    else:
        tl.store(out + i, 1, mask=i < n)


@pytest.mark.parametrize("n, expected", [(8, [2] * 8), (5, [1] * 5 + [0] * 3)])
def test_later_rules_see_earlier_values(n, expected):
    out = np.zeros(8, np.int32)
    fill[(1,)](out, n)
    assert out.tolist() == expected


def test_a_computed_value_replaces_a_keyword():
    out = np.zeros(8, np.int32)
    fill[(1,)](out, n=4, EVEN=True, BLOCK=8)
    assert out.tolist() == [2] * 4 + [0] * 4


def test_a_positional_value_is_one_too_many():
    with pytest.raises(TypeError, match="multiple values for argument 'BLOCK'"):
        fill[(1,)](np.zeros(8, np.int32), 4, 8)


def test_rules_see_grid_and_warmup():
    seen = []
    kernel = triton.heuristics({"EVEN": lambda args: seen.append((args["grid"], args["warmup"])) or False})(fill.fn)
    kernel[(2,)](np.zeros(8, np.int32), 4, BLOCK=8)
    kernel.warmup(np.zeros(8, np.int32), 4, BLOCK=8, grid=(3,))
    assert seen == [((2,), False), ((3,), True)]


def test_unknown_parameter():
    with pytest.raises(ValueError, match="heuristics for 'BLOK', but the parameters of fill are out, n, BLOCK, EVEN"):
        triton.heuristics({"BLOK": lambda args: 1})(fill.fn)


def test_options_of_the_launch_may_be_computed():
    @triton.heuristics({"num_warps": lambda args: 2 if args["n"] > 4 else 1})
    @triton.jit
    def ones(out, n, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), 1)

    compiled = ones[(1,)](np.zeros(8, np.int32), 8, BLOCK=8)
    assert compiled.metadata.num_warps == 2
