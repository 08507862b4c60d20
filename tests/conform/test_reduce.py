"""`reduce` with many combine regions, over any axis, on every engine, against exact folds."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.conform import edges, engines, exact
from tests.conform.compare import is_float, same
from tests.conform.expected import statement
from tests.conform.modules import module, ptr
from tilewright.ir import fp
from tilewright.ir.ops import TABLE
from tilewright.ir.ops.rules import is_kind
from tilewright.ir.types import ALL_SCALARS, F16, F32, F64, I1, I8, I16, I32, I64, shape_of, storage_dtype

PROGRAMS = 2
each_engine = pytest.mark.parametrize("engine", engines.ENGINES)

# (tile shape, axis)
PLACES = [((1,), 0), ((7,), 0), ((16,), 0), ((17,), 0), ((3, 16), 1), ((17, 3), 0), ((2, 5, 7), 1)]

# rows whose result does not depend on the order, with an exact statement for two elements
EXACT = {"add": (I8, I16, I32, I64), "mul": (I32,), "and": (I1, I8, I64), "or": (I1, I32), "xor": (I1, I16, I64),
         "min_s": (I8, I32), "max_s": (I16, I64), "max_u": (I8, I64), "min_u": (I32,),
         "max_f": (F16, F32, F64), "min_f": (F32,), "max_nan_f": (F32, F64), "min_nan_f": (F16,)}


def values(element, shape, seed):
    count = PROGRAMS * math.prod(shape)
    some = np.concatenate([edges.values(element), edges.random_values(element, count, seed)])
    return np.random.default_rng(seed).permutation(some)[:count].reshape(PROGRAMS, *shape)


def run_reductions(engine, element, build, tiles, results):
    """One kernel with a reduction for each place: `build(kernel, tile, axis)` gives the values to store."""
    def kernel(k, *pointers):
        sources, targets = pointers[:len(PLACES)], list(pointers[len(PLACES):])
        for source, (shape, axis) in zip(sources, PLACES, strict=True):
            for value in build(k, k.load(k.tile_pointers(source, shape)), axis):
                k.store(k.tile_pointers(targets.pop(0), shape_of(value.type)), value)

    types = [ptr(element)] * len(PLACES) + [ptr(t) for t, _ in results]
    outputs = [np.zeros((PROGRAMS, *shape), storage_dtype(t)) for t, shape in results]
    engines.ENGINES[engine](module(types, kernel), (PROGRAMS,), [*tiles, *outputs])
    return outputs


def kept(shape, axis):
    return shape[:axis] + shape[axis + 1:]


@each_engine
@pytest.mark.parametrize("row,element", [(r, e) for r, es in EXACT.items() for e in es], ids=str)
def test_reduce_in_any_order(engine, row, element):
    tiles = [values(element, shape, i) for i, (shape, _) in enumerate(PLACES)]

    def build(k, x, axis):
        region = k.region([element, element], lambda a, b: [k.one(row, a, b)])
        return k.create("reduce", [x], {"axis": axis}, [region])

    outputs = run_reductions(engine, element, build, tiles, [(element, kept(s, a)) for s, a in PLACES])
    rule = statement(row, (element, element), element, {})
    for got, tile, (shape, axis) in zip(outputs, tiles, PLACES, strict=True):
        plain = fp.decode(tile, element) if is_float(element) else tile
        want = np.zeros_like(got)
        for index in np.ndindex(*got.shape):
            line = np.moveaxis(plain, axis + 1, -1)[index].tolist()
            total = line[0]
            for value in line[1:]:
                total = rule(total, value)
            stored = fp.encode(np.array(total), element) if is_float(element) else total
            want[index] = stored
        assert same(got, want, element).all(), (shape, axis)


@each_engine
@pytest.mark.parametrize("element", [e for e in ALL_SCALARS if is_kind(e, "float")], ids=str)
def test_float_sums_are_within_the_bound(engine, element):
    rng = np.random.default_rng(3)
    tiles = [fp.encode(rng.normal(0, 2, (PROGRAMS, *shape)), element) for shape, _ in PLACES]

    def build(k, x, axis):
        region = k.region([element, element], lambda a, b: [k.one("add_f", a, b)])
        return k.create("reduce", [x], {"axis": axis}, [region])

    outputs = run_reductions(engine, element, build, tiles, [(element, kept(s, a)) for s, a in PLACES])
    eps = Fraction(2) ** (1 - exact.FORMATS[element.name][0])
    for got, tile, (_, axis) in zip(outputs, tiles, PLACES, strict=True):
        sums = fp.decode(got, element)
        for index in np.ndindex(*got.shape):
            line = [Fraction(v) for v in np.moveaxis(fp.decode(tile, element), axis + 1, -1)[index].tolist()]
            bound = Fraction(TABLE["reduce"].bound.sum_eps) * eps * sum(map(abs, line))
            assert abs(Fraction(float(sums[index])) - sum(line)) <= bound


@each_engine
@pytest.mark.parametrize("element", [I32, F32], ids=str)
def test_reduce_two_tiles_together(engine, element):
    """The largest value and the first index where it stands, by a region with comparisons and selects."""
    greater = "cmp_ogt" if element == F32 else "cmp_gt_s"
    equal = "cmp_oeq" if element == F32 else "cmp_eq"
    rng = np.random.default_rng(4)
    tiles = [rng.integers(-3, 4, (PROGRAMS, *shape)).astype(storage_dtype(element)) for shape, _ in PLACES]

    def region(k):
        def body(a, i, b, j):
            tie = k.one("and", k.one(equal, a, b), k.one("cmp_lt_s", i, j))
            left = k.one("or", k.one(greater, a, b), tie)
            return [k.one("select", left, a, b), k.one("select", left, i, j)]

        return k.region([element, I32, element, I32], body)

    def build(k, x, axis):
        shape = shape_of(x.type)
        place = k.iota(shape[axis])
        for d in range(len(shape)):
            if d != axis:
                place = k.one("expand_dims", place, axis=d)
        place = k.one("broadcast", place, shape=shape)
        return k.create("reduce", [x, place], {"axis": axis}, [region(k)])

    results = [(t, kept(s, a)) for s, a in PLACES for t in (element, I32)]
    outputs = run_reductions(engine, element, build, tiles, results)
    for i, (tile, (_, axis)) in enumerate(zip(tiles, PLACES, strict=True)):
        np.testing.assert_array_equal(outputs[2 * i], tile.max(axis + 1))
        np.testing.assert_array_equal(outputs[2 * i + 1], tile.argmax(axis + 1))
