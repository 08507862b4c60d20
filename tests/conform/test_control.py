"""Control flow, calls, prints and assertions on every engine, against the same program in Python."""

import numpy as np
import pytest

from tests.conform import engines
from tests.conform.modules import function, module, ptr
from tilewright.diagnostics import KernelAssertionError, Location
from tilewright.ir.types import F32, F64, I1, I32, I64

PROGRAMS = 9
each_engine = pytest.mark.parametrize("engine", engines.ENGINES)


def wrap32(v):
    return (v + 2**31) % 2**32 - 2**31


def per_program(engine, body, *functions, lanes=None):
    """Run a kernel whose `body(kernel)` gives one i32 value (a scalar, or a tile of `lanes`) for each program."""
    shape = () if lanes is None else (lanes,)
    out = np.zeros((PROGRAMS, *shape), np.int32)
    m = module([ptr(I32)], lambda k, p: k.store(k.tile_pointers(p, shape), body(k)), *functions)
    engines.ENGINES[engine](m, (PROGRAMS,), [out])
    return out.tolist()


BOUNDS = [(0, "pid", 1), ("pid", 9, 2), ("pid", -5, -1), (0, 20, "pid"), (3, 3, 1), (0, 4, 1), (5, 0, 1), (0, 5, 0),
          (2**31 - 4, 2**31 - 1, 2), (-2**31 + 2, -2**31, -1)]


@each_engine
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_for(engine, bounds):
    def body(k):
        lower, upper, step = (k.pid() if b == "pid" else k.const(b) for b in bounds)
        (total,) = k.for_(lower, upper, step, [k.const(1)],
                          lambda i, t: [k.one("add", k.one("mul", t, k.const(7)), i)])
        return total

    want = []
    for pid in range(PROGRAMS):
        lower, upper, step = (pid if b == "pid" else b for b in bounds)
        total = 1
        for i in range(lower, upper, step) if step else ():
            total = wrap32(total * 7 + i)
        want.append(total)
    assert per_program(engine, body) == want


@each_engine
@pytest.mark.parametrize("bounds,count", [((2**31 - 2, -2**31 + 1, 1), 3), ((-1, 5, 1), 0), ((0, -2**31, 2**30), 2)])
def test_unsigned_for(engine, bounds, count):
    def body(k):
        (n,) = k.for_(*(k.const(b) for b in bounds), [k.const(0)], lambda i, n: [k.one("add", n, k.const(1))],
                      unsigned=True)
        return n

    assert per_program(engine, body) == [count] * PROGRAMS


@each_engine
def test_wide_for(engine):
    """Bounds of 64 bits beyond what 32 hold."""
    def body(k):
        lower, upper, step = (k.const(b, I64) for b in (2**40, 2**40 + 50, 7))
        (n,) = k.for_(lower, upper, step, [k.const(0)],
                      lambda i, n: [k.one("add", n, k.one("trunc", k.one("shr_u", i, k.const(1, I64)), to=I32))])
        return n

    total = 0
    for i in range(2**40, 2**40 + 50, 7):
        total = wrap32(total + (i >> 1))
    assert per_program(engine, body) == [total] * PROGRAMS


@each_engine
def test_tiles_carried_through_nested_loops(engine):
    def body(k):
        def inner(j, t):
            return [k.one("add", t, k.one("mul", k.iota(7), k.splat(j, (7,))))]

        def outer(i, t, u):
            (t,) = k.for_(k.const(0), i, k.const(1), [t], inner)
            return [t, k.one("xor", u, t)]

        start = k.splat(k.pid(), (7,))
        t, u = k.for_(k.const(0), k.pid(), k.const(1), [start, start], outer)
        return k.one("sub", t, u)

    want = []
    for pid in range(PROGRAMS):
        t, u = [pid] * 7, [pid] * 7
        for i in range(pid):
            for j in range(i):
                t = [v + lane * j for lane, v in enumerate(t)]
            u = [a ^ b for a, b in zip(u, t)]
        want.append([a - b for a, b in zip(t, u)])
    assert per_program(engine, body, lanes=7) == want


@each_engine
def test_the_first_value_of_a_loop_is_used_behind_it(engine):
    """A quotient (dear, so an engine may keep it) goes into a loop, which never yields it, and is stored after it."""
    x, y, first, last = (np.arange(7.0) + 10, np.arange(7.0) + 1, np.zeros(7), np.zeros(7))

    def body(k, x, y, first, last):
        a, b = k.load(k.lanes(x, 7)), k.load(k.lanes(y, 7))
        quotient = k.one("div_rn", a, b)
        (out,) = k.for_(k.const(0), k.const(1), k.const(1), [quotient], lambda i, t: [k.one("neg_f", b)])
        k.store(k.lanes(first, 7), quotient)
        k.store(k.lanes(last, 7), out)

    engines.ENGINES[engine](module([ptr(F64)] * 4, body), (1,), [x, y, first, last])
    np.testing.assert_array_equal(first, x / y)
    np.testing.assert_array_equal(last, -y)


@each_engine
def test_while_passes_values_and_keeps_the_last(engine):
    """Steps of the 3n + 1 sequence: a branch in a loop whose count differs from program to program."""
    def body(k):
        def before(v, n):
            return [k.one("cmp_ne", v, k.const(1)), n, v]

        def step(n, v):
            (following,) = k.if_(k.one("trunc", v, to=I1),
                                 lambda: [k.one("add", k.one("mul", v, k.const(3)), k.const(1))],
                                 lambda: [k.one("shr_u", v, k.const(1))])
            return [following, k.one("add", n, k.const(1))]

        n, v = k.while_([k.one("add", k.pid(), k.const(1)), k.const(0)], before, step)
        return k.one("add", n, k.one("mul", v, k.const(1000)))

    want = []
    for v in range(1, PROGRAMS + 1):
        n = 0
        while v != 1:
            v, n = (3 * v + 1 if v % 2 else v // 2), n + 1
        want.append(n + 1000)
    assert per_program(engine, body) == want


@each_engine
def test_branches_give_tiles_and_nest(engine):
    def body(k):
        low = k.one("cmp_lt_s", k.pid(), k.const(3))
        even = k.one("cmp_eq", k.one("and", k.pid(), k.const(1)), k.const(0))
        lanes = k.iota(17)

        def inner():
            return k.if_(even, lambda: [k.one("mul", lanes, lanes)],
                         lambda: [k.one("sub", k.splat(k.pid(), (17,)), lanes)])

        (tile,) = k.if_(low, lambda: [lanes], inner)
        return tile

    want = [[lane if pid < 3 else lane * lane if pid % 2 == 0 else pid - lane for lane in range(17)]
            for pid in range(PROGRAMS)]
    assert per_program(engine, body, lanes=17) == want


@each_engine
def test_stores_in_a_branch_belong_to_its_programs(engine):
    out = np.zeros(PROGRAMS, np.int32)

    def body(k, p):
        at = k.one("ptr_add", p, k.pid())
        k.if_(k.one("cmp_gt_s", k.pid(), k.const(4)), lambda: k.store(at, k.pid()) or [],
              lambda: k.store(at, k.const(-1)) or [])

    engines.ENGINES[engine](module([ptr(I32)], body), (PROGRAMS,), [out])
    assert out.tolist() == [pid if pid > 4 else -1 for pid in range(PROGRAMS)]


@each_engine
def test_calls_of_device_functions(engine):
    def call(k, name, *args, results=(I32,)):
        return k.create("call", args, {"callee": name, "result_types": results})

    both = function("both", [I32, I32], lambda k, a, b: [k.one("add", a, b), k.one("mul", a, b)])
    outer = function("outer", [I32], lambda k, a: [k.one("sub", *call(k, "both", a, a, results=(I32, I32)))])

    def body(k):
        (x,) = call(k, "outer", k.pid())
        s, p = call(k, "both", x, k.const(3), results=(I32, I32))
        return k.one("xor", s, p)

    want = [((2 * pid - pid * pid) + 3) ^ ((2 * pid - pid * pid) * 3) for pid in range(PROGRAMS)]
    assert per_program(engine, body, both, outer) == want


@each_engine
def test_prints_each_element_once(engine, capsys):
    def body(k, x):
        k.create("device_print", [k.load(k.lanes(x, 3)), k.pid()], {"prefix": "v", "signed": (True, False)})
        k.create("device_print", [k.splat(k.const(-1, I32), (2,))], {"prefix": "h", "signed": (True,), "hex": True})

    x = np.arange(6, dtype=np.float32) / 2
    engines.ENGINES[engine](module([ptr(F32)], body), (2,), [x])
    want = []
    for pid in range(2):
        place = f"pid ({pid}, 0, 0) idx"
        want += [f"{place} ({i}) v: (operand 0) {x[3 * pid + i]:f}" for i in range(3)]
        want += [f"{place} () v: (operand 1) {pid}"] + [f"{place} ({i}) h: 0xffffffff" for i in range(2)]
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(want)


@each_engine
def test_assertions_and_assumptions(engine):
    def body(k, n):
        k.location = Location("kernel.py", 12, 8)
        holds = k.one("cmp_lt_s", k.one("add", k.iota(7), k.splat(k.pid(), (7,))), k.splat(n, (7,)))
        k.create("assume", [k.one("cmp_ge_s", k.pid(), k.const(0))])
        k.create("device_assert", [holds], {"message": "lane in range"})

    m = module([I32], body)
    engines.ENGINES[engine](m, (PROGRAMS,), [6 + PROGRAMS])
    with pytest.raises(KernelAssertionError) as caught:
        engines.ENGINES[engine](m, (PROGRAMS,), [5 + PROGRAMS])
    text = str(caught.value)
    assert "lane in range" in text and "kernel.py:12:9" in text and f"({PROGRAMS - 1}, 0, 0)" in text


@each_engine
def test_division_and_shifts_never_trap(engine):
    """x / 0, INT_MIN / -1 and oversized shifts give some value on every engine, in tiles and scalars."""
    rows = ("div_s", "div_u", "rem_s", "rem_u", "shl", "shr_s", "shr_u")
    a = np.array([5, -2**31, 7, -2**31, 0, 1], np.int32)
    b = np.array([0, -1, 32, 0, 0, -5], np.int32)

    def body(k, a, b, out):
        for row in rows:
            k.store(k.lanes(out, 6), k.one(row, k.load(k.lanes(a, 6)), k.load(k.lanes(b, 6))))
            k.store(out, k.one(row, k.load(a), k.load(b)))

    engines.ENGINES[engine](module([ptr(I32)] * 3, body), (1,), [a, b, np.zeros(6, np.int32)])
