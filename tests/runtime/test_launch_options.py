"""Options of a launch: names, checks, defaults from the decorator and the knobs."""

import pytest

from tilewright.language.options import Options
from tilewright.runtime import knobs
from tilewright.runtime.launch_options import make_options, unknown_keyword

SETTINGS = {name: knob.default for name, knob in knobs.TABLE.items()}


def test_nothing_given_is_the_default():
    assert make_options("k", {}, None, SETTINGS) == Options()


def test_none_means_default():
    assert make_options("k", {"num_warps": None, "maxnreg": None}, None, SETTINGS) == Options()


def test_given_values():
    made = make_options("k", {"num_warps": 8, "num_stages": 1, "debug": True, "enable_fp_fusion": True}, None, SETTINGS)
    assert made == Options(num_warps=8, num_stages=1, debug=True, enable_fp_fusion=True)


def test_debug_launch_over_decorator_over_knob():
    on = {**SETTINGS, "debug": True}
    assert make_options("k", {}, None, on).debug
    assert not make_options("k", {}, False, on).debug
    assert make_options("k", {"debug": True}, False, SETTINGS).debug


@pytest.mark.unchecked("what was compiled is looked at")
def test_knobs_that_affect_code_reach_the_options():
    assert make_options("k", {}, None, {**SETTINGS, "default_fp_fusion": True}).enable_fp_fusion
    assert make_options("k", {}, None, {**SETTINGS, "f32_default": "ieee"}).default_dot_input_precision == "ieee"
    affecting = {name for name, knob in knobs.TABLE.items() if knob.affects_code}
    other = {"debug": True, "default_fp_fusion": True, "f32_default": "ieee", "allow_non_constexpr_globals": True,
             "check_bounds": False, "debug_info": True}
    # three of them choose the target, the others forbid what is off by default
    assert affecting == other.keys() | {"cpu", "tensor_maps", "own_ptx", "force_disable_fp_fusion",
                                         "disable_line_info"}
    for name, value in other.items():
        assert make_options("k", {}, None, {**SETTINGS, name: value}) != Options(), name


def test_line_tables_can_be_forbidden():
    """As programs do for triton, which makes them by default."""
    wanted = {**SETTINGS, "debug_info": True}
    assert make_options("k", {}, None, wanted).line_info
    assert not make_options("k", {}, None, {**wanted, "disable_line_info": True}).line_info


@pytest.mark.parametrize("given, error, words", [
    ({"num_warps": 3}, ValueError, "num_warps must be a power of 2, not 3"),
    ({"num_warps": 4.0}, ValueError, "power of 2, not 4.0"),
    ({"num_ctas": 0}, ValueError, "num_ctas must be a power of 2"),
    ({"num_stages": -1}, ValueError, "num_stages must be an int >= 0"),
    ({"debug": "yes"}, TypeError, "debug must be a bool"),
    ({"default_dot_input_precision": "tf64"}, ValueError, "must be one of ieee, tf32"),
    ({"launch_pdl": 3}, TypeError, "launch_pdl must be bool"),
])
def test_wrong_values(given, error, words):
    with pytest.raises(error, match=words):
        make_options("k", given, None, SETTINGS)


def test_gpu_only_options_are_part_of_the_key():
    made = make_options("k", {"launch_pdl": True}, None, SETTINGS)
    assert made.extra == (("launch_pdl", True),) and hash(made) != hash(Options())


def test_unknown_keyword_suggests():
    error = unknown_keyword("k", "num_warp", ["x", "n"])
    assert isinstance(error, KeyError)
    assert str(error) == ("Keyword argument num_warp was specified but unrecognised (in a launch of k); "
                          "did you mean 'num_warps' or 'num_ctas'?")
    assert "parameters and options: x, n, arch, check, debug" in str(unknown_keyword("k", "zzzzzz", ["x", "n"]))


def test_fusion_can_be_forbidden():
    forbidden = {**SETTINGS, "force_disable_fp_fusion": True, "default_fp_fusion": True}
    assert not make_options("k", {"enable_fp_fusion": True}, None, forbidden).enable_fp_fusion
    assert not make_options("k", {}, None, forbidden).enable_fp_fusion
