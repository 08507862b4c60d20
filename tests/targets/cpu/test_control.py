"""Loops and branches around tiles: parallel assignment, in place and aside, nested, with negative steps."""


import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I1, I32, Options, both, generated, kernel, ptr, target


def line(b, p, n=40, at=0):
    return b.at(p, b.iota(n, at))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_tiles_that_swap(n):
    def body(b, x, o, n):
        p, q = b.load(line(b, x)), b.load(line(b, x, at=40))
        p, q = b.for_(0, n, 1, [p, q], lambda i, p, q: [q, p])
        b.store(line(b, o), p)
        b.store(line(b, o, at=40), q)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
         [np.arange(80, dtype=np.float32), np.zeros(80, np.float32), n])


@pytest.mark.parametrize("n", [0, 1, 4])
def test_next_tiles_that_read_elsewhere(n):
    """A reversed tile, a broadcast row, a transposed square: each must see the old values."""
    def body(b, x, o, n):
        square, row = b.load(b.op("reshape", line(b, x, 36), shape=(6, 6))), b.load(line(b, x, 6))
        def step(i, s, r):
            moved = b.op("permute", s, order=(1, 0))
            return [b.binary("add_f", moved, b.row(r)), b.op("add_f", r, b.sum(s, 0))]
        s, r = b.for_(0, n, 1, [square, row], step)
        b.store(b.op("reshape", line(b, o, 36), shape=(6, 6)), s)
        b.store(line(b, o, 6, 36), r)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
         [np.arange(36, dtype=np.float32), np.zeros(42, np.float32), n])


def test_an_initial_tile_that_is_used_after_the_loop():
    def body(b, x, o, n):
        start = b.op("exp", b.load(line(b, x)))
        (v,) = b.for_(0, n, 1, [start], lambda i, v: [b.op("add_f", v, start)])
        b.store(line(b, o), b.op("sub_f", v, start))
    both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
         [np.linspace(0, 1, 40).astype(np.float32), np.zeros(40, np.float32), 3], exact=False)


@pytest.mark.parametrize("bounds", [(88, -1, -8), (5, 10, -3), (0, 10, 3), (0, 10, 0), (-5, 5, 1)])
def test_run_time_steps(bounds):
    def body(b, o, lower, upper, step):
        v, n = b.for_(lower, upper, step, [b.iota(20), b.const(0)],
                      lambda i, v, n: [b.add(v, b.like(i, v)), b.op("add", n, b.const(1))])
        b.store(line(b, o, 20), b.add(v, b.like(n, v)))
    both(kernel([("o", ptr(I32)), ("l", I32), ("u", I32), ("s", I32)], body), (1,), [np.zeros(20, np.int32), *bounds])


def test_pointers_that_a_loop_carries():
    def body(b, x, o, n):
        p, s, acc = b.for_(0, n, 1, [line(b, x, 20), b.at(x, b.const(3)), b.const(0.0, F32, (20,))],
                           lambda i, p, s, acc: [b.op("ptr_add", p, b.const(5, I32, (20,))), b.at(s, b.const(2)),
                                                 b.op("add_f", acc, b.binary("mul_f", b.load(p), b.load(s)))])
        b.store(line(b, o, 20), b.op("add_f", acc, b.load(p)))
    both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
         [np.arange(100, dtype=np.float32), np.zeros(20, np.float32), 4])


@pytest.mark.parametrize("n", [0, 1, 7])
def test_while_with_tiles(n):
    def body(b, x, o, n):
        def before(v, k):
            return [b.op("cmp_lt_s", k, n), b.op("add_f", v, b.const(0.5, F32, (33,))), k, v]
        def after(w, k, old):
            return [b.op("sub_f", w, b.mul(old, b.const(0.25, F32))), b.op("add", k, b.const(2))]
        inits = [b.load(line(b, x, 33)), b.const(0)]
        first = b.region([v.type for v in inits], before, "condition")
        passed = [v.type for v in first.terminator.operands[1:]]
        w, k, old = b.create("while", inits, {}, [first, b.region(passed, after)])
        b.store(line(b, o, 33), b.op("add_f", w, b.op("int_to_fp_s", b.splat(k, (33,)), to=F32)))
        b.store(line(b, o, 33, 33), old)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
         [np.arange(33, dtype=np.float32), np.zeros(66, np.float32), n])


def test_branches_with_tiles_in_a_loop():
    def body(b, x, o, n):
        v = b.load(line(b, x, 40))
        def step(i, v, s):
            odd = b.op("cmp_ne", b.op("and", i, b.const(1)), b.const(0))
            return b.create("if", [odd], {}, [
                b.region([], lambda: [b.mul(v, v), b.op("add", s, i)]),
                b.region([], lambda: [b.op("sub_f", v, b.like(b.sum(v, 0), v)), s])])
        v, s = b.for_(0, n, 1, [v, b.const(0)], step)
        b.store(line(b, o, 40), v)
        b.store(b.at(o, b.const(40)), b.op("int_to_fp_s", s, to=F32))
    for n in (0, 1, 2, 3):
        both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
             [(np.arange(40) % 3 - 1).astype(np.float32), np.zeros(41, np.float32), n])


def test_accumulating_in_a_loop_reads_and_writes_one_buffer():
    """acc += x in place: no second buffer, no copy."""
    def body(b, x, o, n):
        def step(i, acc):
            return [b.op("add_f", acc, b.load(b.at(b.at(x, b.mul(i, 1024)), b.iota(1024))))]
        (acc,) = b.for_(0, n, 1, [b.const(0.0, F32, (1024,))], step)
        b.store(b.at(o, b.iota(1024)), acc)
    module = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)
    assert generated(module).metadata["scratch_bytes"] == 4096
    both(module, (1,), [np.arange(4096, dtype=np.float32), np.zeros(1024, np.float32), 4])


def test_three_dimensional_grids():
    def body(b, o):
        x, y, z = (b.pid(k) for k in range(3))
        nx, ny = (b.op("num_programs", axis=k) for k in range(2))
        at = b.op("add", b.op("mul", b.op("add", b.op("mul", z, ny), y), nx), x)
        b.store(b.at(o, at), b.op("add", b.op("add", x, b.op("mul", y, b.const(10))), b.op("mul", z, b.const(100))))
    both(kernel([("o", ptr(I32))], body), (3, 4, 5), [np.zeros(60, np.int32)])


def test_an_endless_loop_looks_at_the_cancel_word():
    """The launch's cancel word is set: the loop ends, and what follows it is not run."""
    def body(b, o):
        first = b.region([], lambda: [b.const(1, I1)], "condition")
        b.create("while", [], {}, [first, b.region([], list)])
        b.store(o, b.const(5))
    module = kernel([("o", ptr(I32))], body)
    code = target().compile(module, Options())
    assert code.metadata["polls_cancel"]
    o, words, scratch = np.zeros(1, np.int32), np.zeros(32, np.int64), np.zeros(64, np.int64)
    words[:3], words[3], words[4] = 1, scratch.ctypes.data, words[16:].ctypes.data
    words[6], words[24] = words[24:].ctypes.data, 1
    slots = np.array([o.ctypes.data])
    loaded = target().load(code)        # the code is mapped as long as this lives
    loaded.entry(slots.ctypes.data, 0, 1, words.ctypes.data)
    assert o[0] == 0
