"""Semantics §8: elementary functions, abs, fma, umulhi, division, and §7's maximum, minimum, clamp."""

import math

import numpy as np
import pytest

from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl

NAN, INF = float("nan"), float("inf")
ELEMENTARY = ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil", "sqrt_rn", "sigmoid"]


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_take_fp32_and_fp64_only(name):
    function = getattr(tl, name)
    assert trace(lambda b, x: call(b, function, x), "fp32[4]").result.type == tl.block_type(tl.float32, (4,))
    assert trace(lambda b, x: getattr(x, name)(), "fp32").result.type == tl.float32
    assert trace(lambda b: call(b, function, 0.5)).result.type == tl.float32
    for kind in ("fp16", "bf16", "int32", "fp8e5"):
        with pytest.raises(TypeError, match=r"Expected dtype \['fp32'.*\] but got .*: .*write x.to\(tl.float32\)"):
            trace(lambda b, x: call(b, function, x), kind)
    with pytest.raises(TypeError, match=f"tl.{name} takes numbers, but this is a pointer: .* tl.load"):
        trace(lambda b, x: call(b, function, x), "*fp32")
    if name == "sqrt_rn":
        with pytest.raises(TypeError, match=r"Expected dtype \['fp32'\] but got fp64"):
            trace(lambda b, x: call(b, function, x), "fp64")
    else:
        assert trace(lambda b, x: call(b, function, x), "fp64").result.type == tl.float64


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "sqrt", "erf", "floor", "ceil"])
def test_values_of_elementary_functions(name):
    x = [0.25, 1.5, 3.0]
    got = evaluate(lambda b, x: call(b, getattr(tl, name), x), (x, "fp64"))
    assert got.tolist() == pytest.approx([getattr(math, name)(v) for v in x], rel=1e-14)


def test_math_module_has_the_same_functions():
    for name in ("exp", "abs", "fma", "umulhi", "fdiv", "div_rn"):
        assert getattr(tl.math, name) is getattr(tl, name)


def test_abs():
    assert evaluate(lambda b, x: x.abs(), ([-1.5, -0.0], "fp16")).tolist() == [1.5, 0.0]
    assert evaluate(lambda b, x: x.abs(), ([-3, 3, -128], "int8")).tolist() == [3, 3, -128]
    assert trace(lambda b, x: x.abs(), "uint32").names == []
    assert trace(lambda b, x: x.abs(), "int1").names == []
    with pytest.raises(TypeError, match="tl.abs takes numbers, but this is a pointer"):
        trace(lambda b, x: x.abs(), "*fp32")


class TestFma:
    def test_one_rounding(self):
        x = 1.0 + 2.0**-12
        got = evaluate(lambda b, x: call(b, tl.fma, x, x, -1.0), (x, "fp32"))
        assert float(got) == float(np.float32(x * x - 1.0))

    def test_types_promote_together(self):
        def kind(*types):
            return str(trace(lambda b, *v: call(b, tl.fma, *v), *types).result.dtype)

        assert kind("fp16", "fp16", "fp32") == "fp32" and kind("fp16", "bf16", "bf16") == "fp16"
        assert str(trace(lambda b, x: call(b, tl.fma, x, 2.0, 1), "fp16").result.dtype) == "fp16"
        assert str(trace(lambda b, x: call(b, tl.fma, 2.0, x, 1.5), "int32").result.dtype) == "fp32"
        with pytest.raises(TypeError, match="tl.fma works on floats"):
            kind("int32", "int32", "int32")

    def test_all_three_broadcast(self):
        done = trace(lambda b, x, y: call(b, tl.fma, x, y, 1.0), "fp32[4, 1]", "fp32[8]")
        assert done.result.shape == (4, 8)


def test_umulhi_is_unsigned():
    x = [-1, 3, 2**31 - 1]
    got = evaluate(lambda b, x: call(b, tl.umulhi, x, x), (x, "int32"))
    want = [((v % 2**32) ** 2 >> 32) for v in x]
    assert [int(v) % 2**32 for v in got] == want
    big = [2**63 + 5]
    got = evaluate(lambda b, x: call(b, tl.umulhi, x, x), (np.array(big, np.uint64), "uint64"))
    assert int(got[0]) == big[0] ** 2 >> 64
    with pytest.raises(TypeError, match="32 or 64 bits"):
        trace(lambda b, x: call(b, tl.umulhi, x, x), "int16")


def test_division():
    assert trace(lambda b, x, y: call(b, tl.div_rn, x, y), "fp32", "fp32").names == ["div_rn"]
    with pytest.raises(TypeError, match=r"Expected dtype \['fp32'\] but got fp64"):
        trace(lambda b, x, y: call(b, tl.div_rn, x, y), "fp64", "fp32")
    assert trace(lambda b, x, y: call(b, tl.fdiv, x, y), "fp16", "fp16").result.dtype == tl.float32
    assert trace(lambda b, x: call(b, tl.fdiv, x, 3.0, ieee_rounding=True), "fp32").names[-1] == "div_rn"
    assert trace(lambda b, x: call(b, tl.fdiv, x, 3.0), "fp32").names[-1] == "div_f"
    with pytest.raises(TypeError, match="both operands of fdiv must have floating scalar type"):
        trace(lambda b, x, y: call(b, tl.fdiv, x, y), "int32", "fp32")


class TestExtremes:
    @pytest.mark.parametrize("name, op", [("fp32", "max_f"), ("int32", "max_s"), ("uint8", "max_u"), ("int1", "or")])
    def test_ops(self, name, op):
        assert trace(lambda b, x, y: call(b, tl.maximum, x, y), name, name).names == [op]

    def test_a_nan_is_ignored_or_propagates(self):
        x = ([NAN, 1.0, NAN], "fp32"), ([2.0, NAN, NAN], "fp32")
        got = evaluate(lambda b, x, y: call(b, tl.maximum, x, y), *x)
        assert got[:2].tolist() == [2.0, 1.0] and np.isnan(got[2])
        every = tl.PropagateNan.ALL
        assert np.isnan(evaluate(lambda b, x, y: call(b, tl.minimum, x, y, propagate_nan=every), *x)).all()
        assert trace(lambda b, x: call(b, tl.maximum, x, 0.0, tl.constexpr(every)), "fp32").names[-1] == "max_nan_f"

    def test_literals_are_weak(self):
        """relu6 on fp16 stays fp16."""
        done = trace(lambda b, x: call(b, tl.minimum, call(b, tl.maximum, x, 0.0), 6.0), "fp16[8]")
        assert done.result.dtype == tl.float16
        assert trace(lambda b, x: call(b, tl.maximum, x, 0), "int8").result.dtype == tl.int8
        with pytest.raises(ValueError, match="out of range"):
            trace(lambda b, x: call(b, tl.maximum, x, 300), "int8")

    def test_clamp(self):
        got = evaluate(lambda b, x: call(b, tl.clamp, x, -1.0, 2), ([-5.0, 0.5, 9.0, NAN], "fp16"))
        assert got.tolist() == [-1.0, 0.5, 2.0, -1.0]
        assert np.isnan(evaluate(lambda b, x: call(b, tl.clamp, x, 0.0, 1.0, tl.PropagateNan.ALL), ([NAN], "fp32"))[0])
        assert evaluate(lambda b, x: call(b, tl.clamp, x, 0, 9), ([-5, 5, 50], "int32")).tolist() == [0, 5, 9]
        assert trace(lambda b, x: call(b, tl.clamp, x, min=0.0, max=1.0), "bf16").result.dtype == tl.bfloat16

    def test_the_nan_argument_is_checked(self):
        with pytest.raises(TypeError, match="propagate_nan must be tl.PropagateNan.NONE"):
            trace(lambda b, x: call(b, tl.maximum, x, x, propagate_nan=True), "fp32")

    def test_signed_zeros_are_ordered(self):
        got = evaluate(lambda b, x, y: call(b, tl.maximum, x, y), ([-0.0, 0.0], "fp32"), ([0.0, -0.0], "fp32"))
        assert not np.signbit(got).any()


def test_add_sub_mul_are_the_operators():
    assert trace(lambda b, x: call(b, tl.add, x, 1), "int8").names == ["constant", "add"]
    assert trace(lambda b, x: call(b, tl.sub, 1, x), "fp16").names == ["constant", "sub_f"]
    assert trace(lambda b, x: call(b, tl.mul, x, x), "uint8").names == ["mul"]
    assert trace(lambda b, p: call(b, tl.add, p, 1), "*int8").names == ["constant", "ptr_add"]
