"""Semantics §2 and §7: comparisons, truth, `and`, `or`, `not`, where."""

import numpy as np
import pytest

from tests.departures import differs
from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl
from tilewright.language import semantic

NAN = float("nan")


@pytest.mark.parametrize("operator, code", [("Lt", "lt"), ("LtE", "le"), ("Gt", "gt"), ("GtE", "ge"), ("Eq", "eq"),
                                            ("NotEq", "ne")])
def test_the_op_follows_the_promoted_type(operator, code):
    def name(a, b):
        return trace(lambda t, x, y: semantic.compare(t, operator, x, y), a, b).names[-1]

    plain = code in ("eq", "ne")
    assert name("int32[4]", "int32") == (f"cmp_{code}" if plain else f"cmp_{code}_s")
    assert name("uint32", "int32") == (f"cmp_{code}" if plain else f"cmp_{code}_u")
    assert name("uint8", "int32") == (f"cmp_{code}" if plain else f"cmp_{code}_s")
    assert name("fp16", "int64") == ("cmp_une" if code == "ne" else f"cmp_o{code}")
    assert trace(lambda t, x, y: semantic.compare(t, operator, x, y), "fp16", "fp32").result.dtype == tl.int1


def test_nan_is_different_from_itself_and_ordered_with_nothing():
    x = ([NAN, 1.0], "fp32")
    for operator, want in (("Lt", False), ("LtE", False), ("Gt", False), ("GtE", False), ("Eq", False),
                           ("NotEq", True)):
        assert bool(evaluate(lambda b, x: semantic.compare(b, operator, x, x), x)[0]) is want


@differs("A literal beside a tensor is weak everywhere", topic="Numbers",
         peer="3.6 makes it a run-time scalar in comparisons, `fma`, `div_rn`, `umulhi` and `fdiv`: `fma(h, 2.0, 1)` "
              "of fp16 is fp32, and `u32 < -1` compiles.",
         ours="As in 3.9: it takes the type of the tensor, and must fit it.")
def test_literals_are_weak_in_comparisons():
    for value in (-1, 2**32):
        with pytest.raises(ValueError, match="out of range for type uint32"):
            trace(lambda b, x: x < value, "uint32[4]")
    with pytest.raises(ValueError, match="Scalar 300 is out of range for type int8"):
        trace(lambda b, x: x == 300, "int8")
    assert trace(lambda b, x: x > 2.5, "fp16").names == ["constant", "cmp_ogt"]
    assert evaluate(lambda b, x: 3 > x, ([2, 3, 4], "int32")).tolist() == [True, False, False]


def test_compile_time_comparisons_fold():
    assert trace(lambda b: semantic.compare(b, "Lt", tl.constexpr(1), 2)).result.value is True
    assert trace(lambda b: semantic.compare(b, "Eq", "a", tl.constexpr("a"))).result.value is True
    assert trace(lambda b: semantic.compare(b, "NotEq", tl.float32, tl.constexpr(tl.float16))).result.value is True


def test_is_speaks_of_identity():
    assert trace(lambda b, x: semantic.compare(b, "Is", x, None), "fp32").result.value is False
    assert trace(lambda b, x: semantic.compare(b, "IsNot", x, tl.constexpr(None)), "fp32").result.value is True
    assert trace(lambda b: semantic.compare(b, "Is", tl.constexpr(None), None)).result.value is True
    assert trace(lambda b: semantic.compare(b, "Is", tl.dtype("fp32"), tl.float32)).result.value is True
    with pytest.raises(TypeError, match="use `is None`"):
        trace(lambda b, x: x == None, "fp32")  # noqa: E711


def test_not_takes_int1_only():
    assert evaluate(lambda b, x: semantic.unary(b, "Not", x), ([True, False], "int1")).tolist() == [False, True]
    with pytest.raises(ValueError, match="Cannot bitcast data-type of size 32 to data-type of size 1"):
        trace(lambda b, x: semantic.unary(b, "Not", x), "int32")
    assert semantic.unary(None, "Not", 0) is True
    assert semantic.unary(None, "Not", tl.constexpr(3)).value is False


class TestLogical:
    def test_compile_time_operands_short_circuit_and_are_returned(self):
        def logical(name, a, c):
            return semantic.logical(None, name, a, c)

        assert logical("And", True, 5) == 5 and logical("And", 0, 5) == 0
        assert logical("Or", 0, 5) == 5 and logical("Or", 3, 5) == 3
        assert logical("And", tl.constexpr(True), tl.constexpr(5)).value == 5

    def test_a_compile_time_left_decides_or_gives_the_right(self):
        done = trace(lambda b, x: (semantic.logical(b, "And", True, x), semantic.logical(b, "Or", True, x), x), "int1")
        right, decided, x = done.result
        assert right is x and decided is True and done.names == []

    def test_tensors(self):
        x, y = ([0, 0, 1, 1], "int1"), ([0, 1, 0, 1], "int1")
        assert evaluate(lambda b, x, y: semantic.logical(b, "And", x, y), x, y).tolist() == [0, 0, 0, 1]
        assert evaluate(lambda b, x, y: semantic.logical(b, "Or", x, y), x, y).tolist() == [0, 1, 1, 1]
        assert evaluate(lambda b, x, y: x.logical_or(y), x, y).tolist() == [0, 1, 1, 1]
        assert "element by element" in trace(lambda b, x: semantic.logical(b, "And", x, x), "int1[4]").warnings[0]
        assert trace(lambda b, x: semantic.logical(b, "And", x, x), "int1").warnings == []
        for decides, leaves in ((("Or", True), ("Or", 0)), (("And", None), ("And", "text"))):
            assert trace(lambda b, x, d=decides: semantic.logical(b, d[0], x, d[1]), "int1").result == decides[1]
            assert trace(lambda b, x, k=leaves: semantic.logical(b, k[0], x, k[1]) is x, "int32").result is True

    def test_links_of_a_chain_are_no_and_of_the_user(self):
        done = trace(lambda b, x: semantic.chain(b, x > 1, x < 5), "int32[4]")
        assert done.names[-1] == "and" and done.warnings == []
        assert trace(lambda b, x: semantic.chain(b, True, x), "int1").names == []

    def test_non_bools_are_refused(self):
        for function in (lambda b, x, y: semantic.logical(b, "And", x, y), lambda b, x, y: x.logical_and(y)):
            with pytest.raises(ValueError, match="Cannot bitcast data-type of size 32"):
                trace(function, "int1", "int32")


class TestTruth:
    def test_scalars_of_any_type_are_compared_with_zero(self):
        assert trace(semantic.truth, "int1").names == []
        assert trace(semantic.truth, "int32").names == ["constant", "cmp_ne"]
        assert trace(semantic.truth, "fp32").names == ["constant", "cmp_une"]
        assert trace(semantic.truth, "*fp32").names == ["ptr_to_int", "constant", "cmp_ne"]
        assert bool(evaluate(semantic.truth, (NAN, "fp32"))) is True

    def test_compile_time_values(self):
        assert semantic.truth(None, tl.constexpr(3)) is True
        assert semantic.truth(None, None) is False and semantic.truth(None, 0) is False
        for value in ("a", 1.0, (1,)):
            with pytest.raises(TypeError, match="must be a bool, an int or None"):
                semantic.truth(None, value)

    def test_tiles(self):
        with pytest.raises(ValueError, match="Boolean value of Tensor with more than one value is ambiguous"):
            trace(semantic.truth, "int1[4]")
        done = trace(semantic.truth, "int1[1, 1]")
        assert done.names == ["reshape"] and done.warnings

    def test_python_cannot_decide_on_a_tensor(self):
        with pytest.raises(TypeError, match="known only when the kernel runs"):
            trace(lambda b, x: bool(x), "int1")


class TestWhere:
    def test_types_promote_with_weak_literals(self):
        def kind(a, b):
            return str(trace(lambda t, c, x, y: call(t, tl.where, c, x, y), "int1[4]", a, b).result.dtype)

        assert kind("fp16", "bf16") == "fp16" and kind("int32", "uint8") == "int32"
        for literal in (0, 0.0, float("-inf")):
            done = trace(lambda b, c, x: call(b, tl.where, c, x, literal), "int1[4]", "fp16[4]")
            assert done.result.dtype == tl.float16
        assert trace(lambda b, c: call(b, tl.where, c, 1, 0), "int1").result.dtype == tl.int32
        assert trace(lambda b, c: call(b, tl.where, c, 1.0, 0), "int1").result.dtype == tl.float32

    def test_all_three_broadcast(self):
        done = trace(lambda b, c, x, y: call(b, tl.where, c, x, y), "int1[4, 1]", "fp32[8]", "fp32")
        assert done.result.type == tl.block_type(tl.float32, (4, 8))
        with pytest.raises(ValueError, match="incompatible dimensions"):
            trace(lambda b, c, x: call(b, tl.where, c, x, 0.0), "int1[4]", "fp32[8]")

    def test_other_conditions_warn_and_mean_nonzero(self):
        done = trace(lambda b, c, x: call(b, tl.where, c, x, 0.0), "int32[4]", "fp32[4]")
        assert "condition != 0" in done.warnings[0]
        got = evaluate(lambda b, c: call(b, tl.where, c, 1, 2), ([0, 5, -1], "int32"))
        assert got.tolist() == [2, 1, 1]

    def test_pointers(self):
        done = trace(lambda b, c, p, q: call(b, tl.where, c, p, q), "int1", "*fp32", "*fp32")
        assert done.names == ["select"] and done.result.dtype == tl.pointer_type(tl.float32)
        for other in ("*fp16", "int64"):
            with pytest.raises(TypeError, match="two pointers of one type"):
                trace(lambda b, c, p, q: call(b, tl.where, c, p, q), "int1", "*fp32", other)

    def test_bits_are_kept(self):
        got = evaluate(lambda b, c, x: call(b, tl.where, c, x, 1.0), ([1, 0], "int1"), ([NAN, -0.0], "fp32"))
        assert np.isnan(got[0]) and got[1] == 1.0
