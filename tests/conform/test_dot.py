"""`dot` at every combination of types, on every engine, against exact sums."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.conform import edges, engines, exact
from tests.conform.modules import module, ptr
from tilewright.ir import fp
from tilewright.ir.ops import TABLE, TypeRuleError
from tilewright.ir.ops.attributes import Precision
from tilewright.ir.types import ALL_SCALARS, F16, F32, F64, I8, I32, Tile, storage_dtype

PROGRAMS = 2
each_engine = pytest.mark.parametrize("engine", engines.ENGINES)

# batch, M, K, N
SHAPES = [((), 1, 1, 1), ((), 7, 5, 3), ((), 16, 16, 16), ((), 17, 33, 9), ((2,), 3, 8, 5), ((), 1, 17, 16)]


def dot_types():
    """All (a, b, acc) that the type rule takes."""
    found = []
    for a in ALL_SCALARS:
        for b in ALL_SCALARS:
            for c in ALL_SCALARS:
                try:
                    TABLE["dot"].infer([Tile((2, 2), e) for e in (a, b, c)], {"precision": Precision.IEEE}, ())
                except TypeRuleError:
                    continue
                found.append((a, b, c))
    return found


def dot_operands(elements, batch, m, k, n, seed):
    rng = np.random.default_rng(seed)
    out = []
    for element, shape in zip(elements, ((m, k), (k, n), (m, n)), strict=True):
        full = (PROGRAMS, *batch, *shape)
        if element.is_int:
            out.append(edges.random_values(element, math.prod(full), seed).reshape(full))
        else:
            out.append(fp.encode(rng.normal(0, 1.5, full), element))
    return out


def run_dot(engine, elements, sizes, operands):
    batch, m, k_size, n = sizes
    shapes = [(*batch, m, k_size), (*batch, k_size, n), (*batch, m, n)]
    out = np.zeros((PROGRAMS, *shapes[2]), storage_dtype(elements[2]))

    def kernel(k, *pointers):
        tiles = [k.load(k.tile_pointers(p, s)) for p, s in zip(pointers, shapes, strict=False)]
        k.store(k.tile_pointers(pointers[3], shapes[2]), k.one("dot", *tiles))

    types = [ptr(e) for e in (*elements, elements[2])]
    engines.ENGINES[engine](module(types, kernel), (PROGRAMS,), [*operands, out])
    return out


@each_engine
@pytest.mark.parametrize("elements", dot_types(), ids=lambda e: "-".join(map(str, e)))
def test_dot(engine, elements):
    for seed, sizes in enumerate(SHAPES):
        operands = dot_operands(elements, *sizes, seed)
        out = run_dot(engine, elements, sizes, operands)
        a, b, c = (x.astype(object) if e.is_int else np.vectorize(Fraction, otypes=[object])(fp.decode(x, e))
                   for x, e in zip(operands, elements, strict=True))
        if elements[2].is_int:
            want = np.vectorize(lambda v: exact.wrap(v, 32))(np.matmul(a, b) + c)
            np.testing.assert_array_equal(out, want)
            continue
        scale = np.matmul(np.abs(a), np.abs(b)) + np.abs(c)
        eps = Fraction(2) ** (1 - exact.FORMATS[elements[2].name][0])
        error = np.abs(np.vectorize(Fraction, otypes=[object])(fp.decode(out, elements[2])) - (np.matmul(a, b) + c))
        assert (error <= Fraction(TABLE["dot"].bound.sum_eps) * eps * scale).all(), sizes
        if engine == "batched" and elements[2] != F64:     # one rounding, of a sum that float64 nearly always holds
            want = [exact.nearest(v, elements[2].name) for v in (np.matmul(a, b) + c).reshape(-1)]
            assert fp.decode(out, elements[2]).reshape(-1).tolist() == want


@each_engine
def test_int8_dot_at_its_limits(engine):
    """-128 * -128 many times on an accumulator near the limit: int32 wraps, int8 never does."""
    sizes = ((), 2, 64, 3)
    a, b = (np.full((PROGRAMS, *s), -128, np.int8) for s in ((2, 64), (64, 3)))
    acc = np.full((PROGRAMS, 2, 3), 2**31 - 1, np.int32)
    assert (run_dot(engine, (I8, I8, I32), sizes, [a, b, acc]) == exact.wrap(2**31 - 1 + 64 * 128 * 128, 32)).all()


@each_engine
@pytest.mark.parametrize("element", [F16, F32], ids=str)
def test_dot_spreads_nan_and_infinity(engine, element):
    a = np.ones((PROGRAMS, 3, 4), storage_dtype(element))
    b = np.ones((PROGRAMS, 4, 5), storage_dtype(element))
    a[:, 0, 1], a[:, 1, 2], b[:, 2, 3] = np.nan, np.inf, 0
    acc = np.zeros((PROGRAMS, 3, 5), np.float32)
    out = run_dot(engine, (element, element, F32), ((), 3, 4, 5), [a, b, acc])
    assert np.isnan(out[:, 0]).all() and (out[:, 2] == [4, 4, 4, 3, 4]).all()
    assert np.isnan(out[:, 1, 3]).all() and np.isposinf(out[:, 1, [0, 1, 2, 4]]).all()
