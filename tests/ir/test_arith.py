"""Meanings that edge values alone do not prove: fused multiply-add, wide products, division in bulk."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.conform import exact
from tests.conform.rows import bits_of, flat
from tilewright.ir import fp
from tilewright.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I16, I32, I64, storage_dtype

FLOATS = [F16, BF16, F32, F64, F8E4M3, F8E5M2]


def fma_operands(t, count, seed):
    """Products next to half a unit of the addend, sums that cancel, and far-apart magnitudes."""
    rng = np.random.default_rng(seed)
    bits, smallest, largest, _ = exact.FORMATS[t.name]
    top = min(int(math.log2(largest)) if t != F64 else 1000, 40)
    eps = 2.0 ** (1 - bits)
    c = np.ldexp(1 + eps * rng.integers(0, 2 ** (bits - 1), count), rng.integers(0, top // 2, count))
    scale = np.exp2(np.floor(np.log2(c)) - bits)
    near = np.array([1 + eps, 1 - eps / 2, 1.0, 1 + eps, 1 - eps])[rng.integers(0, 5, count)]
    tie = (near, scale * np.array([1 - eps, 1 + eps, 1.0])[rng.integers(0, 3, count)], c)
    a, b = (1 + eps * rng.integers(0, 2 ** (bits - 1), count) for _ in range(2))
    cancel = (a, b, -fp.round_to(a * b, t) if t != F64 else -(a * b))
    far = [np.ldexp(rng.uniform(1, 2, count), rng.integers(max(smallest - bits, -900), top, count)) for _ in range(3)]
    signs = rng.choice([-1.0, 1.0], (3, 3 * count))
    return [fp.encode(s * np.concatenate(p), t) for s, p in zip(signs, zip(tie, cancel, far, strict=True), strict=True)]


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_fma_rounds_once(t):
    operands = fma_operands(t, 300, 1)
    got = fp.decode(flat("fma", (t, t, t), *operands), t).tolist()
    columns = [fp.decode(x, t).tolist() for x in operands]
    for g, a, b, c in zip(got, *columns, strict=True):
        assert g == exact.nearest(exact.exact_fma(a, b, c), t.name), (a, b, c)


@pytest.mark.parametrize("t", [F32, F64], ids=str)
def test_fma_differs_from_two_roundings_where_it_must(t):
    """The list of the test above is hard: rounding the product first, or the float64 sum again, is often wrong."""
    a, b, c = fma_operands(t, 300, 1)
    fused = flat("fma", (t, t, t), a, b, c)
    twice = flat("add_f", (t, t), flat("mul_f", (t, t), a, b), c)
    assert (bits_of(fused) != bits_of(twice)).sum() > 50
    if t == F32:
        summed = fp.encode(fp.decode(a, t) * fp.decode(b, t) + fp.decode(c, t), t)
        assert (bits_of(fused) != bits_of(summed)).sum() > 10


def test_fma_of_infinities_and_huge_products():
    inf, nan, big = math.inf, math.nan, 1e200
    cases = [((big, big, -inf), -inf), ((big, -big, inf), inf), ((big, big, -1.0), inf), ((inf, 0.0, 1.0), nan),
             ((inf, 2.0, -inf), nan), ((inf, 2.0, 3.0), inf), ((0.0, 5.0, -0.0), 0.0), ((-0.0, 5.0, -0.0), -0.0),
             ((1e-200, -1e-200, 0.0), -0.0), ((3.0, 2.0, -6.0), 0.0), ((nan, 1.0, inf), nan)]
    operands = [np.array(column) for column in zip(*(c for c, _ in cases), strict=True)]
    for got, (given, want) in zip(flat("fma", (F64,) * 3, *operands), cases, strict=True):
        assert (math.isnan(got) and math.isnan(want)) or (got == want and np.signbit(got) == np.signbit(want)), given


@pytest.mark.parametrize("t", [F16, BF16, F32, F8E4M3, F8E5M2], ids=str)
@pytest.mark.parametrize("row,rule", [("add_f", exact.exact_sum), ("sub_f", lambda a, b: exact.exact_sum(a, -b)),
                                      ("mul_f", exact.exact_product), ("div_rn", exact.exact_quotient)])
def test_rounding_the_float64_result_again_is_harmless(t, row, rule):
    """Random patterns: with 53 bits twice rounding is once rounding (Figueroa), in the range of denormals too."""
    rng = np.random.default_rng(6)
    a, b = (rng.integers(0, 256, 1500 * t.bytes, dtype=np.uint8).view(storage_dtype(t)) for _ in range(2))
    got = fp.decode(flat(row, (t, t), a, b), t).tolist()
    for g, x, y in zip(got, fp.decode(a, t).tolist(), fp.decode(b, t).tolist(), strict=True):
        want = exact.nearest(rule(x, y), t.name)
        assert g == want or (math.isnan(g) and math.isnan(want)), (x, y)


@pytest.mark.parametrize("t", [F16, BF16, F32], ids=str)
def test_quotients_next_to_ties_of_denormals(t):
    """(2m + 1) / 2 units of the smallest denormal, and a little beside it."""
    bits, smallest, _, _ = exact.FORMATS[t.name]
    tiny = 2.0 ** (smallest - bits + 1)
    m = np.arange(1, 200)
    cases = [(np.full(m.shape, tiny) * (2 * m + 1), np.full(m.shape, 2.0)),
             (fp.round_to(tiny * (2 * m + 1) * (1 + 2.0 ** (2 - bits)), t), np.full(m.shape, 2.0 + 2.0 ** (3 - bits)))]
    for a, b in cases:
        got = fp.decode(flat("div_rn", (t, t), fp.encode(a, t), fp.encode(b, t)), t).tolist()
        for g, x, y in zip(got, fp.round_to(a, t).tolist(), fp.round_to(b, t).tolist(), strict=True):
            assert g == exact.nearest(Fraction(x) / Fraction(y), t.name)


@pytest.mark.parametrize("t", [I8, I16, I32, I64], ids=str)
def test_division_and_high_products_in_bulk(t):
    rng = np.random.default_rng(7)
    shift = rng.integers(0, t.bits, 2000)       # magnitudes of every size
    patterns = rng.integers(0, 256, (2, 2000 * t.bytes), dtype=np.uint8).view(storage_dtype(t))
    a, b = (patterns >> [shift, shift[::-1]]).astype(storage_dtype(t))
    got = {row: flat(row, (t, t), a, b).tolist() for row in ("div_s", "rem_s", "div_u", "rem_u", "mulhi_u")}
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        ux, uy = exact.unsigned(x, t.bits), exact.unsigned(y, t.bits)
        assert got["mulhi_u"][i] == exact.wrap(ux * uy >> t.bits, t.bits)
        if y:
            q, r = exact.truncated_division(x, y)
            assert (got["div_s"][i], got["rem_s"][i]) == (exact.wrap(q, t.bits), r)
            assert (got["div_u"][i], got["rem_u"][i]) == (exact.wrap(ux // uy, t.bits), exact.wrap(ux % uy, t.bits))


def test_all_pairs_of_int8():
    a, b = (x.reshape(-1) for x in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    a8, b8 = a.astype(np.int8), b.astype(np.int8)
    ua, ub = a & 255, b & 255
    want = {"add": a + b, "sub": a - b, "mul": a * b, "mulhi_u": ua * ub >> 8, "min_u": np.minimum(ua, ub),
            "max_u": np.maximum(ua, ub), "min_s": np.minimum(a, b), "shl": a << (ub % 8), "shr_u": ua >> (ub % 8),
            "shr_s": a >> (ub % 8)}
    for row, values in want.items():
        np.testing.assert_array_equal(flat(row, (I8, I8), a8, b8), values.astype(np.int8), err_msg=row)
    nonzero = b != 0
    with np.errstate(all="ignore"):
        quotient = np.where(nonzero, np.trunc(a / b), 0).astype(int)
    remainder = np.where(nonzero, a - quotient * b, a)
    np.testing.assert_array_equal(flat("div_s", (I8, I8), a8, b8), quotient.astype(np.int8))
    np.testing.assert_array_equal(flat("rem_s", (I8, I8), a8, b8), remainder.astype(np.int8))
