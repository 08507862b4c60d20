"""Semantics §9: the words of Philox, bit for bit, and the distributions made of them."""

import numpy as np
import pytest

from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl

I = np.arange(4)


def draw(function, seed, offsets=I, kind="int32", **kwargs):
    return evaluate(lambda b, x: call(b, function, seed, x, **kwargs), (offsets, kind))


def test_randint4x():
    got = draw(tl.randint4x, 42)
    assert [w.tolist() for w in got] == [
        [2632642643, 4242219303, 3547071013, 3133604981], [2012563771, 1404726525, 2827443659, 2880376235],
        [314527917, 2207210094, 2588765593, 2518570307], [1463989207, 1951270651, 3322520921, 1628334071]]
    assert all(w.dtype == np.uint32 for w in got)


@pytest.mark.parametrize("seed, rounds, offset, want", [
    (0, 10, 0, [1713891541, 4175744164, 83534633, 3381718825]),
    (-1, 10, 0, [1923381001, 436131089, 392319618, 2391789588]),
    (42, 6, 0, [1272192152, 1724763614, 2089547779, 1853774685]),
    (42, 10, 2**33, [2615453395, 2327442525, 1995958715, 2557716692]),
])
def test_seeds_rounds_and_wide_offsets(seed, rounds, offset, want):
    kind = "int64" if offset else "int32"
    assert draw(tl.randint, seed, I + offset, kind, n_rounds=rounds).tolist() == want


def test_a_run_time_seed_is_the_same():
    for kind in ("int32", "int64", "uint64"):
        got = evaluate(lambda b, s, x: call(b, tl.randint, s, x), (42, kind), (I, "int32"))
        assert got.tolist() == draw(tl.randint, 42).tolist()
    got = evaluate(lambda b, s, x: call(b, tl.randint, s, x), (-1, "int32"), (I, "int32"))
    assert got.tolist() == draw(tl.randint, -1).tolist()


def test_rand():
    got = draw(tl.rand, 42)
    np.testing.assert_allclose(got, [0.77408016, 0.02456270, 0.34826630, 0.54080141], atol=5e-9)
    many = draw(tl.rand, 7, np.arange(4096))
    assert 0 <= many.min() and many.max() < 1 and abs(many.mean() - 0.5) < 0.02
    assert [w.tolist() for w in draw(tl.rand4x, 42)][0] == got.tolist()


def test_the_uniform_scale_never_gives_one():
    got = evaluate(lambda b, x: call(b, tl.uint_to_uniform_float, x), ([0, 2**31 - 1, 2**31, 2**32 - 1], "uint32"))
    assert got.min() >= 0 and got.max() < 1 and got[0] == 0 and got[3] == 0


def test_randn():
    got = draw(tl.randn, 42)
    np.testing.assert_allclose(got, [0.66061336, -1.54271352, -0.59046358, -0.60162544], rtol=2e-6)
    words = draw(tl.randn4x, 42)
    np.testing.assert_array_equal(words[0], got)
    many = np.concatenate([w.ravel() for w in draw(tl.randn4x, 3, np.arange(4096))])
    assert abs(many.mean()) < 0.03 and abs(many.std() - 1) < 0.03
    pair = evaluate(lambda b, u, v: call(b, tl.pair_uniform_to_normal, u, v), ([0.5], "fp32"), ([0.25], "fp32"))
    np.testing.assert_allclose([p[0] for p in pair], [0.0, 1.1774100], atol=1e-6)


def philox(counter, key, bits, rounds=10):
    """The algorithm of Salmon et al. on Python ints."""
    m0, m1, w0, w1 = {32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
                      64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}[bits]
    mask = (1 << bits) - 1
    (a, b, c, d), (k, q) = counter, key
    for _ in range(rounds):
        p0, p1 = m0 * a, m1 * c
        a, b, c, d = (p1 >> bits) ^ b ^ k, p1 & mask, (p0 >> bits) ^ d ^ q, p0 & mask
        k, q = (k + w0) & mask, (q + w1) & mask
    return [a, b, c, d]


@pytest.mark.parametrize("bits", [32, 64])
def test_philox_words_of_both_widths(bits):
    kind = f"uint{bits}"
    counter = [[7, 2**bits - 1], [1, 2], [3, 4], [5, 6]]
    arrays = [(np.array(c, np.uint64), kind) for c in counter]
    got = evaluate(lambda b, *c: call(b, tl.philox, 12345, *c), *arrays)
    for lane in range(2):
        want = philox([c[lane] for c in counter], (12345, 0), bits)
        assert [int(w[lane]) for w in got] == want
    direct = evaluate(lambda b, *c: call(b, tl.philox_impl, *c, 12345, 0), *arrays)
    assert [d.tolist() for d in direct] == [g.tolist() for g in got]


def test_refuses():
    with pytest.raises(TypeError, match="offset must be an integer"):
        trace(lambda b, x: call(b, tl.rand, 1, x), "fp32[4]")
    with pytest.raises(TypeError, match="seed must be an integer"):
        trace(lambda b, x: call(b, tl.rand, 1.5, x), "int32[4]")
    with pytest.raises(ValueError, match="n_rounds"):
        trace(lambda b, x: call(b, tl.rand, 1, x, n_rounds=0), "int32[4]")
    with pytest.raises(TypeError, match="n_rounds must be known"):
        trace(lambda b, x: call(b, tl.rand, 1, x, n_rounds=x), "int32")
