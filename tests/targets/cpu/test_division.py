"""Tiles divided by one number: a multiplication by its reciprocal, within the bound of `div_f` everywhere."""

import numpy as np
import pytest

from tests.targets.cpu.harness import BF16, F16, F32, generated, kernel, ptr, run_cpu

EDGES = np.array([0.0, 1.0, 3.0, 49.0, 1e-45, 3e-45, 1e-40, 1.1754942e-38, 1.17549435e-38, 2.0**-126, 2.0**-125, 1e-30,
                  2.0**126, 1.7e38, 2.0**127, 3.4028235e38, 1e30, np.inf, np.nan, 0.1, 2.0**-24, 2.0**104], np.float32)
SIZE = 64


def divided(row="div_f", t=F32):
    """o = x / d[program]."""
    def body(b, x, d, o):
        place = b.iota(SIZE)
        divisor = b.load(b.at(d, b.pid()))
        quotient = b.binary(row, b.load(b.at(x, place)), divisor)
        b.store(b.at(o, b.add(b.mul(b.pid(), SIZE), place)), quotient)
    return kernel([("x", ptr(t)), ("d", ptr(t)), ("o", ptr(t))], body)


def steps(got, want):
    """How many numbers lie between, -0 and 0 being one."""
    def place(a):
        bits = a.view(f"i{a.itemsize}").astype(np.int64)
        return np.where(bits < 0, -(bits & ((1 << (8 * a.itemsize - 1)) - 1)), bits)
    return np.abs(place(got) - place(want))


def check(x, d, dtype, most):
    for start in range(0, len(x) - SIZE + 1, SIZE):
        part, o = x[start:start + SIZE], np.zeros((len(d), SIZE), dtype)
        run_cpu(divided(t=F32 if dtype == np.float32 else F16), (len(d),), [part, d, o])
        with np.errstate(all="ignore"):
            want = (part.astype(np.float64) / d[:, None].astype(np.float64)).astype(dtype)
        nan = np.isnan(want)
        np.testing.assert_array_equal(np.isnan(o), nan)
        zero = ~nan & (want == 0) & (o == 0)
        np.testing.assert_array_equal(np.signbit(o[zero]), np.signbit(want[zero]))
        assert steps(o, want)[~nan].max() <= most


def test_edges():
    check(np.resize(np.concatenate([EDGES, -EDGES]), SIZE), np.concatenate([EDGES, -EDGES]), np.float32, 2)


@pytest.mark.parametrize("dtype,most", [(np.float32, 2), (np.float16, 1)])
def test_random_bits(dtype, most):
    rng = np.random.default_rng(3)
    bits = f"u{np.dtype(dtype).itemsize}"
    x, d = (rng.integers(0, np.iinfo(bits).max, n, bits).view(dtype) for n in (4 * SIZE, 512))
    check(np.where(np.isnan(x), dtype(1), x), np.where(np.isnan(d), dtype(1), d), dtype, most)


def test_only_where_the_bound_allows_for_it():
    assert "fdiv <" not in generated(divided()).text and "fdiv float" in generated(divided()).text
    assert "fdiv <" not in generated(divided(t=BF16)).text
    exact = generated(divided("div_rn")).text
    assert "fdiv <" in exact and "fdiv float" not in exact
