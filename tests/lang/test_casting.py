"""Semantics §4: casts and bitcasts, and the decay of values by assignment (§1)."""

import numpy as np
import pytest

from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl
from tilewright.language import semantic
from tilewright.language.types import dtype

NAN, INF = float("nan"), float("inf")


def cast_ops(source, target, **kwargs):
    return trace(lambda b, x: x.to(dtype(target), **kwargs), f"{source}[4]").names


@pytest.mark.parametrize("source, target, ops", [
    ("fp32", "fp32", []), ("fp32", "fp64", ["fp_ext"]), ("fp64", "fp32", ["fp_trunc"]), ("fp32", "bf16", ["fp_trunc"]),
    ("fp16", "bf16", ["fp_ext", "fp_trunc"]), ("fp16", "fp32", ["fp_ext"]), ("fp8e5", "fp8e4nv", ["fp_trunc"]),
    ("fp8e5", "fp32", ["fp_ext"]), ("fp32", "int32", ["fp_to_int_s"]), ("fp32", "uint8", ["fp_to_int_u"]),
    ("fp16", "int32", ["fp_ext", "fp_to_int_s"]), ("bf16", "uint64", ["fp_ext", "fp_to_int_u"]),
    ("int32", "fp32", ["int_to_fp_s"]), ("uint32", "fp16", ["int_to_fp_u"]), ("int1", "fp32", ["int_to_fp_u"]),
    ("int32", "int64", ["ext_s"]), ("uint32", "int64", ["ext_u"]), ("int8", "uint64", ["ext_s"]),
    ("int1", "int32", ["ext_u"]), ("int64", "int8", ["trunc"]), ("int32", "uint32", []), ("uint64", "int64", []),
    ("int32", "int1", ["constant", "splat", "cmp_ne"]), ("fp32", "int1", ["constant", "splat", "cmp_une"]),
])
def test_the_ops_of_a_cast(source, target, ops):
    assert cast_ops(source, target) == ops


@pytest.mark.parametrize("pair", [("fp8e5", "int32"), ("int32", "fp8e5"), ("fp8e4nv", "uint8"), ("int1", "fp8e5")])
def test_fp8_and_integers_do_not_convert(pair):
    with pytest.raises(TypeError, match=f"cannot cast {pair[0]} to {pair[1]}"):
        cast_ops(*pair)


def test_values_of_casts():
    assert evaluate(lambda b, x: x.to(tl.int32), ([-2.9, 2.9, 0.5], "fp32")).tolist() == [-2, 2, 0]
    assert evaluate(lambda b, x: x.to(tl.int1), ([NAN, 0.0, -0.0, 0.5], "fp32")).tolist() == [True, False, False, True]
    assert evaluate(lambda b, x: x.to(tl.int1), ([2, 0, -256], "int32")).tolist() == [True, False, True]
    assert evaluate(lambda b, x: x.to(tl.int32), ([True, False], "int1")).tolist() == [1, 0]
    assert evaluate(lambda b, x: x.to(tl.float32), ([True, False], "int1")).tolist() == [1.0, 0.0]
    assert evaluate(lambda b, x: x.to(tl.int64), ([0xFFFFFFFF], "uint32")).tolist() == [0xFFFFFFFF]
    assert evaluate(lambda b, x: x.to(tl.uint64), ([-1], "int8")).tolist() == [2**64 - 1]
    assert evaluate(lambda b, x: x.to(tl.int8), ([300, -200], "int32")).tolist() == [44, 56]


def test_narrowing_floats_rounds_to_nearest_even_or_toward_zero():
    x = ([1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, -(1.0 + 3 * 2.0**-8)], "fp32")
    assert evaluate(lambda b, x: x.to(tl.bfloat16), x).tolist() == [1.0, 1.0 + 2.0**-6, -(1.0 + 2.0**-6)]
    assert evaluate(lambda b, x: x.to(tl.bfloat16, fp_downcast_rounding="rtz"), x).tolist() == [
        1.0, 1.0 + 2.0**-7, -(1.0 + 2.0**-7)]
    assert evaluate(lambda b, x: x.to(tl.float8e5), ([1.125, 1e9, NAN], "fp32"))[:2].tolist() == [1.0, 57344.0]


def test_the_rounding_argument_is_for_narrowing_floats():
    for source, target in (("fp16", "fp32"), ("fp32", "int32"), ("int32", "fp16"), ("fp32", "fp32")):
        with pytest.raises(ValueError, match="fp_downcast_rounding applies to a float cast to a narrower float"):
            cast_ops(source, target, fp_downcast_rounding="rtz")
    with pytest.raises(ValueError, match="must be 'rtne'"):
        cast_ops("fp32", "fp16", fp_downcast_rounding="up")
    assert cast_ops("fp32", "fp16", fp_downcast_rounding="rtne") == ["fp_trunc"]


def test_bitcast_keeps_bits_and_needs_equal_widths():
    assert evaluate(lambda b, x: x.to(tl.int32, bitcast=True), ([1.0], "fp32")).tolist() == [0x3F800000]
    assert cast_ops("int32", "uint32", bitcast=True) == []
    assert cast_ops("fp16", "bf16", bitcast=True) == ["bitcast"]
    with pytest.raises(ValueError, match="Cannot bitcast data-type of size 32 to data-type of size 16"):
        cast_ops("fp32", "fp16", bitcast=True)


def test_pointers():
    def to(target):
        return lambda b, p: p.to(target)

    assert trace(to(tl.int64), "*fp32").names == ["ptr_to_int"]
    assert trace(to(tl.uint64), "*fp32").result.dtype == tl.uint64
    assert trace(to(tl.int1), "*fp32").names == ["ptr_to_int", "constant", "cmp_ne"]
    assert trace(to(tl.pointer_type(tl.int8)), "*fp32[4]").names == ["bitcast"]
    assert trace(to(tl.pointer_type(tl.int8)), "int64").names == ["int_to_ptr"]
    assert trace(to(tl.pointer_type(tl.int8)), "uint32").names == ["ext_u", "int_to_ptr"]
    for target in (tl.int32, tl.float32, tl.float64):
        with pytest.raises(TypeError, match="cannot cast pointer<fp32>"):
            trace(to(target), "*fp32")
    with pytest.raises(TypeError, match="only integers convert to pointers"):
        trace(to(tl.pointer_type(tl.int8)), "fp64")


def test_the_type_argument():
    with pytest.raises(TypeError, match=r"dtype must be a type such as tl.float32.*write tl.float16"):
        trace(lambda b, x: x.to("fp16"), "fp32")
    assert trace(lambda b, x: x.to(tl.constexpr(tl.float16)), "fp32").result.dtype == tl.float16
    assert trace(lambda b, x: x.cast(tl.float16), "fp32").result.dtype == tl.float16


def test_cast_of_a_literal_rounds_once():
    assert evaluate(lambda b: call(b, tl.cast, 0.1, tl.float64)) == 0.1
    assert evaluate(lambda b: call(b, tl.cast, 2.9, tl.int32)) == 2
    assert evaluate(lambda b: call(b, tl.cast, 300, tl.int8)) == 44
    assert evaluate(lambda b: call(b, tl.cast, -1, tl.uint8)) == 255
    assert trace(lambda b: call(b, tl.cast, 1, tl.int1)).result.dtype == tl.int1


class TestDecay:
    def test_numbers_become_scalars_of_their_literal_type(self):
        for value, name in ((2.5, "fp32"), (1, "int32"), (True, "int1"), (2**40, "int64"), (tl.constexpr(1), "int32"),
                            (1e-40, "fp64")):
            assert str(trace(lambda b: semantic.decay(b, value)).result.type) == name

    def test_none_and_types_stay(self):
        for value in (None, tl.float32, tl.constexpr(None), tl.constexpr(tl.int8), tl.pointer_type(tl.int8)):
            assert semantic.decay(None, value) is value

    def test_tuples_decay_inside(self):
        done = trace(lambda b: semantic.decay(b, (1, (2.0, None), tl.float32)))
        first, (second, none), kind = done.result
        assert (str(first.type), str(second.type), none, kind) == ("int32", "fp32", None, tl.float32)

    def test_strings_and_functions_are_refused(self):
        for value in ("a", tl.constexpr("a"), len, tl.sum):
            with pytest.raises(TypeError, match=r"cannot convert .* to a tensor.*tl.constexpr"):
                semantic.decay(None, value)

    def test_a_tensor_stays(self):
        done = trace(lambda b, x: (x, semantic.decay(b, x)), "fp32")
        assert done.result[0] is done.result[1]


def test_join_types():
    assert semantic.join_types(tl.int32, tl.int64) == tl.int64
    assert semantic.join_types(tl.int32, tl.uint32) == tl.uint32
    assert semantic.join_types(tl.pointer_type(tl.int8), tl.pointer_type(tl.int8)) == tl.pointer_type(tl.int8)
    with pytest.raises(TypeError):
        semantic.join_types(tl.pointer_type(tl.int8), tl.int64)


def test_every_pair_of_types_casts_or_refuses():
    """int and float casts of all pairs agree with NumPy on values that both types hold."""
    names = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "fp16", "bf16", "fp32", "fp64"]
    values = np.array([0, 1, 2, 100, 127])
    for source in names:
        got = evaluate(lambda b, x: [x.to(dtype(t)) for t in names], (values, source))
        for array, target in zip(got, names):
            assert array.tolist() == values.tolist(), (source, target)
