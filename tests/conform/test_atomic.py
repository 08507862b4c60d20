"""`atomic_rmw` and `atomic_cas` on every element type, on every engine, against exact statements lane by lane."""

import numpy as np
import pytest

from tests.conform import edges, engines
from tests.conform.compare import is_float, same
from tests.conform.expected import rounded, statement
from tests.conform.modules import module, ptr
from tests.conform.rows import bits_of
from tests.gpu import CUDA
from tilewright.ir import fp
from tilewright.ir.ops.attributes import Rmw, Sem
from tilewright.ir.ops.rules import is_kind
from tilewright.ir.types import ALL_SCALARS, F32, I1, I32, storage_dtype

each_engine = pytest.mark.parametrize("engine", engines.ENGINES)
ELEMENTS = [e for e in ALL_SCALARS if e != I1]
CASES = [(kind, e) for kind in Rmw for e in ELEMENTS
         if kind.on_floats is None or is_kind(e, "float" if kind.on_floats else "int")]


def numbers(array, element):
    return (fp.decode(array, element) if is_float(element) else array).tolist()


def as_stored(values, element):
    return fp.encode(np.array(values, np.float64), element) if is_float(element) else np.array(
        values, storage_dtype(element))


@each_engine
@pytest.mark.parametrize("kind,element", CASES, ids=lambda p: p.value if isinstance(p, Rmw) else str(p))
def test_read_modify_write(engine, kind, element):
    """Lanes that share elements act in row-major order; on a GPU in some order."""
    lanes, slots = 41, 23
    pool = np.concatenate([edges.values(element), edges.random_values(element, lanes, 3)])
    rng = np.random.default_rng(4)
    x, values = rng.permutation(pool)[:slots].copy(), rng.permutation(pool)[:lanes].copy()
    places, mask = rng.integers(0, slots, lanes).astype(np.int32), rng.integers(0, 4, lanes) > 0
    start, old = x.copy(), np.zeros(lanes, storage_dtype(element))

    def kernel(k, x, places, values, mask, old):
        at = k.one("ptr_add", k.splat(x, (lanes,)), k.load(k.lanes(places, lanes)))
        found = k.one("atomic_rmw", at, k.load(k.lanes(values, lanes)), k.load(k.lanes(mask, lanes)), kind=kind,
                      sem=list(Sem)[lanes % 4], has_mask=True)
        k.store(k.lanes(old, lanes), found)

    m = module([ptr(element), ptr(I32), ptr(element), ptr(I1), ptr(element)], kernel)
    engines.ENGINES[engine](m, (1,), [x, places, values, mask, old])
    rule = (lambda a, b: b) if kind is Rmw.XCHG else statement(kind.value, (element, element), element, {})
    now, found = numbers(start, element), [0] * lanes
    for lane, (place, value) in enumerate(zip(places.tolist(), numbers(values, element), strict=True)):
        if mask[lane]:
            found[lane] = now[place]
            now[place] = rounded(rule(now[place], value), element, {})
    if engine == CUDA:
        for place in range(slots):
            sharing = [lane for lane in range(lanes) if mask[lane] and places[lane] == place]
            assert has_order(kind, element, start[place], [(old[k], values[k]) for k in sharing], x[place])
        assert not bits_of(old[~mask]).any()
        return
    assert same(x, as_stored(now, element), element).all()
    assert same(old, as_stored(found, element), element).all()


def has_order(kind, element, start, lanes, end):
    """Whether the lanes, each with what it found and what it brought, may have acted one after the other."""
    if not lanes:
        return same(np.array([start]), np.array([end]), element).all()
    rule = (lambda a, b: b) if kind is Rmw.XCHG else statement(kind.value, (element, element), element, {})
    (now,) = numbers(np.array([start]), element)
    for k, (found, brought) in enumerate(lanes):
        if same(np.array([start]), np.array([found]), element).all():
            (value,) = numbers(np.array([brought]), element)
            (after,) = as_stored([rounded(rule(now, value), element, {})], element)
            if has_order(kind, element, after, lanes[:k] + lanes[k + 1:], end):
                return True
    return False


def test_an_order_is_found_only_where_there_is_one():
    def ordered(kind, element, start, lanes, end):
        values = as_stored([start, end, *(v for lane in lanes for v in lane)], element)
        return has_order(kind, element, values[0], list(zip(values[2::2], values[3::2], strict=True)), values[1])

    assert ordered(Rmw.ADD, I32, 5, [(8, 1), (5, 3), (9, 4)], 13)
    assert not ordered(Rmw.ADD, I32, 5, [(5, 1), (5, 3)], 9) and not ordered(Rmw.ADD, I32, 5, [(5, 1)], 7)
    assert ordered(Rmw.XCHG, F32, 1, [(3, 2), (1, 3)], 2) and not ordered(Rmw.XCHG, F32, 1, [(1, 2), (1, 3)], 2)
    assert ordered(Rmw.FADD, F32, 7, [], 7) and not ordered(Rmw.FADD, F32, 7, [], 8)


@each_engine
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_compare_and_swap_compares_bits(engine, element):
    x = edges.values(element).copy()
    n = len(x)
    expected = np.where(np.arange(n) % 2 == 0, x, np.roll(x, 1))
    new, old, start = np.roll(x, 3), np.zeros_like(x), bits_of(x).copy()

    def kernel(k, x, expected, new, old):
        k.store(k.lanes(old, n), k.one("atomic_cas", k.lanes(x, n), k.load(k.lanes(expected, n)),
                                       k.load(k.lanes(new, n)), has_mask=False))

    engines.ENGINES[engine](module([ptr(element)] * 4, kernel), (1,), [x, expected, new, old])
    np.testing.assert_array_equal(bits_of(old), start)
    np.testing.assert_array_equal(bits_of(x), np.where(start == bits_of(expected), bits_of(new), start))


@each_engine
def test_scalar_with_mask(engine):
    x, old = np.array([5, 6], np.int32), np.full(2, 9, np.int32)

    def kernel(k, x, old):
        for i, flag in enumerate((True, False)):
            place = k.const(i)
            found = k.one("atomic_rmw", k.one("ptr_add", x, place), k.const(10), k.const(flag, I1), kind=Rmw.ADD,
                          has_mask=True)
            k.store(k.one("ptr_add", old, place), found)

    engines.ENGINES[engine](module([ptr(I32)] * 2, kernel), (1,), [x, old])
    assert (x.tolist(), old.tolist()) == ([15, 6], [5, 0])
