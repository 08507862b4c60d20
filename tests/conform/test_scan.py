"""`scan` with many combine regions, over any axis, in both directions, on every engine, against exact folds."""

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
from tilewright.ir.types import ALL_SCALARS, F16, F32, F64, I1, I8, I16, I32, I64, storage_dtype

PROGRAMS = 2
PLACES = [((1,), 0), ((17,), 0), ((40,), 0), ((3, 16), 1), ((17, 3), 0), ((2, 5, 7), 1)]
EXACT = {"add": (I8, I16, I32, I64), "mul": (I32,), "xor": (I1, I64), "min_s": (I8,), "max_u": (I64,),
         "max_f": (F16, F64), "min_nan_f": (F32,)}
each_engine = pytest.mark.parametrize("engine", engines.ENGINES)


def values(element, shape, seed):
    count = PROGRAMS * math.prod(shape)
    some = np.concatenate([edges.values(element), edges.random_values(element, count, seed)])
    return np.random.default_rng(seed).permutation(some)[:count].reshape(PROGRAMS, *shape)


def run_scans(engine, elements, tiles, body):
    """One kernel with both scans of each place's tiles; yields (shape, axis, reverse, results)."""
    pairs = [(place, reverse) for place in PLACES for reverse in (False, True)]
    outputs = [[np.zeros((PROGRAMS, *shape), storage_dtype(e)) for e in elements] for (shape, _), _ in pairs]
    count = len(elements)

    def kernel(k, *pointers):
        sources, targets = list(pointers[:count * len(PLACES)]), list(pointers[count * len(PLACES):])
        for shape, axis in PLACES:
            parts = [k.load(k.tile_pointers(sources.pop(0), shape)) for _ in elements]
            for reverse in (False, True):
                region = k.region([*elements, *elements], lambda *x: body(k, *x))
                for value in k.create("scan", parts, {"axis": axis, "reverse": reverse}, [region]):
                    k.store(k.tile_pointers(targets.pop(0), shape), value)

    types = [ptr(e) for _ in range(len(PLACES) + len(pairs)) for e in elements]
    arrays = [*(a for place in tiles for a in place), *(a for place in outputs for a in place)]
    engines.ENGINES[engine](module(types, kernel), (PROGRAMS,), arrays)
    for ((shape, axis), reverse), found in zip(pairs, outputs, strict=True):
        yield shape, axis, reverse, found


def lines(array, axis, reverse):
    """The lines of an array along an axis behind the program axis, in the order of the scan."""
    moved = np.moveaxis(array, axis + 1, -1)
    return (moved[..., ::-1] if reverse else moved).reshape(-1, moved.shape[-1])


@each_engine
@pytest.mark.parametrize("row,element", [(r, e) for r, es in EXACT.items() for e in es], ids=str)
def test_exact_rows(engine, row, element):
    tiles = [[values(element, shape, i)] for i, (shape, _) in enumerate(PLACES)]
    rule = statement(row, (element, element), element, {})
    for shape, axis, reverse, (got,) in run_scans(engine, [element], tiles, lambda k, a, b: [k.one(row, a, b)]):
        tile = tiles[[s for s, _ in PLACES].index(shape)][0]
        plain = fp.decode(tile, element) if is_float(element) else tile
        for line, found in zip(lines(plain, axis, reverse), lines(got, axis, reverse), strict=True):
            total, want = None, []
            for value in line.tolist():
                total = value if total is None else rule(total, value)
                want.append(total)
            stored = fp.encode(np.array(want), element) if is_float(element) else np.array(want, got.dtype)
            assert same(found, stored, element).all(), (shape, axis, reverse)


@each_engine
@pytest.mark.parametrize("element", [e for e in ALL_SCALARS if is_kind(e, "float")], ids=str)
def test_float_sums_are_within_the_bound(engine, element):
    rng = np.random.default_rng(3)
    tiles = [[fp.encode(rng.normal(0, 2, (PROGRAMS, *shape)), element)] for shape, _ in PLACES]
    eps = Fraction(TABLE["scan"].bound.sum_eps) * Fraction(2) ** (1 - exact.FORMATS[element.name][0])
    for shape, axis, reverse, (got,) in run_scans(engine, [element], tiles, lambda k, a, b: [k.one("add_f", a, b)]):
        tile = fp.decode(tiles[[s for s, _ in PLACES].index(shape)][0], element)
        for line, found in zip(lines(tile, axis, reverse), lines(fp.decode(got, element), axis, reverse), strict=True):
            total = size = Fraction(0)
            for value, sum_ in zip(line.tolist(), found.tolist(), strict=True):
                total, size = total + Fraction(value), size + abs(Fraction(value))
                assert abs(Fraction(sum_) - total) <= eps * size


@each_engine
@pytest.mark.parametrize("element", [I8, F64], ids=str)
def test_two_tiles_without_commuting(engine, element):
    """Affine maps composed: (a, b) then (c, d) is (a*c, c*b + d), of small numbers, so that all is exact."""
    rng = np.random.default_rng(5)
    tiles = [[rng.integers(-1, 2, (PROGRAMS, *shape)).astype(storage_dtype(e)) for e in (element, element)]
             for shape, _ in PLACES]
    add, mul = ("add_f", "mul_f") if element.is_float else ("add", "mul")

    def body(k, a, b, c, d):
        return [k.one(mul, a, c), k.one(add, k.one(mul, c, b), d)]

    for shape, axis, reverse, (first, second) in run_scans(engine, [element, element], tiles, body):
        a, b = tiles[[s for s, _ in PLACES].index(shape)]
        for line in zip(*(lines(x, axis, reverse) for x in (a, b, first, second)), strict=True):
            factor, offset = 1, 0
            for c, d, got_factor, got_offset in zip(*(x.tolist() for x in line), strict=True):
                factor, offset = factor * c, c * offset + d
                assert (got_factor, got_offset) == (factor, offset)
