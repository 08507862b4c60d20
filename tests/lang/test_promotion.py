"""Semantics §2: promotion of two tensors (the full matrix), of literals with tensors, and ranges of literals."""

import itertools

import pytest

from tests.departures import differs
from tests.lang.recorder import trace
from tilewright import language as tl
from tilewright.language import semantic
from tilewright.language.promotion import literal_type, promote
from tilewright.language.types import dtype

INTS = ["int1", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["fp8e5", "fp8e4nv", "bf16", "fp16", "fp32", "fp64"]

# rules 2 to 8 written out: the row's type with the column's; "-" is a TypeError
MATRIX = """
         int1   uint8  uint16 uint32 uint64 int8   int16  int32  int64  fp8e5  fp8e4nv bf16  fp16  fp32 fp64
int1     int1   uint8  uint16 uint32 uint64 int8   int16  int32  int64  -      -       fp32  fp16  fp32 fp64
uint8    uint8  uint8  uint16 uint32 uint64 uint8  int16  int32  int64  -      -       fp32  fp16  fp32 fp64
uint16   uint16 uint16 uint16 uint32 uint64 uint16 uint16 int32  int64  -      -       fp32  fp16  fp32 fp64
uint32   uint32 uint32 uint32 uint32 uint64 uint32 uint32 uint32 int64  -      -       fp32  fp16  fp32 fp64
uint64   uint64 uint64 uint64 uint64 uint64 uint64 uint64 uint64 uint64 -      -       fp32  fp16  fp32 fp64
int8     int8   uint8  uint16 uint32 uint64 int8   int16  int32  int64  -      -       fp32  fp16  fp32 fp64
int16    int16  int16  uint16 uint32 uint64 int16  int16  int32  int64  -      -       fp32  fp16  fp32 fp64
int32    int32  int32  int32  uint32 uint64 int32  int32  int32  int64  -      -       fp32  fp16  fp32 fp64
int64    int64  int64  int64  int64  uint64 int64  int64  int64  int64  -      -       fp32  fp16  fp32 fp64
fp8e5    -      -      -      -      -      -      -      -      -      fp8e5  fp16    fp32  fp16  fp32 fp64
fp8e4nv  -      -      -      -      -      -      -      -      -      fp16   fp8e4nv fp32  fp16  fp32 fp64
bf16     fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32    bf16  fp16  fp32 fp64
fp16     fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp16    fp16  fp16  fp32 fp64
fp32     fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32    fp32  fp32  fp32 fp64
fp64     fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64    fp64  fp64  fp64 fp64
"""


def matrix():
    rows = [line.split() for line in MATRIX.strip().splitlines()]
    return {(row[0], column): cell for row in rows[1:] for column, cell in zip(rows[0], row[1:])}


def test_the_matrix_is_complete_and_symmetric():
    table = matrix()
    assert set(table) == set(itertools.product(INTS + FLOATS, repeat=2))
    assert all(table[a, b] == table[b, a] for a, b in table)


@pytest.mark.parametrize("left", INTS + FLOATS)
def test_promotion_of_two_tensors(left):
    for right in INTS + FLOATS:
        want = matrix()[left, right]
        if want == "-":
            with pytest.raises(TypeError, match="invalid operands of type"):
                promote(dtype(left), False, dtype(right), False)
        else:
            assert str(promote(dtype(left), False, dtype(right), False)) == want, (left, right)


@pytest.mark.parametrize("left", INTS + FLOATS)
def test_addition_of_tensors_has_the_promoted_type(left):
    for right in INTS + FLOATS:
        want = matrix()[left, right]
        if want != "-":
            done = trace(lambda b, x, y: x + y, f"{left}[4]", right)
            assert str(done.result.dtype) == want
            assert done.names[-1] == ("add_f" if dtype(want).is_floating() else "add")


def _mixed(a, b):
    return a.int_signedness != b.int_signedness


@pytest.mark.parametrize("left", INTS + FLOATS)
def test_division_promotes_to_fp32_and_refuses_mixed_signs(left):
    for right in INTS + FLOATS:
        a, b = dtype(left), dtype(right)
        if matrix()[left, right] == "-":
            continue
        if a.is_int() and b.is_int():
            if _mixed(a, b):
                for operator in ("Div", "FloorDiv", "Mod"):
                    with pytest.raises(TypeError, match="because they have different signedness"):
                        trace(lambda t, x, y: semantic.binary(t, operator, x, y), a, b)
            else:
                assert trace(lambda t, x, y: x / y, a, b).result.dtype == tl.float32
                assert str(trace(lambda t, x, y: x // y, a, b).result.dtype) == matrix()[left, right]
            continue
        want = tl.float64 if "fp64" in (left, right) else tl.float32
        assert trace(lambda t, x, y: x / y, a, b).result.dtype == want
        assert trace(lambda t, x, y: x % y, a, b).result.dtype == want
        with pytest.raises(TypeError, match="unexpected type fp"):
            trace(lambda t, x, y: x // y, a, b)


# literal: the result with a tensor of each type (rule 1)
LITERALS = [
    (True, {t: t for t in INTS + FLOATS}),
    (1, {"int1": "int32"} | {t: t for t in INTS[1:] + FLOATS}),
    (1.5, dict.fromkeys(INTS, "fp32") | {t: t for t in FLOATS}),
    (1e-300, dict.fromkeys(INTS, "fp64") | {t: t for t in FLOATS}),
]


@pytest.mark.parametrize("literal, table", LITERALS, ids=lambda v: str(v)[:8])
def test_weak_literals(literal, table):
    for name, want in table.items():
        for wrapped in (literal, tl.constexpr(literal)):
            assert str(trace(lambda b, x: x + wrapped, f"{name}[4]").result.dtype) == want, name
            assert str(trace(lambda b, x: semantic.binary(b, "Mult", wrapped, x), name).result.dtype) == want, name


def test_scalar_tensors_are_strong():
    """`c = 2.5; c + f16` is fp32, and `c = 1; c + i8` is int32: assignment decays."""
    assert trace(lambda b, x: semantic.decay(b, 2.5) + x, "fp16[4]").result.dtype == tl.float32
    assert trace(lambda b, x: semantic.decay(b, 1) + x, "int8[4]").result.dtype == tl.int32
    assert trace(lambda b, x: 2.5 + x, "fp16[4]").result.dtype == tl.float16
    assert trace(lambda b, x: 1 + x, "int8[4]").result.dtype == tl.int8


@differs("Quotients of narrow floats are fp32", topic="Numbers",
         peer="In 3.6 `fdiv` of two fp16 stays fp16, and fp8 / fp8 stays fp8.",
         ours="As in 3.9: `/` and `%` of fp16, bf16 and fp8 are computed in fp32.")
def test_division_by_a_literal_of_narrow_floats_is_fp32():
    for name in ("fp16", "bf16", "fp8e5", "fp8e4nv"):
        assert trace(lambda b, x: x / 2, f"{name}[4]").result.dtype == tl.float32
        assert trace(lambda b, x: x % 2.0, f"{name}[4]").result.dtype == tl.float32
    assert trace(lambda b, x: x / 2, "fp64").result.dtype == tl.float64
    assert trace(lambda b, x: 3 / x, "int64").result.dtype == tl.float32


@pytest.mark.parametrize("name", INTS[1:])
def test_literals_must_fit(name):
    t = dtype(name)
    low, high = t.get_int_min_value(), t.get_int_max_value()
    for value in (low, high):
        assert trace(lambda b, x: x + value, name).result.dtype == t
    if t.int_bitwidth < 64:
        for value in (low - 1, high + 1):
            for operator in ("Add", "BitAnd", "FloorDiv"):
                with pytest.raises(ValueError, match=f"Scalar {value} is out of range for type {name}"):
                    trace(lambda b, x: semantic.binary(b, operator, x, value), name)
    if t.is_int_unsigned():
        with pytest.raises(ValueError, match="Scalar -1 is out of range"):
            trace(lambda b, x: semantic.compare(b, "Lt", x, -1), name)


def test_the_type_of_a_literal_alone():
    table = {
        True: "int1", 0: "int32", 2**31 - 1: "int32", -2**31: "int32", 2**31: "uint32", 2**32 - 1: "uint32",
        2**32: "int64", -2**31 - 1: "int64", 2**63 - 1: "int64", 2**63: "uint64", 2**64 - 1: "uint64",
        0.5: "fp32", float("inf"): "fp32", float("nan"): "fp32", 1e-40: "fp64", 3.5e38: "fp64", 2.0**-126: "fp32",
    }
    for value, want in table.items():
        assert str(literal_type(value)) == want, value
    assert str(literal_type(0.0)) == "fp32"
    for value in (2**64, -2**63 - 1):
        with pytest.raises(ValueError, match="Nonrepresentable integer"):
            literal_type(value)


def test_fp8_takes_integer_literals_but_no_integer_tensor():
    assert trace(lambda b, x: x * 2, "fp8e5[4]").result.dtype == tl.float8e5
    with pytest.raises(TypeError, match="fp8"):
        trace(lambda b, x, y: x * y, "fp8e5[4]", "int32[4]")
