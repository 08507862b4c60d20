"""Reductions over any axis, of any size, with any combine region."""

import numpy as np
import pytest

from tests.departures import differs
from tests.targets.cpu.harness import F16, F32, F64, I8, I32, I64, WIDE, both, generated, kernel, ptr, words

SHAPES = [((1,), 0), ((7,), 0), ((16,), 0), ((17,), 0), ((1023,), 0), ((1025,), 0), ((5, 19), 0), ((5, 19), 1),
          ((1, 40), 0), ((40, 1), 0), ((16, 1), 1), ((33, 64), 0), ((33, 64), 1), ((3, 4, 5), 0), ((3, 4, 5), 1),
          ((3, 4, 5), 2), ((2, 3, 64), 1), ((130, 2), 0)]


def pointers(b, p, shape):
    size = int(np.prod(shape))
    flat = b.at(p, b.iota(size))
    return flat if len(shape) == 1 else b.op("reshape", flat, shape=tuple(shape))


def store_result(b, o, value, shape):
    b.store(pointers(b, o, shape) if shape else o, value)


def rest(shape, axis):
    return shape[:axis] + shape[axis + 1:]


def reduction(t, shape, axis, body, out=None):
    def build(b, x, o):
        result = b.reduce(b.load(pointers(b, x, shape)), axis, lambda p, q: body(b, p, q))
        store_result(b, o, result, rest(shape, axis))
    return kernel([("x", ptr(t)), ("o", ptr(out or t))], build)


def out_array(shape, axis, dtype):
    return np.zeros(int(np.prod(rest(shape, axis))), dtype)


@pytest.mark.parametrize("shape,axis", SHAPES)
def test_sums(shape, axis):
    rng = np.random.default_rng(2)
    x = rng.standard_normal(shape).astype(np.float32)
    module = reduction(F32, shape, axis, lambda b, p, q: [b.op("add_f", p, q)])
    both(module, (1,), [x, out_array(shape, axis, np.float32)], exact=False, rtol=1e-5, atol=1e-4)
    y = rng.integers(-2**31, 2**31, shape).astype(np.int32)
    both(reduction(I32, shape, axis, lambda b, p, q: [b.op("add", p, q)]), (1,), [y, out_array(shape, axis, np.int32)])


@pytest.mark.parametrize("t,dtype", [(F16, np.float16), (F64, np.float64), (I8, np.int8), (I64, np.int64)])
def test_extremes_of_other_types(t, dtype):
    x = np.random.default_rng(3).integers(-100, 100, (9, 37)).astype(dtype)
    row = "max_f" if t.is_float else "max_s"
    for axis in (0, 1):
        both(reduction(t, x.shape, axis, lambda b, p, q: [b.op(row, p, q)]), (1,), [x, out_array(x.shape, axis, dtype)])


def test_maximum_ignores_nan_and_orders_zeros():
    x = np.full((4, 70), -0.0, np.float32)
    x[0, 3] = 0.0
    x[1] = np.nan
    x[2, ::2] = np.nan
    x[2, 1::2] = -np.arange(35)
    x[3, 69] = np.inf
    got = both(reduction(F32, x.shape, 1, lambda b, p, q: [b.op("max_f", p, q)]), (1,), [x, np.zeros(4, np.float32)])
    assert not np.signbit(got[1][0]) and np.isnan(got[1][1]) and got[1][3] == np.inf


@pytest.mark.parametrize("shape,axis", SHAPES)
def test_argmax_with_ties(shape, axis):
    """Two inputs reduce together: the greatest value, and of equal ones the least index."""
    def build(b, x, o):
        values = b.load(pointers(b, x, shape))
        index = b.iota(shape[axis])
        for d in range(len(shape)):
            if d != axis:
                index = b.op("expand_dims", index, axis=d)
        index = b.like(index, values)

        def better(v, i, w, j):
            wins = b.op("or", b.op("cmp_ogt", v, w), b.op("and", b.op("cmp_oeq", v, w), b.op("cmp_lt_s", i, j)))
            return [b.op("select", wins, v, w), b.op("select", wins, i, j)]

        _, best = b.reduce([values, index], axis, better)
        store_result(b, o, best, rest(shape, axis))

    x = np.random.default_rng(4).integers(0, 5, shape).astype(np.float32)
    both(kernel([("x", ptr(F32)), ("o", ptr(I32))], build), (1,), [x, out_array(shape, axis, np.int32)])


def test_a_region_with_a_branch():
    def body(b, p, q):
        flag = b.op("cmp_lt_s", p, q)
        return b.create("if", [flag], {}, [b.region([], lambda: [q]), b.region([], lambda: [p])])
    x = np.random.default_rng(5).integers(-99, 99, 100).astype(np.int32)
    both(reduction(I32, (100,), 0, body), (1,), [x, np.zeros(1, np.int32)])


def softmax(block, t=F32):
    """A row a program, masked; fp16 rows compute in f32."""
    def body(b, x, o, n, stride):
        start = b.mul(b.pid(), stride)
        offs = b.iota(block)
        mask = b.binary("cmp_lt_s", offs, n)
        row = b.load(b.at(b.at(x, start), offs), mask, b.const(float("-inf"), t, (block,)))
        wide = row if t == F32 else b.op("fp_ext", row, to=F32)
        top = b.max(wide, 0)
        e = b.op("exp", b.binary("sub_f", wide, top))
        out = b.binary("div_f", e, b.sum(e, 0))
        b.store(b.at(b.at(o, start), offs), out if t == F32 else b.op("fp_trunc", out, to=t), mask)
    return kernel([("x", ptr(t)), ("o", ptr(t)), ("n", I32), ("stride", I32)], body)


@pytest.mark.parametrize("n,block", [(1, 16), (100, 128), (128, 128), (781, 1024), (33, 48)])
def test_softmax(n, block):
    x = np.random.default_rng(6).standard_normal((5, n)).astype(np.float32)
    both(softmax(block), (5,), [x, np.zeros_like(x), n, n], exact=False)
    h = x.astype(np.float16)
    both(softmax(block, F16), (5,), [h, np.zeros_like(h), n, n], exact=False, rtol=2e-3, atol=1e-3)


def test_softmax_is_vectors_without_gathers():
    text = generated(softmax(1024), isa=WIDE).text
    assert "gather" not in text and "scatter" not in text and "16 x float>" in text


def test_two_dimensional_softmax():
    def body(b, x, o):
        offs = b.add(b.mul(b.col(b.iota(6)), 50), b.row(b.iota(50)))
        tile = b.load(b.at(x, offs))
        e = b.op("exp", b.binary("sub_f", tile, b.col(b.max(tile, 1))))
        b.store(b.at(o, offs), b.binary("div_rn", e, b.col(b.sum(e, 1))))
        b.store(b.at(b.at(o, b.const(300)), offs), b.binary("div_rn", e, b.row(b.sum(e, 0))))
    x = np.random.default_rng(7).standard_normal((6, 50)).astype(np.float32)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [x, np.zeros(600, np.float32)], exact=False)


def test_sum_over_sum_and_over_all():
    """A reduction of a reduction, and of a tile flattened."""
    def body(b, x, o):
        tile = b.load(b.at(x, b.add(b.mul(b.col(b.iota(24)), 40), b.row(b.iota(40)))))
        b.store(o, b.sum(b.sum(tile, 1), 0))
        b.store(b.at(o, b.const(1)), b.sum(b.op("reshape", tile, shape=(960,)), 0))
        b.store(b.at(o, b.const(2)), b.sum(b.sum(tile, 0), 0))
    x = np.random.default_rng(8).integers(-9, 9, (24, 40)).astype(np.float32)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [x, np.zeros(3, np.float32)])


@differs("Sums have the same bits in every run", topic="Numbers",
         peer="Copies of one sum in several threads may differ in the last bit.",
         ours="One order for a kernel and a machine, whatever the number of threads.")
def test_the_order_does_not_depend_on_threads():
    x = np.random.default_rng(9).standard_normal((64, 1000)).astype(np.float32)
    outs = []
    for threads in (1, 2):
        from tilewright.language.options import Options
        from tilewright.targets.cpu import CpuTarget
        t = CpuTarget(threads=threads)
        o = np.zeros_like(x)
        module = softmax(1024)
        t.load(t.compile(module, Options())).launch((64, 1, 1), words([x, o, 1000, 1000], module.entry.params))
        outs.append(o)
    np.testing.assert_array_equal(*outs)
