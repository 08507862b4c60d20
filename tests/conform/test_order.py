"""`slice`, `gather`, `sort` and `histogram` on every engine, stated element by element."""

import math

import numpy as np
import pytest

from tests.conform import edges, engines
from tests.conform.modules import module, ptr
from tests.conform.rows import bits_of
from tests.conform.test_structural import by_index, check, data
from tilewright.ir.types import ALL_SCALARS, F32, I1, I8, I16, I32, I64, Pointer, storage_dtype

PROGRAMS = 2
each_engine = pytest.mark.parametrize("engine", engines.ENGINES)
each_type = pytest.mark.parametrize("element", [*ALL_SCALARS, Pointer(F32)], ids=str)


@each_engine
@each_type
def test_slice(engine, element):
    for shape, axis, start, step, size in [((7,), 0, 6, -1, 7), ((40,), 0, 39, -1, 40), ((40,), 0, 3, 2, 17),
                                           ((40,), 0, 5, 1, 20), ((5, 19), 0, 4, -2, 3), ((5, 19), 1, 1, 3, 6),
                                           ((2, 3, 4), 1, 2, -1, 2), ((3, 8), 1, 7, 1, 1)]:
        result = (*shape[:axis], size, *shape[axis + 1:])
        check(engine, element, [shape], lambda k, x: [k.one("slice", x, axis=axis, start=start, step=step, size=size)],
              lambda x: [by_index(result, lambda *i: x[(*i[:axis], start + step * i[axis], *i[axis + 1:])])])


@each_engine
@each_type
@pytest.mark.parametrize("index_type", [I32, I64], ids=str)
def test_gather(engine, element, index_type):
    """Any places, some out of range, which give zero."""
    rng = np.random.default_rng(2)
    for source, index, axis in [((7,), (17,), 0), ((40,), (3,), 0), ((5, 19), (8, 19), 0), ((5, 19), (5, 33), 1),
                                ((2, 3, 4), (2, 7, 4), 1), ((1, 1), (1, 1), 0)]:
        n = source[axis]
        places = rng.integers(-2, n + 2, (PROGRAMS, *index)).astype(storage_dtype(index_type))
        places.reshape(-1)[:2] = [np.iinfo(places.dtype).min, n - 1]
        x = data(element, source)
        out = np.ones((PROGRAMS, *index), storage_dtype(element))

        def kernel(k, x, p, out):
            found = k.one("gather", k.load(k.tile_pointers(x, source)), k.load(k.tile_pointers(p, index)), axis=axis)
            k.store(k.tile_pointers(out, index), found)

        m = module([ptr(element), ptr(index_type), ptr(element)], kernel)
        engines.ENGINES[engine](m, (PROGRAMS,), [x, places, out])
        for i in np.ndindex(*out.shape):
            place = int(places[i])
            want = bits_of(x)[(*i[:axis + 1], place, *i[axis + 2:])] if 0 <= place < n else 0
            assert bits_of(out)[i] == want


@each_engine
@pytest.mark.parametrize("element", [I8, I16, I32, I64], ids=str)
def test_sort(engine, element):
    shapes = [(1,), (2,), (3,), (8,), (17,), (64,), (100,), (5, 1), (3, 33), (2, 2, 16), (256,)]
    tiles = []
    for shape in shapes:
        count = PROGRAMS * math.prod(shape)
        pool = np.concatenate([edges.values(element), edges.random_values(element, count, 5)])
        tiles.append(np.random.default_rng(6).permutation(pool)[:count].reshape(PROGRAMS, *shape))
    outs = [np.zeros_like(t) for t in tiles]

    def kernel(k, *pointers):
        for source, target, shape in zip(pointers[:len(shapes)], pointers[len(shapes):], shapes, strict=True):
            k.store(k.tile_pointers(target, shape), k.one("sort", k.load(k.tile_pointers(source, shape))))

    engines.ENGINES[engine](module([ptr(element)] * 2 * len(shapes), kernel), (PROGRAMS,), [*tiles, *outs])
    for tile, out in zip(tiles, outs, strict=True):
        for i in np.ndindex(*tile.shape[:-1]):
            assert out[i].tolist() == sorted(tile[i].tolist())


@each_engine
@pytest.mark.parametrize("element", [I32, I64], ids=str)
@pytest.mark.parametrize("shape, bins", [((64,), 8), ((17,), 5), ((100,), 1), ((3, 40), 33), ((1,), 3)])
def test_histogram(engine, element, shape, bins):
    rng = np.random.default_rng(7)
    x = rng.integers(-3, bins + 3, (PROGRAMS, *shape)).astype(storage_dtype(element))
    x.reshape(-1)[:1] = np.iinfo(x.dtype).min
    mask = rng.integers(0, 3, (PROGRAMS, *shape)) > 0
    out = np.ones((2, PROGRAMS, bins), np.int32)

    def kernel(k, x, mask, plain, masked):
        tile, on = k.load(k.tile_pointers(x, shape)), k.load(k.tile_pointers(mask, shape))
        k.store(k.lanes(plain, bins), k.one("histogram", tile, bins=bins, has_mask=False))
        k.store(k.lanes(masked, bins), k.one("histogram", tile, on, bins=bins, has_mask=True))

    m = module([ptr(element), ptr(I1), ptr(I32), ptr(I32)], kernel)
    engines.ENGINES[engine](m, (PROGRAMS,), [x, mask, out[0], out[1]])
    for p in range(PROGRAMS):
        for number in range(bins):
            assert out[0, p, number] == (x[p] == number).sum()
            assert out[1, p, number] == ((x[p] == number) & mask[p]).sum()
