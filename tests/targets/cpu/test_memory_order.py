"""All of a load happens before a later store of the same program, and a program sees its own stores."""

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, both, kernel, ptr

BLOCK = 100


def shifted(shift, disjoint=True):
    """x[i + shift] = x[i] * 2, in place, by one program."""
    def body(b, x):
        offs = b.add(b.iota(BLOCK), 32)
        b.store(b.at(x, b.add(offs, shift)), b.mul(b.load(b.at(x, offs)), b.const(2.0, F32)))
    return kernel([("x", ptr(F32))], body, disjoint)


@pytest.mark.parametrize("shift", [0, 1, -1, 16, -16, 15, 4, -4, 32])
@pytest.mark.parametrize("disjoint", [True, False])
def test_shift_in_place(shift, disjoint):
    both(shifted(shift, disjoint), (1,), [np.arange(170, dtype=np.float32)])


def test_reversed_in_place():
    def body(b, x):
        offs = b.iota(BLOCK)
        b.store(b.at(x, b.op("sub", b.const(BLOCK - 1, I32, (BLOCK,)), offs)), b.load(b.at(x, offs)))
    both(kernel([("x", ptr(F32))], body), (1,), [np.arange(BLOCK, dtype=np.float32)])


@pytest.mark.parametrize("shift", [0, 1, -1, 16, -3])
def test_arguments_that_overlap(shift):
    """Two arguments in one array; the launch does not promise that they are disjoint."""
    def body(b, x, y):
        offs = b.iota(BLOCK)
        b.store(b.at(y, offs), b.add(b.load(b.at(x, offs)), b.const(1.0, F32)))
    module = kernel([("x", ptr(F32)), ("y", ptr(F32))], body, disjoint=False)
    got, want = np.arange(200, dtype=np.float32), np.arange(200, dtype=np.float32)
    from tests.targets.cpu.harness import run_cpu
    run_cpu(module, (1,), [got[40:140], got[40 + shift:140 + shift]])
    want[40 + shift:140 + shift] = want[40:140] + 1
    np.testing.assert_array_equal(got, want)


def test_all_lanes_read_one_address_that_is_written():
    """x[0] is read by every lane, then written by every lane: one increment."""
    def body(b, x):
        p = b.splat(x, (64,))
        b.store(p, b.add(b.load(p), b.const(1.0, F32)))
    both(kernel([("x", ptr(F32))], body), (1,), [np.ones(1, np.float32)])


def test_a_remainder_is_not_one_element_for_one():
    """x[i % 20] += 1: addresses repeat, so all must be read before any is written."""
    def body(b, x, m):
        p = b.at(x, b.binary("rem_s", b.iota(64), m))
        b.store(p, b.add(b.load(p), b.const(1.0, F32)))
    both(kernel([("x", ptr(F32)), ("m", I32)], body), (1,), [np.zeros(64, np.float32), 20])


def test_load_store_load():
    """What was loaded before a store stays; what is loaded after it sees the store."""
    def body(b, x, o):
        offs = b.iota(50)
        before = b.load(b.at(x, offs))
        b.store(b.at(x, offs), b.mul(before, b.const(3.0, F32)))
        after = b.load(b.at(x, b.add(offs, 1)))
        b.store(b.at(x, b.add(offs, 1)), b.const(-1.0, F32, (50,)))
        b.store(b.at(o, offs), b.add(b.mul(before, b.const(100.0, F32)), after))
        b.store(b.at(o, b.add(offs, 50)), b.load(b.at(x, offs)))
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [np.arange(51, dtype=np.float32),
                                                              np.zeros(100, np.float32)])


def test_a_store_in_a_loop_changes_what_a_later_iteration_loads():
    def body(b, x, o, n):
        offs = b.iota(33)
        first = b.load(b.at(x, offs))
        def step(i):
            now = b.load(b.at(x, offs))
            b.store(b.at(x, offs), b.add(now, first))
            return []
        b.for_(0, n, 1, [], step)
        b.store(b.at(o, offs), b.add(first, b.load(b.at(x, offs))))
    both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
         [np.arange(33, dtype=np.float32), np.zeros(33, np.float32), 3])


def test_a_store_in_a_branch():
    def body(b, x, o, n):
        offs = b.iota(33)
        first = b.load(b.at(x, offs))
        def then():
            b.store(b.at(x, b.add(offs, 1)), b.const(9.0, F32, (33,)))
            return []
        flag = b.op("cmp_gt_s", n, b.const(0))
        b.create("if", [flag], {}, [b.region([], then), b.region([], list)])
        b.store(b.at(o, offs), first)
    for n in (0, 1):
        both(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
             [np.arange(34, dtype=np.float32), np.zeros(33, np.float32), n])


def test_scalar_loads_keep_program_order():
    def body(b, x, o):
        a = b.load(x)
        b.store(x, b.op("add_f", a, a))
        c = b.load(x)
        b.store(b.at(o, b.const(0)), b.op("sub_f", c, a))
        b.store(x, b.op("add_f", c, c))
        b.store(b.at(o, b.const(1)), b.load(x))
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [np.ones(1, np.float32), np.zeros(2, np.float32)])


def test_two_dimensional_in_place_with_a_stride_of_zero():
    """Rows that lie on each other: the store's addresses repeat."""
    def body(b, x, s):
        i, j = b.col(b.iota(4)), b.row(b.iota(20))
        p = b.at(x, b.add(b.mul(i, s), j))
        b.store(p, b.add(b.load(p), b.const(1.0, F32)))
    for stride in (0, 1, 20):
        both(kernel([("x", ptr(F32)), ("s", I32)], body), (1,), [np.zeros(100, np.float32), stride])


@pytest.mark.parametrize("step", [0, 1, 3, 19, 20])
def test_rows_that_lie_on_each_other_by_a_number(step):
    """x[step * i + j] += i + 1: of an element that several rows have the last wins, and all add to what was there."""
    def body(b, x):
        i, j = b.iota(4), b.row(b.iota(20))
        p = b.at(x, b.add(b.mul(b.col(i), step), j))
        added = b.op("int_to_fp_s", b.add(b.op("broadcast", b.col(i), shape=(4, 20)), 1), to=F32)
        b.store(p, b.add(b.load(p), added))
    both(kernel([("x", ptr(F32))], body), (1,), [np.arange(90, dtype=np.float32)])


def test_rows_that_lie_on_each_other_in_a_layout_by_columns():
    """x[i + 2 * j] += 1, of 4 rows."""
    def body(b, x):
        p = b.at(x, b.add(b.col(b.iota(4)), b.mul(b.row(b.iota(20)), 2)))
        b.store(p, b.add(b.load(p), b.const(1.0, F32)))
    both(kernel([("x", ptr(F32))], body), (1,), [np.arange(90, dtype=np.float32)])


def test_volatile_loads_are_done_where_they_stand():
    def body(b, x, o):
        offs = b.iota(40)
        first = b.load(b.at(x, offs), volatile=True)
        again = b.load(b.at(x, offs), volatile=True)
        b.load(b.at(x, offs), volatile=True)
        b.store(b.at(o, offs), b.op("add_f", first, again))
        b.store(b.at(o, b.const(40)), b.load(x, volatile=True))
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,),
         [np.arange(40, dtype=np.float32), np.zeros(41, np.float32)])
