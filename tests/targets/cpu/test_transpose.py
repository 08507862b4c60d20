"""Tiles that are contiguous along another dimension than the last: no gathers, right at every edge."""

import numpy as np
import pytest

from tests.targets.cpu.harness import F16, F32, F64, I8, I32, both, generated, kernel, ptr


def transposed_copy(rows, columns, t=F32):
    """o[i, j] = x[j, i] under a mask, with run-time strides."""
    def body(b, x, o, m, n, sx, so):
        i, j = b.add(b.mul(b.pid(), rows), b.iota(rows)), b.iota(columns)
        mask = b.binary("and", b.col(b.binary("cmp_lt_s", i, m)), b.row(b.binary("cmp_lt_s", j, n)))
        v = b.load(b.at(x, b.add(b.col(i), b.row(b.mul(j, sx)))), mask)
        b.store(b.at(o, b.add(b.mul(b.col(i), so), b.row(j))), b.op("add_f" if t.is_float else "add", v, v), mask)
    return kernel([("x", ptr(t)), ("o", ptr(t)), *((s, I32) for s in ("m", "n", "sx", "so"))], body)


@pytest.mark.parametrize("rows,columns", [(16, 16), (32, 48), (20, 35), (8, 9), (64, 8), (17, 64)])
def test_sizes(rows, columns):
    x = np.random.default_rng(0).standard_normal((columns, 2 * rows)).astype(np.float32)
    for m in (2 * rows, rows + 3):
        both(transposed_copy(rows, columns), (2,), [x, np.zeros((2 * rows, columns), np.float32), m, columns, 2 * rows,
                                                    columns])


@pytest.mark.parametrize("t,dtype", [(F16, np.float16), (F64, np.float64), (I8, np.int8)])
def test_types(t, dtype):
    x = np.random.default_rng(1).integers(-50, 50, (40, 33)).astype(dtype)
    both(transposed_copy(33, 40, t), (1,), [x, np.zeros((33, 40), dtype), 33, 40, 33, 40])


def permuted(shape, order, twice=False):
    """o = permute(x + x), rows of both contiguous; `twice` stores it unpermuted too."""
    out = tuple(shape[d] for d in order)
    def body(b, x, o, p):
        v = b.load(b.op("reshape", b.at(x, b.iota(int(np.prod(shape)))), shape=shape))
        v = b.op("add_f", v, v)
        if twice:
            b.store(b.op("reshape", b.at(p, b.iota(int(np.prod(shape)))), shape=shape), v)
        b.store(b.op("reshape", b.at(o, b.iota(int(np.prod(shape)))), shape=out), b.op("permute", v, order=order))
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("p", ptr(F32))], body)


@pytest.mark.parametrize("shape,order", [((16, 32), (1, 0)), ((20, 35), (1, 0)), ((3, 16, 24), (0, 2, 1)),
                                         ((16, 3, 24), (2, 1, 0)), ((16, 1, 24), (2, 1, 0)), ((4, 8, 8), (1, 0, 2))])
@pytest.mark.parametrize("twice", [False, True])
def test_permutations(shape, order, twice):
    x = np.random.default_rng(3).standard_normal(int(np.prod(shape))).astype(np.float32)
    both(permuted(shape, order, twice), (1,), [x, np.zeros_like(x), np.zeros_like(x)], optimise=(True,))


def test_a_permuted_load_does_not_gather():
    def body(b, x, o):
        place = b.add(b.mul(b.col(b.iota(32)), 64), b.row(b.iota(64)))
        back = b.add(b.mul(b.col(b.iota(64)), 32), b.row(b.iota(32)))
        b.store(b.at(o, back), b.op("permute", b.load(b.at(x, place)), order=(1, 0)))
    text = generated(kernel([("x", ptr(F32)), ("o", ptr(F32))], body)).text
    assert "gather" not in text and "scatter" not in text


def test_nothing_gathers():
    text = generated(transposed_copy(32, 64)).text
    assert "gather" not in text and "scatter" not in text


def test_a_batch_of_transposed_matrices_times_each_other():
    """q @ k^T with k stored row by row, in three dimensions."""
    def body(b, q, k, o):
        batch = b.op("expand_dims", b.op("expand_dims", b.iota(2), axis=1), axis=2)
        def place(p, i, j, si, sj, size):
            i, j = b.op("expand_dims", i, axis=0), b.op("expand_dims", j, axis=0)
            return b.at(p, b.add(b.mul(batch, size), b.add(b.mul(i, si), b.mul(j, sj))))
        m, n, d = b.iota(17), b.iota(24), b.iota(16)
        a = b.load(place(q, b.col(m), b.row(d), 16, 1, 17 * 16))
        c = b.load(place(k, b.col(d), b.row(n), 1, 16, 24 * 16))
        b.store(place(o, b.col(m), b.row(n), 24, 1, 17 * 24), b.op("dot", a, c, b.const(0.0, F32, (2, 17, 24))))
    rng = np.random.default_rng(2)
    q, k = (rng.integers(-5, 5, (2, n, 16)).astype(np.float32) for n in (17, 24))
    module = kernel([("q", ptr(F32)), ("k", ptr(F32)), ("o", ptr(F32))], body)
    both(module, (1,), [q, k, np.zeros((2, 17, 24), np.float32)])
    assert "gather" not in generated(module).text
