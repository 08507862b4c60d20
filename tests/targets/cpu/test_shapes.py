"""Rearrangements: reshape, permute, join, split, cat, in chains and behind reductions and loops."""

import numpy as np
import pytest

from tests.targets.cpu.harness import F16, F32, I1, I8, I32, I64, both, generated, kernel, ptr


def flat(b, p, n):
    return b.at(p, b.iota(n))


def tile(b, p, shape):
    return b.load(b.op("reshape", flat(b, p, int(np.prod(shape))), shape=shape))


def put(b, o, value, n, at=0):
    b.store(flat(b, b.at(o, b.const(at)), n), b.op("reshape", value, shape=(n,)))


@pytest.mark.parametrize("source,target", [((12,), (3, 4)), ((6, 32), (32, 6)), ((4, 48), (2, 96)), ((4, 48), (8, 24)),
                                           ((5, 7), (7, 5)), ((2, 3, 16), (96,)), ((16, 16), (4, 4, 16))])
def test_reshape(source, target):
    n = int(np.prod(source))
    def body(b, x, o):
        t = b.op("reshape", tile(b, x, source), shape=target)
        put(b, o, b.mul(t, t), n)
        put(b, o, b.op("permute", t, order=tuple(reversed(range(len(target))))), n, n)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [np.arange(n, dtype=np.float32),
                                                              np.zeros(2 * n, np.float32)])


@pytest.mark.parametrize("t,dtype", [(F32, np.float32), (I8, np.int8), (F16, np.float16), (I64, np.int64)])
@pytest.mark.parametrize("n", [1, 5, 16, 40])
def test_join_split_interleave(t, dtype, n):
    def body(b, x, o):
        a, c = b.load(flat(b, x, n)), b.load(flat(b, b.at(x, b.const(n)), n))
        both_ = b.op("join", a, c)
        put(b, o, both_, 2 * n)
        p, q = b.op("split", b.op("reshape", both_, shape=(n, 2)))
        put(b, o, b.binary("sub_f" if t.is_float else "sub", q, p), n, 2 * n)
        even, odd = b.op("split", b.op("reshape", b.op("cat", a, c, axis=0), shape=(n, 2)))
        put(b, o, b.op("join", odd, even), 2 * n, 3 * n)
    both(kernel([("x", ptr(t)), ("o", ptr(t))], body), (1,), [np.arange(2 * n).astype(dtype), np.zeros(5 * n, dtype)])


def test_split_and_reshape_to_scalars():
    def body(b, x, o):
        p, q = b.op("split", b.load(flat(b, x, 2)))
        b.store(o, b.op("add_f", p, b.op("mul_f", q, q)))
        b.store(b.at(o, b.const(1)), b.op("reshape", b.load(flat(b, b.at(x, b.const(1)), 1)), shape=()))
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,),
         [np.array([2, 3], np.float32), np.zeros(2, np.float32)])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cat(axis):
    a, c = [3, 4, 5], [3, 4, 5]
    c[axis] = 2
    n = int(np.prod(a)) + int(np.prod(c))
    def body(b, x, y, o):
        put(b, o, b.op("cat", tile(b, x, tuple(a)), b.mul(tile(b, y, tuple(c)), tile(b, y, tuple(c))), axis=axis), n)
    x, y = np.arange(np.prod(a)), -np.arange(np.prod(c))
    both(kernel([("x", ptr(F32)), ("y", ptr(F32)), ("o", ptr(F32))], body), (1,),
         [x.astype(np.float32), y.astype(np.float32), np.zeros(n, np.float32)])


def test_permute_of_a_product_and_of_a_reduction():
    def body(b, x, o):
        t = tile(b, x, (4, 6))
        u = b.op("permute", t, order=(1, 0))
        p = b.op("dot", t, u, b.const(0.0, F32, (4, 4)))
        put(b, o, b.op("permute", p, order=(1, 0)), 16)
        s = b.sum(b.op("permute", tile(b, x, (2, 3, 4)), order=(2, 0, 1)), 1)
        put(b, o, s, 12, 16)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [np.arange(24, dtype=np.float32),
                                                              np.zeros(28, np.float32)])


def test_bools_in_memory_and_in_scratch():
    def body(b, x, o, n):
        offs = b.iota(40)
        v = b.load(b.at(x, offs))
        def step(i, m):
            return [b.op("xor", m, b.binary("cmp_gt_s", offs, b.mul(i, 7)))]
        (m,) = b.for_(0, n, 1, [v], step)
        b.store(b.at(o, offs), b.op("reshape", b.op("permute", b.op("reshape", m, shape=(5, 8)), order=(1, 0)),
                                    shape=(40,)))
    x = (np.arange(40) % 3 == 0)
    for n in (0, 1, 4):
        both(kernel([("x", ptr(I1)), ("o", ptr(I1)), ("n", I32)], body), (1,), [x, np.zeros(40, bool), n])


def test_long_chains_do_not_recurse_without_end():
    def body(b, x, o):
        v = b.load(flat(b, x, 20))
        for k in range(1500):
            v = b.op("add_f", v, b.const(float(k % 3), F32, (20,)))
        b.store(flat(b, o, 20), v)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [np.arange(20, dtype=np.float32),
                                                              np.zeros(20, np.float32)], optimise=(False,))


@pytest.mark.parametrize("n", [2, 6, 16, 17, 64, 100])
@pytest.mark.parametrize("t,dtype", [(F32, np.float32), (I8, np.int8), (I64, np.int64)])
def test_pairs_side_by_side_do_not_gather(n, t, dtype):
    """Interleaving two tiles, and taking the halves of pairs apart, as rotary embeddings do."""
    def body(b, x, o):
        p, q = b.op("split", b.op("reshape", b.load(flat(b, x, 2 * n)), shape=(n, 2)))
        minus = b.op("neg_f", q) if t.is_float else b.binary("xor", q, -1)
        b.store(flat(b, o, 2 * n), b.op("reshape", b.op("join", minus, p), shape=(2 * n,)))
        b.store(b.at(b.at(o, b.const(2 * n)), b.mul(b.iota(n), 2)), p)
        b.store(b.at(b.at(o, b.const(2 * n + 1)), b.mul(b.iota(n), 2)), minus)
    module = kernel([("x", ptr(t)), ("o", ptr(t))], body)
    both(module, (1,), [np.arange(2 * n).astype(dtype), np.zeros(4 * n, dtype)])
    text = generated(module).text
    assert "gather" not in text and "scatter" not in text


@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_strided_accesses_under_masks_touch_their_lanes_only(step):
    """The arrays end with the last lane; what lies between the lanes stays."""
    def body(b, x, o, n):
        i = b.iota(40)
        mask = b.binary("cmp_lt_s", i, n)
        v = b.load(b.at(x, b.mul(i, step)), mask, b.const(-5.0, F32, (40,)))
        b.store(b.at(o, b.mul(i, step)), v, b.binary("cmp_ne", i, 3))
    module = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)
    for n in (40, 21, 0):
        both(module, (1,), [np.arange(39 * step + 1, dtype=np.float32), np.full(39 * step + 1, -1, np.float32), n])
