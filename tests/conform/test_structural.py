"""Rows that make, move or fetch elements, at every element type and on every engine: bits must arrive unchanged.

The statements go index by index over bit patterns; each case runs several programs with data of their own.
"""

import itertools

import numpy as np
import pytest

from tests.conform import edges, engines
from tests.conform.modules import module, ptr
from tests.conform.rows import bits_of
from tilewright.ir import fp
from tilewright.ir.types import ALL_SCALARS, F32, I1, I32, I64, Pointer, Tile, shape_of, storage_dtype

PROGRAMS = 3
ELEMENTS = (*ALL_SCALARS, Pointer(F32))
each_engine = pytest.mark.parametrize("engine", engines.ENGINES)
each_type = pytest.mark.parametrize("element", ELEMENTS, ids=str)


def data(element, shape, seed=0):
    """A batch of tiles of edge values and random patterns, NaN payloads among them."""
    count = PROGRAMS * int(np.prod(shape, dtype=int))
    some = np.concatenate([edges.values(element), edges.random_values(element, count, seed)])
    return np.random.default_rng(seed).permutation(some)[:count].reshape(PROGRAMS, *shape)


def result_types(element, shapes, body):
    """The types of what `body` gives on tiles of these shapes."""
    found = []
    module([Tile(s, element) if s else element for s in shapes],
           lambda k, *tiles: found.extend(v.type for v in body(k, *tiles)))
    return found


def check(engine, element, shapes, body, want):
    """`body(kernel, *tiles)` on loaded tiles must give, as bits, what `want(*tiles)` says of one program."""
    inputs = [data(element, shape, i) for i, shape in enumerate(shapes)]
    types = result_types(element, shapes, body)
    outputs = [np.zeros((PROGRAMS, *shape_of(t)), storage_dtype(element)) for t in types]

    def kernel(k, *pointers):
        tiles = [k.load(k.tile_pointers(p, s)) for p, s in zip(pointers, shapes, strict=False)]
        for target, value in zip(pointers[len(shapes):], body(k, *tiles), strict=True):
            k.store(k.tile_pointers(target, shape_of(value.type)), value)

    m = module([ptr(element)] * (len(inputs) + len(outputs)), kernel)
    engines.ENGINES[engine](m, (PROGRAMS,), [*inputs, *outputs])
    for program in range(PROGRAMS):
        for got, stated in zip(outputs, want(*(bits_of(a)[program] for a in inputs)), strict=True):
            np.testing.assert_array_equal(bits_of(got)[program], stated)


def by_index(shape, rule):
    """An array of bit patterns with rule(*index) at each index."""
    out = np.zeros(shape, np.uint64)
    for index in np.ndindex(*shape):
        out[index] = rule(*index)
    return out


def position(index, shape):
    """Row-major position of an index."""
    at = 0
    for i, n in zip(index, shape, strict=True):
        at = at * n + i
    return at


@each_engine
@each_type
def test_splat_and_expand_dims(engine, element):
    for shape in ((1,), (7,), (17,), (2, 3), (2, 1, 5)):
        check(engine, element, [()], lambda k, x: [k.splat(x, shape)], lambda x: [by_index(shape, lambda *i: x[()])])
    check(engine, element, [()], lambda k, x: [k.one("expand_dims", x, axis=0)],
          lambda x: [by_index((1,), lambda i: x[()])])
    for axis in range(3):
        shape = (*(3, 7)[:axis], 1, *(3, 7)[axis:])
        check(engine, element, [(3, 7)], lambda k, x: [k.one("expand_dims", x, axis=axis)],
              lambda x: [by_index(shape, lambda *i: x[i[:axis] + i[axis + 1:]])])


@each_engine
@each_type
def test_reshape(engine, element):
    for before, after in [((12,), (3, 4)), ((3, 4), (2, 3, 2)), ((7,), (7, 1)), ((2, 17), (34,)), ((1,), ()),
                          ((), (1, 1))]:
        check(engine, element, [before], lambda k, x: [k.one("reshape", x, shape=after)],
              lambda x: [by_index(after, lambda *i: x.reshape(-1)[position(i, after)])])


@each_engine
@each_type
def test_permute(engine, element):
    for shape in ((7,), (3, 16), (2, 3, 4)):
        for order in itertools.permutations(range(len(shape))):
            target = tuple(shape[o] for o in order)
            check(engine, element, [shape], lambda k, x: [k.one("permute", x, order=order)],
                  lambda x: [by_index(target, lambda *i: x[tuple(i[order.index(d)] for d in range(len(shape)))])])


@each_engine
@each_type
def test_broadcast(engine, element):
    for before, after in [((1, 7), (3, 7)), ((3, 1), (3, 17)), ((1, 1, 1), (2, 3, 4)), ((5,), (5,)), ((1,), (16,))]:
        check(engine, element, [before], lambda k, x: [k.one("broadcast", x, shape=after)],
              lambda x: [by_index(after, lambda *i: x[tuple(0 if n == 1 else j for j, n in zip(i, before))])])


@each_engine
@each_type
def test_join_and_split(engine, element):
    for shape in ((), (7,), (2, 3), (17,)):
        check(engine, element, [shape, shape], lambda k, a, b: [k.one("join", a, b)],
              lambda a, b: [by_index((*shape, 2), lambda *i: (a, b)[i[-1]][i[:-1]])])
        check(engine, element, [(*shape, 2)], lambda k, x: k.create("split", [x]),
              lambda x: [by_index(shape, lambda *i: x[(*i, half)]) for half in (0, 1)])


@each_engine
@each_type
def test_cat(engine, element):
    for a_shape, b_shape, axis in [((7,), (16,), 0), ((2, 3), (1, 3), 0), ((2, 3), (2, 4), 1)]:
        shape = tuple(n + (m if i == axis else 0) for i, (n, m) in enumerate(zip(a_shape, b_shape)))
        split = a_shape[axis]

        def from_either(a, b, i):
            inside = i[axis] < split
            return a[i] if inside else b[(*i[:axis], i[axis] - split, *i[axis + 1:])]

        check(engine, element, [a_shape, b_shape], lambda k, a, b: [k.one("cat", a, b, axis=axis)],
              lambda a, b: [by_index(shape, lambda *i: from_either(a, b, i))])


@each_engine
@each_type
def test_hint_changes_nothing(engine, element):
    for shape in ((), (7,), (2, 3)):
        ones = (1,) * max(1, len(shape))
        check(engine, element, [shape], lambda k, x: [k.one("hint", x, divisible=ones, constant=ones)], lambda x: [x])


@each_engine
@each_type
def test_masked_loads_and_stores(engine, element):
    """`other` or zero where the mask is false; a masked-off store leaves memory as it was."""
    mask, other = data(I1, (17,), 1), data(element, (17,), 2)
    x, results = data(element, (17,)), [data(element, (17,), 3) for _ in range(3)]
    before = bits_of(results[2]).copy()

    def kernel(k, x, mask, other, with_other, with_zero, stored):
        at, m = k.lanes(x, 17), k.load(k.lanes(mask, 17))
        k.store(k.lanes(with_other, 17), k.load(at, m, k.load(k.lanes(other, 17))))
        k.store(k.lanes(with_zero, 17), k.load(at, m))
        k.store(k.lanes(stored, 17), k.load(at), m)

    m = module([ptr(element), ptr(I1), *[ptr(element)] * 4], kernel)
    engines.ENGINES[engine](m, (PROGRAMS,), [x, mask, other, *results])
    x_bits = bits_of(x)
    for got, otherwise in zip(results, (bits_of(other), np.zeros_like(x_bits), before), strict=True):
        np.testing.assert_array_equal(bits_of(got), [[x_bits[i] if mask[i] else otherwise[i]
                                                      for i in ((p, lane) for lane in range(17))]
                                                     for p in range(PROGRAMS)])


@each_engine
@each_type
def test_gathers_scatters_and_reversal_in_place(engine, element):
    """Lanes at arbitrary places, some twice; all of a load happens before the store that follows."""
    rng = np.random.default_rng(9)
    index = np.stack([rng.integers(0, 17, 17) for _ in range(PROGRAMS)]).astype(np.int64)
    places = np.stack([rng.permutation(17) for _ in range(PROGRAMS)]).astype(np.int32)
    x = data(element, (17,))
    original, out = bits_of(x).copy(), np.zeros_like(x)

    def kernel(k, x, index, places, out):
        base = k.one("ptr_add", x, k.one("mul", k.pid(), k.const(17)))
        gathered = k.load(k.one("ptr_add", k.splat(base, (17,)), k.load(k.lanes(index, 17))))
        target = k.one("ptr_add", out, k.one("mul", k.pid(), k.const(17)))
        k.store(k.one("ptr_add", k.splat(target, (17,)), k.load(k.lanes(places, 17))), gathered)
        backwards = k.one("sub", k.splat(k.const(16), (17,)), k.iota(17))
        k.store(k.lanes(x, 17), k.load(k.one("ptr_add", k.splat(base, (17,)), backwards)))

    engines.ENGINES[engine](module([ptr(element), ptr(I64), ptr(I32), ptr(element)], kernel), (PROGRAMS,),
                            [x, index, places, out])
    for p in range(PROGRAMS):
        for lane in range(17):
            assert bits_of(out)[p, places[p, lane]] == original[p, index[p, lane]]
        np.testing.assert_array_equal(bits_of(x)[p], original[p, ::-1])


@each_engine
@each_type
def test_constants(engine, element):
    """Each edge value as a constant: integers and addresses as they are, floats rounded to the type."""
    stored = edges.values(element)
    floats = not isinstance(element, Pointer) and element.is_float
    numbers = [v for v in (fp.decode(stored, element) if floats else stored).tolist() if v == v]

    def kernel(k, out):
        for i, number in enumerate(numbers):
            k.store(k.one("ptr_add", out, k.const(i)), k.const(number, element))

    out = np.zeros(len(numbers), storage_dtype(element))
    engines.ENGINES[engine](module([ptr(element)], kernel), (1,), [out])
    keeps = ~np.isnan(fp.decode(stored, element)) if floats else np.ones(len(stored), bool)
    np.testing.assert_array_equal(bits_of(out), bits_of(stored)[keeps])


@each_engine
def test_iota(engine):
    ranges = [(0, 1), (0, 7), (-5, 12), (2**31 - 17, 2**31), (-2**31, -2**31 + 16)]

    def kernel(k, out):
        at = 0
        for start, end in ranges:
            places = k.one("ptr_add", k.splat(k.one("ptr_add", out, k.const(at)), (end - start,)), k.iota(end - start))
            k.store(places, k.one("iota", start=start, end=end))
            at += end - start

    out = np.zeros(sum(end - start for start, end in ranges), np.int32)
    engines.ENGINES[engine](module([ptr(I32)], kernel), (1,), [out])
    assert out.tolist() == [v for bounds in ranges for v in range(*bounds)]


@each_engine
@pytest.mark.parametrize("grid", [(5,), (3, 2), (2, 3, 4)], ids=str)
def test_program_ids(engine, grid):
    def kernel(k, out):
        ids, sizes = ([k.one(op, axis=a) for a in range(3)] for op in ("program_id", "num_programs"))
        y_and_z = k.one("add", ids[1], k.one("mul", sizes[1], ids[2]))
        linear = k.one("add", ids[0], k.one("mul", sizes[0], y_and_z))
        for i, value in enumerate((*ids, *sizes)):
            k.store(k.one("ptr_add", out, k.one("add", k.one("mul", linear, k.const(6)), k.const(i))), value)

    x, y, z = (*grid, 1, 1)[:3]
    out = np.zeros((x * y * z, 6), np.int32)
    engines.ENGINES[engine](module([ptr(I32)], kernel), grid, [out])
    assert out.tolist() == [[i, j, n, x, y, z] for n in range(z) for j in range(y) for i in range(x)]
