"""Semantics §2: which op an operator picks, and its values."""

import numpy as np
import pytest

from tests.lang.recorder import evaluate, trace
from tilewright import language as tl
from tilewright.language import semantic
from tilewright.language.options import Options

I8 = np.array([-128, -7, -1, 0, 1, 7, 100, 127])


@pytest.mark.parametrize("operator, signed, unsigned, floating", [
    ("Add", "add", "add", "add_f"), ("Sub", "sub", "sub", "sub_f"), ("Mult", "mul", "mul", "mul_f"),
    ("FloorDiv", "div_s", "div_u", None), ("Mod", "rem_s", "rem_u", "rem_f"), ("Div", "div_f", "div_f", "div_f"),
    ("BitAnd", "and", "and", None), ("BitOr", "or", "or", None), ("BitXor", "xor", "xor", None),
    ("LShift", "shl", "shl", None), ("RShift", "shr_s", "shr_u", None),
])
def test_the_op_of_an_operator(operator, signed, unsigned, floating):
    for name, want in (("int32", signed), ("uint32", unsigned), ("fp32", floating)):
        if want is None:
            with pytest.raises(TypeError):
                trace(lambda b, x, y: semantic.binary(b, operator, x, y), name, name)
        else:
            assert trace(lambda b, x, y: semantic.binary(b, operator, x, y), f"{name}[4]", name).names[-1] == want


def test_division_truncates_toward_zero():
    x = np.array([-7, -6, 7, 6, -1, 0])
    assert evaluate(lambda b, x: x // 2, (x, "int32")).tolist() == [-3, -3, 3, 3, 0, 0]
    assert evaluate(lambda b, x: x % 2, (x, "int32")).tolist() == [-1, 0, 1, 0, -1, 0]
    assert evaluate(lambda b, x: x // -2, (x, "int64")).tolist() == [3, 3, -3, -3, 0, 0]
    assert evaluate(lambda b, x: x % -4, (x, "int32")).tolist() == [-3, -2, 3, 2, -1, 0]


def test_a_decayed_constant_truncates_but_a_constexpr_floors():
    assert evaluate(lambda b: semantic.binary(b, "FloorDiv", semantic.decay(b, -7), 2)) == -3
    assert trace(lambda b: semantic.binary(b, "FloorDiv", tl.constexpr(-7), 2)).result.value == -4
    assert trace(lambda b: semantic.binary(b, "Mod", tl.constexpr(-7), tl.constexpr(2))).result.value == 1
    assert trace(lambda b: semantic.binary(b, "Div", 7, tl.constexpr(2))).result.value == 3.5
    assert trace(lambda b: semantic.binary(b, "Pow", 2, tl.constexpr(5))).result.value == 32


def test_integer_division_by_zero_does_not_end_the_process():
    x, y = (np.array([2, -2, 0]), "int32"), (np.array([0, 0, 0]), "int32")
    quotient, remainder = evaluate(lambda b, x, y: (x // y, x % y), x, y)
    assert quotient.tolist() == evaluate(lambda b, x, y: x // y, x, y).tolist()
    assert remainder.tolist() == evaluate(lambda b, x, y: x % y, x, y).tolist()


def test_unsigned_division_sees_unsigned_values():
    x = np.array([0xFFFFFFFF, 7, 0x80000000])
    assert evaluate(lambda b, x: x // 2, (x, "uint32")).tolist() == [0x7FFFFFFF, 3, 0x40000000]
    assert evaluate(lambda b, x: x / 2, (x, "uint32")).tolist() == [2.0**31, 3.5, 2.0**30]


def test_integers_wrap():
    assert evaluate(lambda b, x: x + 1, (I8, "int8")).tolist() == (I8.astype(np.int8) + np.int8(1)).tolist()
    assert evaluate(lambda b, x: x * x, ([2**31 - 1], "int32")).tolist() == [1]
    assert evaluate(lambda b, x: -x, ([1, 0], "uint8")).tolist() == [255, 0]
    assert evaluate(lambda b, x: -x, ([-128], "int8")).tolist() == [-128]


def test_int1_arithmetic_is_modulo_two():
    x, y = ([False, True, True, False], "int1"), ([False, True, False, True], "int1")
    assert evaluate(lambda b, x, y: x + y, x, y).tolist() == [False, False, True, True]
    assert evaluate(lambda b, x, y: x * y, x, y).tolist() == [False, True, False, False]
    assert evaluate(lambda b, x, y: x - y, x, y).tolist() == [False, False, True, True]
    assert evaluate(lambda b, x: x // x, ([True], "int1")).tolist() == [True]
    assert evaluate(lambda b, x: x % x, ([True], "int1")).tolist() == [False]
    assert evaluate(lambda b, x: -x, x).tolist() == [False, True, True, False]
    assert evaluate(lambda b, x: ~x, x).tolist() == [True, False, False, True]
    assert evaluate(lambda b, x: x << False, x).tolist() == [False, True, True, False]
    assert evaluate(lambda b, x: x + 1, x).tolist() == [1, 2, 2, 1]


def test_integer_true_division_is_fp32():
    got = evaluate(lambda b, x: x / 4, ([1, 2, -3], "int64"))
    assert got.tolist() == [0.25, 0.5, -0.75]
    assert trace(lambda b, x: x / 4, "int64[4]").names.count("div_f") == 1


def test_float_remainder_has_the_sign_of_the_dividend():
    assert evaluate(lambda b, x: x % 3.0, ([-7.5, 7.5], "fp32")).tolist() == [-1.5, 1.5]


def test_the_left_operand_alone_picks_the_right_shift():
    assert trace(lambda b, x, y: x >> y, "int32", "uint32").names[-1] == "shr_s"
    assert trace(lambda b, x, y: x >> y, "int32", "uint32").result.dtype == tl.uint32
    assert trace(lambda b, x, y: x >> y, "uint32", "int32").names[-1] == "shr_u"
    assert evaluate(lambda b, x: x >> 1, ([-8, 8], "int32")).tolist() == [-4, 4]
    assert evaluate(lambda b, x: x >> 1, ([0xF0], "uint8")).tolist() == [0x78]


def test_a_constant_shift_by_the_width_warns():
    assert "undefined" in trace(lambda b, x: x << 32, "int32").warnings[0]
    assert trace(lambda b, x: x << 31, "int32").warnings == []


def test_bit_operators_refuse_floats():
    with pytest.raises(TypeError, match="invalid operands of type fp32 and int32"):
        trace(lambda b, x, y: x & y, "fp32", "int32")
    with pytest.raises(TypeError, match="invalid operands of type"):
        trace(lambda b, x: x | 1.0, "int32")
    with pytest.raises(TypeError, match="wrong type argument to unary invert"):
        trace(lambda b, x: ~x, "fp32")


def test_reflected_operators_keep_their_sides():
    assert evaluate(lambda b, x: 10 - x, ([1, 2], "int32")).tolist() == [9, 8]
    assert evaluate(lambda b, x: 10 // x, ([3, -3], "int32")).tolist() == [3, -3]
    assert evaluate(lambda b, x: 1 << x, ([3, 4], "int32")).tolist() == [8, 16]
    assert evaluate(lambda b, x: tl.constexpr(10) % x, ([3, 7], "int32")).tolist() == [1, 3]
    assert evaluate(lambda b, x: tl.constexpr(6) ^ x, ([3], "int32")).tolist() == [5]


def test_float_negation_flips_the_sign_of_zero():
    got = evaluate(lambda b, x: -x, ([0.0, -0.0, 2.0], "bf16"))
    assert np.signbit(got).tolist() == [True, False, True]


@pytest.mark.parametrize("operator, cure", [("Pow", "tl.exp2"), ("MatMult", "tl.dot")])
def test_operators_that_tensors_lack(operator, cure):
    with pytest.raises(TypeError, match=f"not available on tensors.*{cure}"):
        trace(lambda b, x: semantic.binary(b, operator, x, 2), "fp32[4]")


def test_strings_and_none_are_no_operands():
    for value in ("a", None, tl.float32):
        with pytest.raises(TypeError, match="takes numbers and tensors"):
            trace(lambda b, x: semantic.binary(b, "Add", x, value), "fp32[4]")


class TestPointers:
    def test_pointer_arithmetic(self):
        done = trace(lambda b, p, i: p + i, "*fp32", "int32[8]")
        assert done.names == ["splat", "ptr_add"] and str(done.result.type) == "<[8], pointer<fp32>>"
        assert trace(lambda b, p, i: i + p, "*fp32", "int32").result.type == tl.pointer_type(tl.float32)
        assert trace(lambda b, p: p + 3, "*fp32").names == ["constant", "ptr_add"]
        assert trace(lambda b, p, i: p - i, "*fp32", "int64").names == ["constant", "sub", "ptr_add"]

    @pytest.mark.parametrize("offset, ops", [
        ("int8", ["ext_s"]), ("int16", ["ext_s"]), ("int32", []), ("int64", []), ("uint64", []),
        ("uint8", ["ext_u"]), ("uint16", ["ext_u"]), ("uint32", ["ext_u"]), ("int1", ["ext_u"]),
    ])
    def test_offsets_extend_by_their_own_sign(self, offset, ops):
        done = trace(lambda b, p, i: p + i, "*fp32", offset)
        assert done.names == [*ops, "ptr_add"]
        if offset == "uint32":
            assert str(done.op("ext_u").attrs["to"]) == "i64"

    @pytest.mark.parametrize("function", [
        lambda b, p, q: p - q, lambda b, p, q: p + q, lambda b, p, q: p * 2, lambda b, p, q: p + 1.0,
        lambda b, p, q: 2 - p, lambda b, p, q: p & 1, lambda b, p, q: p // 2, lambda b, p, q: p / 2,
        lambda b, p, q: p == q, lambda b, p, q: p == 0, lambda b, p, q: p < q,
    ])
    def test_what_pointers_refuse(self, function):
        with pytest.raises(TypeError, match="invalid operands of type"):
            trace(function, "*fp32", "*fp32")

    def test_a_pointer_has_no_negative(self):
        with pytest.raises(TypeError, match="unary minus"):
            trace(lambda b, p: -p, "*fp32")


class TestOverflowCheck:
    options = Options(debug=True, sanitize_overflow=True)

    def test_asserts_are_made_under_both_options_only(self):
        def add(b, x):
            return x + x

        assert "device_assert" in trace(add, "int32", options=self.options).names
        for options in (Options(), Options(debug=True), Options(sanitize_overflow=True)):
            assert "device_assert" not in trace(add, "int32", options=options).names
        for name in ("int64", "uint64", "fp32", "int1"):
            assert "device_assert" not in trace(add, name, options=self.options).names

    def test_add_can_opt_out(self):
        done = trace(lambda b, x: tl.add.call(b, (x, x), {"sanitize_overflow": False}), "int32", options=self.options)
        assert done.names == ["add"]

    @pytest.mark.parametrize("operator", ["Add", "Sub", "Mult"])
    @pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint32"])
    def test_it_fires_where_the_value_does_not_fit(self, operator, name):
        low, high = tl.dtype(name).get_int_min_value(), tl.dtype(name).get_int_max_value()
        function = {"Add": int.__add__, "Sub": int.__sub__, "Mult": int.__mul__}[operator]

        def meaning(b, x, y):
            return semantic.binary(b, operator, x, y)

        for x in (low, high, 2):
            for y in (low, high, 1, 2):
                if low <= function(x, y) <= high:
                    assert evaluate(meaning, (x, name), (y, name), options=self.options) == function(x, y)
                else:
                    with pytest.raises(AssertionError, match=f"{name} overflow detected"):
                        evaluate(meaning, (x, name), (y, name), options=self.options)
