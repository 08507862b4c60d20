"""The batched interpreter: batches, divergent control flow, calls, regions, messages, forward progress."""

import re

import numpy as np
import pytest

from tests.conform.modules import function, module, ptr, run
from tests.departures import differs
from tilewright.diagnostics import InternalError, InterpreterError, KernelAssertionError, Location, OutOfBoundsError
from tilewright.interpret import batched
from tilewright.interpret.memory import Memory
from tilewright.ir.node import Block, Op
from tilewright.ir.types import F32, I1, I32, I64


def add_kernel(size):
    def body(k, x, y, out, n):
        offsets = k.one("add", k.splat(k.one("mul", k.pid(), k.const(size)), (size,)), k.iota(size))
        mask = k.one("cmp_lt_s", offsets, k.splat(n, (size,)))
        a, b = (k.load(k.one("ptr_add", k.splat(p, (size,)), offsets), mask) for p in (x, y))
        k.store(k.one("ptr_add", k.splat(out, (size,)), offsets), k.one("add_f", a, b), mask)

    return module([ptr(F32), ptr(F32), ptr(F32), I32], body)


@pytest.mark.parametrize("budget", [1, 5000, 1 << 20])
def test_masked_vector_add_in_batches_of_any_size(budget):
    n = 1000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    out = np.full(n + 24, -1, np.float32)
    run(add_kernel(16), (64,), x, y, out, n, budget=budget)
    np.testing.assert_array_equal(out[:n], x + y)
    assert (out[n:] == -1).all()


def test_program_ids_and_grid_of_three_axes():
    def body(k, out):
        x, y, z = (k.pid(a) for a in range(3))
        gx, gy = k.one("num_programs", axis=0), k.one("num_programs", axis=1)
        linear = k.one("add", x, k.one("mul", gx, k.one("add", y, k.one("mul", gy, z))))
        code = k.one("add", x, k.one("add", k.one("mul", y, k.const(10)), k.one("mul", z, k.const(100))))
        k.store(k.one("ptr_add", out, linear), code)

    out = np.zeros(2 * 3 * 4, np.int32)
    run(module([ptr(I32)], body), (2, 3, 4), out)
    assert out.tolist() == [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]


def test_empty_grid_runs_nothing_and_bad_grids_are_refused():
    out = np.zeros(1, np.int32)
    m = module([ptr(I32)], lambda k, p: k.store(p, k.const(1)))
    run(m, (3, 0), out)
    assert out[0] == 0
    for grid in ((), (1, 1, 1, 1), (-1,)):
        with pytest.raises(InterpreterError, match="a grid has one to three sizes"):
            run(m, grid, out)


def collatz_body(k, x):
    """Steps of a while loop with a divergent number of iterations and an if inside."""
    def before(v, n):
        return [k.one("cmp_ne", v, k.const(1)), v, n]

    def loop(v, n):
        odd = k.one("trunc", v, to=I1)

        def triple():
            return [k.one("add", k.one("mul", v, k.const(3)), k.const(1))]

        (following,) = k.if_(odd, triple, lambda: [k.one("div_s", v, k.const(2))])
        return [following, k.one("add", n, k.const(1))]

    return k.while_([x, k.const(0)], before, loop)


def collatz(v):
    steps = 0
    while v != 1:
        v, steps = (3 * v + 1 if v % 2 else v // 2), steps + 1
    return steps


def test_while_and_if_that_diverge():
    def body(k, out):
        start = k.one("add", k.pid(), k.const(1))
        last, steps = collatz_body(k, start)
        k.store(k.one("ptr_add", out, k.pid()), k.one("add", steps, k.one("mul", last, k.const(1000))))

    out = np.zeros(40, np.int32)
    run(module([ptr(I32)], body), (40,), out)
    assert out.tolist() == [1000 + collatz(v) for v in range(1, 41)]


@pytest.mark.parametrize("lower,upper,step", [(0, "pid", 1), ("pid", 9, 2), ("pid", -5, -1), (0, 5, "pid"),
                                              (3, 3, 1), (0, 4, 1), (0, 5, 0)])
def test_for_with_uniform_and_divergent_bounds(lower, upper, step):
    def body(k, out):
        bounds = [k.pid() if b == "pid" else k.const(b) for b in (lower, upper, step)]

        def loop(index, total, count):
            ten = k.one("mul", total, k.const(7))
            return [k.one("add", ten, index), k.one("add", count, k.const(1))]

        total, count = k.for_(*bounds, [k.const(1), k.const(0)], loop)
        at = k.one("ptr_add", out, k.one("mul", k.pid(), k.const(2)))
        k.store(at, total)
        k.store(k.one("ptr_add", at, k.const(1)), count)

    out = np.zeros((8, 2), np.int32)
    run(module([ptr(I32)], body), (8,), out)
    for pid in range(8):
        bounds = [pid if b == "pid" else b for b in (lower, upper, step)]
        total, count = 1, 0
        for index in range(*bounds) if bounds[2] else ():
            total, count = total * 7 + index, count + 1
        assert out[pid].tolist() == [(total + 2**31) % 2**32 - 2**31, count]


def test_for_near_the_limits_ends_and_unsigned_bounds_compare_unsigned():
    def count(k, lower, upper, step, unsigned):
        (n,) = k.for_(k.const(lower), k.const(upper), k.const(step), [k.const(0)],
                      lambda index, c: [k.one("add", c, k.const(1))], unsigned=unsigned)
        return n

    cases = [(2**31 - 4, 2**31 - 1, 2, False), (-2**31 + 2, -2**31, -1, False), (2**31 - 2, -2**31 + 1, 1, True),
             (-1, 5, 1, True)]

    def body(k, out):
        for i, case in enumerate(cases):
            k.store(k.one("ptr_add", out, k.const(i)), count(k, *case))

    out = np.zeros(4, np.int32)
    run(module([ptr(I32)], body), (1,), out)
    assert out.tolist() == [2, 2, 3, 0]


def test_tiles_are_carried_through_divergent_loops():
    """A tile that is uniform before the loop becomes one of each program in it."""
    def body(k, out):
        start = k.splat(k.const(0), (4,))
        (total,) = k.for_(k.const(0), k.pid(), k.const(1), [start],
                          lambda index, t: [k.one("add", t, k.one("add", k.iota(4), k.splat(index, (4,))))])
        k.store(k.lanes(out, 4), total)

    out = np.zeros((5, 4), np.int32)
    run(module([ptr(I32)], body), (5,), out)
    assert out.tolist() == [[sum(i + lane for i in range(pid)) for lane in range(4)] for pid in range(5)]


def test_calls_nest_and_see_only_their_parameters():
    square = function("square", [I32], lambda k, x: [k.one("mul", x, x)])
    fourth = function("fourth", [I32], lambda k, x: k.create(
        "call", k.create("call", [x], {"callee": "square", "result_types": (I32,)}),
        {"callee": "square", "result_types": (I32,)}))

    def body(k, out):
        (y,) = k.create("call", [k.pid()], {"callee": "fourth", "result_types": (I32,)})
        k.store(k.one("ptr_add", out, k.pid()), y)

    out = np.zeros(5, np.int32)
    run(module([ptr(I32)], body, square, fourth), (5,), out)
    assert out.tolist() == [0, 1, 16, 81, 256]


@pytest.mark.parametrize("captures", [False, True])
def test_reduce_region_that_branches_and_captures(captures):
    """max of |a|, b by an `if` in the region; the capturing one adds this program's id at each step."""
    def body(k, out):
        extra = k.pid() if captures else k.const(0)
        base = k.one("add", k.iota(5), k.splat(k.pid(), (5,)))

        def combine(a, b):
            (c,) = k.if_(k.one("cmp_lt_s", a, b), lambda: [b], lambda: [a])
            return [k.one("add", c, extra)]

        top = k.one("reduce", base, axis=0, regions=[k.region([I32, I32], combine)])
        uniform = k.one("reduce", k.iota(5), axis=0, regions=[k.region([I32, I32], combine)])
        at = k.one("ptr_add", out, k.one("mul", k.pid(), k.const(2)))
        k.store(at, top)
        k.store(k.one("ptr_add", at, k.const(1)), uniform)

    out = np.zeros((4, 2), np.int32)
    run(module([ptr(I32)], body), (4,), out)
    for pid in range(4):
        values, extra = [4 + pid, 4], pid if captures else 0
        # ((0 1)(2 3)) 4: the last element meets the tree's root once; each level adds `extra`
        assert out[pid].tolist() == [max(v - 1 + 2 * extra, v) + extra for v in values]


def test_a_spin_on_memory_runs_one_program_at_a_time():
    """Program p waits for the token that program p - 1 passes on."""
    def body(k, flag, out):
        def before():
            v = k.load(flag)
            return [k.one("cmp_ne", v, k.pid())]

        k.while_([], before, list)
        k.store(k.one("ptr_add", out, k.pid()), k.load(flag))
        k.store(flag, k.one("add", k.load(flag), k.const(1)))

    flag, out = np.zeros(1, np.int32), np.full(6, -1, np.int32)
    run(module([ptr(I32), ptr(I32)], body), (6,), flag, out)
    assert out.tolist() == list(range(6)) and flag[0] == 6


def test_prints_come_program_by_program(capsys):
    def body(k, n):
        k.create("device_print", [k.iota(2)], {"prefix": "lane", "signed": (True,)})
        k.create("device_print", [k.pid(), n], {"prefix": " both: ", "signed": (True, False)})
        k.create("device_print", [], {"prefix": "hello", "signed": ()})

    run(module([I32], body), (2,), -1)
    expected = []
    for pid in range(2):
        place = f"pid ({pid}, 0, 0)"
        expected += [f"{place} idx (0) lane: 0", f"{place} idx (1) lane: 1",
                     f"{place} idx () both: (operand 0) {pid}", f"{place} idx () both: (operand 1) 4294967295",
                     f"{place} hello"]
    assert capsys.readouterr().out.splitlines() == expected


def test_assertion_names_message_program_and_line():
    def body(k, n):
        k.location = Location("kernel.py", 7, 4)
        good = k.one("cmp_lt_s", k.iota(4), k.splat(n, (4,)))
        true = k.splat(k.const(True, I1), (4,))
        (bad,) = k.if_(k.one("cmp_eq", k.pid(1), k.const(1)), lambda: [good], lambda: [true])
        k.create("device_assert", [bad], {"message": "lane < n"})

    m = module([I32], body)
    run(m, (2, 2), 4)
    with pytest.raises(KernelAssertionError, match=r"(?s)kernel.py:7:5.*program \(0, 1, 0\): lane < n"):
        run(m, (2, 2), 3)


def test_what_was_printed_before_an_error_is_shown():
    def body(k, x):
        k.create("device_print", [k.pid()], {"prefix": "at", "signed": (True,)})
        k.load(k.one("ptr_add", x, k.pid()))

    written = []
    with pytest.raises(OutOfBoundsError):
        run(module([ptr(F32)], body), (4,), np.zeros(2, np.float32), write=written.append)
    assert "".join(written).count("at:") == 4


@differs("Accesses outside of a tensor are errors")
def test_out_of_bounds_names_argument_element_lane_program_and_line():
    def body(k, x, out):
        k.location = Location("kernel.py", 3, 0)
        k.store(k.lanes(out, 4), k.load(k.lanes(x, 4)))

    x, out = np.zeros(10, np.float32), np.zeros(12, np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        run(module([ptr(F32), ptr(F32)], body), (3,), x, out)
    text = str(caught.value)
    assert re.search(r"kernel.py:3:1", text)
    assert "load out of bounds: element 10 of 'arg0', whose elements 0 to 9 are in bounds" in text
    assert "tile element [2] of program (2, 0, 0)" in text


def test_pointers_loaded_from_memory_lead_anywhere_but_never_crash():
    def body(k, table, out):
        target = k.load(k.one("ptr_add", table, k.pid()))
        k.store(k.one("ptr_add", out, k.pid()), k.load(k.one("ptr_add", target, k.const(1))))

    m = module([ptr(ptr(F32)), ptr(F32)], body)
    targets = [np.array([i, 10.0 + i], np.float32) for i in range(3)]
    table, out = np.array([t.ctypes.data for t in targets]), np.zeros(3, np.float32)
    run(m, (3,), table, out)
    assert out.tolist() == [10, 11, 12]
    table[1] = 64
    with pytest.raises(InterpreterError, match=r"which came out of memory: it is no readable memory.*\(1, 0, 0\)"):
        run(m, (3,), table, out)


def test_arguments_are_checked_and_wrap():
    def body(k, out, a, b, f):
        k.store(out, k.one("add", a, k.one("trunc", b, to=I32)))

    m = module([ptr(I32), I32, I64, F32], body)
    out = np.zeros(1, np.int32)
    run(m, (1,), out, 2**32 - 1, 2**63 + 5, 1.5)
    assert out[0] == 4
    with pytest.raises(InterpreterError, match="takes 4 arguments, not 3"):
        batched.run(m, (1,), [0, 0, 0], Memory([]))


def test_a_row_that_breaks_its_type_is_found():
    """The interpreter checks every result against its type, so a fault in a row cannot travel."""
    m = module([ptr(I32)], lambda k, out: k.store(k.lanes(out, 4), k.iota(4)))
    wrong = [Op(o.row, o.operands, o.results, {**o.attrs, "end": 5} if o.name == "iota" else o.attrs, o.regions)
             for o in m.entry.body.ops]
    broken = m.with_functions({"kernel": m.entry.with_body(Block(m.entry.body.args, tuple(wrong)))})
    with pytest.raises(InternalError, match=r"iota gave int32\[1, 5\], not int32\[1 or 1, 4\]"):
        run(broken, (1,), np.zeros(4, np.int32))
