"""heuristics: computed meta-parameters."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.runtime import knobs


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


@pytest.mark.unchecked("what was compiled is looked at")
@pytest.mark.parametrize("interpret", [False, True])
def test_a_rule_gives_options_of_the_launch(interpret):
    @triton.heuristics({"num_warps": lambda args: 8, "EVEN": lambda args: args["num_warps"] == 8})
    @triton.jit
    def kernel(out, EVEN: tl.constexpr):
        tl.store(out, 1 if EVEN else 2)

    out = np.zeros(1, np.int32)
    with knobs.scope(interpret=interpret):
        made = kernel[(1,)](out)
    assert out[0] == 1 and (interpret or made.metadata.num_warps == 8)


def tunable(out, BLOCK: tl.constexpr):
    tl.store(out, BLOCK)


CONFIGS = [triton.Config({"BLOCK": 1}), triton.Config({"BLOCK": 2}, num_warps=2)]


@pytest.mark.unchecked("what was compiled is looked at")
@pytest.mark.parametrize("configs", [CONFIGS, CONFIGS[:1]], ids=["several", "one"])
def test_options_from_rules_above_and_below_autotune(configs):
    rules = triton.heuristics({"num_warps": lambda args: 16, "num_stages": lambda args: 1})
    tuned = triton.autotune(configs, key=[], warmup=1, rep=1)
    for kernel in (rules(tuned(triton.jit(tunable))), tuned(rules(triton.jit(tunable)))):
        for _ in range(2):
            made = kernel[(1,)](np.zeros(1, np.int32))
            assert (made.metadata.num_warps, made.metadata.num_stages) == (16, 1)


def test_a_rule_for_neither_a_parameter_nor_an_option():
    with pytest.raises(ValueError, match="options of a launch are .*num_warps"):
        triton.heuristics({"num_warp": lambda args: 1})(triton.jit(tunable))


def test_a_rule_that_asks_for_what_is_not_there():
    kernel = triton.heuristics({"BLOCK": lambda args: args["n_elements"], "EVEN": lambda args: True})(fill.fn)
    with pytest.raises(KeyError, match="^fill: the rule of heuristics for 'BLOCK' asks for 'n_elements', but the "
                                       "arguments are out, n, grid, warmup$"):
        kernel[(1,)](np.zeros(8, np.int32), 4)
    misspelt = triton.heuristics({"BLOCK": lambda args: 8, "EVEN": lambda args: args["BLOK"] == 8})(fill.fn)
    with pytest.raises(KeyError, match="for 'EVEN' asks for 'BLOK', .* did you mean 'BLOCK'"):
        misspelt[(1,)](np.zeros(8, np.int32), 4)


def test_an_error_of_a_rule_is_shown_as_it_is():
    kernel = triton.heuristics({"BLOCK": lambda args: {}[8], "EVEN": lambda args: True})(fill.fn)
    with pytest.raises(KeyError, match="^8$"):
        kernel[(1,)](np.zeros(8, np.int32), 4)


def test_what_is_no_dict_of_functions():
    with pytest.raises(TypeError, match="heuristics takes a dict from names of parameters to functions"):
        triton.heuristics([lambda args: 8])
    with pytest.raises(TypeError, match="not {'BLOCK': 8}"):
        triton.heuristics({"BLOCK": 8})


def test_below_jit():
    with pytest.raises(TypeError, match="heuristics takes a kernel, not the plain function tunable; write @heuristics"):
        triton.heuristics({"BLOCK": lambda args: 8})(tunable)
