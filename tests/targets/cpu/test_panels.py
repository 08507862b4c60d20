"""Packed operands that are kept: what a hit needs, what ends it, and that results never show it."""

import dataclasses

import numpy as np
import pytest

from tests.targets.cpu.harness import BF16, F16, F32, I8, I32, WIDE, both, generated, kernel, ptr, target, words
from tilewright.ir import fp
from tilewright.ir.ops.attributes import Rmw
from tilewright.language.options import Options
from tilewright.passes.manager import run_passes
from tilewright.targets.cpu.host.portable import PortableHost
from tilewright.targets.cpu.host.records import WORD, Frame
from tilewright.targets.cpu.panels import FORGET

M, N, K = 32, 32, 16        # of a tile


def tile(b, p, i, j, stride):
    return b.load(b.at(p, b.add(b.mul(b.col(i), stride), b.row(j))))


def grid_product(t=F32, acc=F32, across=False, turned=False, written=False, change=None, disjoint=True):
    """o = x @ y by program `pid`: rows are numbered fastest, or columns if `across`; `y` is read turned if asked.

    `written`: the kernel stores into `y` too, after the product.  `change` is applied to the right tile.
    """
    def body(b, x, y, o, rows, columns, depth):
        pid = b.pid()
        fast, slow = b.op("rem_s", pid, rows), b.op("div_s", pid, rows)
        if across:
            slow, fast = b.op("div_s", pid, columns), b.op("rem_s", pid, columns)
        m, n = (slow, fast) if across else (fast, slow)
        i, j = b.add(b.mul(m, M), b.iota(M)), b.add(b.mul(n, N), b.iota(N))
        width, deep = b.mul(columns, N), b.mul(depth, K)
        def step(k, total):
            kk = b.add(b.mul(k, K), b.iota(K))
            left = tile(b, x, i, kk, deep)
            if turned:
                right = b.load(b.at(y, b.add(b.like(b.col(kk), b.op("broadcast", b.row(j), shape=(K, N))),
                                             b.op("broadcast", b.row(b.mul(j, deep)), shape=(K, N)))))
            else:
                right = tile(b, y, kk, j, width)
            right = right if change is None else change(b, right, k, n)
            return [b.op("dot", left, right, total)]
        (total,) = b.for_(0, depth, 1, [b.const(0.0 if acc.is_float else 0, acc, (M, N))], step)
        b.store(b.at(o, b.add(b.mul(b.col(i), width), b.row(j))), total)
        if written:
            b.store(b.at(y, pid), b.const(0.0 if t.is_float else 0, t))
    return kernel([("x", ptr(t)), ("y", ptr(t)), ("o", ptr(acc)), *((s, I32) for s in ("rows", "columns", "depth"))],
                  body, disjoint)


def arguments(t, acc, rows, columns, depth, turned=False, seed=0):
    rng = np.random.default_rng(seed)
    def make(*shape):
        numbers = rng.integers(-4, 5, shape)
        if t.is_float:
            return np.ascontiguousarray(fp.encode(numbers.astype(np.float64), t))
        return (numbers * 20).astype(np.int8)
    y = make(columns * N, depth * K) if turned else make(depth * K, columns * N)
    o = np.zeros((rows * M, columns * N), np.float32 if acc.is_float else np.int32)
    return [make(rows * M, depth * K), y, o, rows, columns, depth]


def test_no_other_tile_shares_the_memory():
    """An earlier tile of each program has been in scratch, and its bytes are free when the product comes."""
    def body(b, x, y, o):
        i, j, k = b.add(b.mul(b.pid(), M), b.iota(M)), b.iota(N), b.iota(K)
        e = b.op("exp", b.load(b.at(x, b.iota(2048))))
        start = b.mul(b.op("sub_f", b.max(e, 0), b.sum(e, 0)), b.const(0.0, F32))
        b.store(b.at(o, b.add(b.mul(b.col(i), N), b.row(j))),
                b.op("dot", tile(b, x, i, k, K), tile(b, y, k, j, N), b.splat(start, (M, N))))
    x, y, o = arguments(F32, F32, 5, 1, 1)[:3]
    both(kernel([(s, ptr(F32)) for s in "xyo"], body), (5,), [x, y, o])


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("t,acc", [(F32, F32), (F16, F32), (BF16, F32), (I8, I32)])
def test_orders_of_programs_that_share_tiles_and_that_do_not(t, acc, across):
    both(grid_product(t, acc, across), (12,), arguments(t, acc, 4, 3, 5))


@pytest.mark.parametrize("t,acc", [(F32, F32), (F16, F32), (BF16, F32), (I8, I32)])
def test_turned_tiles(t, acc):
    both(grid_product(t, acc, turned=True), (8,), arguments(t, acc, 4, 2, 3, turned=True))


def test_more_steps_than_slots():
    """2 KiB a tile: 128 slots, and 150 steps."""
    both(grid_product(), (4,), arguments(F32, F32, 4, 1, 150), optimise=(True,))


CHANGES = [
    lambda b, y, k, n: b.op("select", b.binary("cmp_lt_s", b.like(b.col(b.add(b.mul(k, K), b.iota(K))), y),
                                               b.like(b.const(20), y)), y, b.const(0.0, F32, (K, N))),
    lambda b, y, k, n: b.op("add_f", y, b.like(b.op("int_to_fp_s", b.add(b.mul(k, 3), n), to=F32), y)),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_else_goes_into_a_tile_is_part_of_its_key(change):
    both(grid_product(change=change), (8,), arguments(F32, F32, 4, 2, 3))


def entry_of(module):
    module = run_passes(module, target().passes(Options()))
    loaded = target().load(target().compile(module, Options()))
    return module, loaded


class Context:
    """A context of our own, so that a test can look at memory between programs of one launch."""

    def __init__(self, module, loaded, args, grid):
        self.loaded = loaded
        scratch = np.full(loaded.scratch_bytes // 8 + 16, -1, np.int64)       # what was there before says nothing
        self.words, self.scratch = np.zeros(32, np.int64), scratch
        self.words[:3] = (*grid, 1, 1)[:3]
        self.words[3], self.words[4] = -(-scratch.ctypes.data // 64) * 64, self.words[16:].ctypes.data
        self.words[6] = self.words[24:].ctypes.data
        self.slots = np.array(words(args, module.entry.params), np.int64)

    def run(self, first, last):
        self.loaded.entry(self.slots.ctypes.data, first, last, self.words.ctypes.data)

    def enter(self):
        self.words[Frame.ENTERED // WORD] = 0


@pytest.mark.parametrize("turned", [False, True])
def test_a_tile_is_packed_once_a_launch_and_not_longer(turned):
    module, loaded = entry_of(grid_product(turned=turned))
    args = arguments(F32, F32, 6, 1, 3, turned)
    x, y, o = args[:3]
    context = Context(module, loaded, args, (6,))
    def expected(right):
        return x.astype(np.float64) @ (right.T if turned else right)
    context.run(0, 2)                   # the second run of the loop sees that tiles are shared
    old = y.copy()
    y += 1                              # which nobody may do during a launch; here it shows what is read
    context.run(2, 4)
    np.testing.assert_array_equal(o[2 * M:4 * M], expected(old)[2 * M:4 * M])
    context.enter()
    context.run(4, 6)
    np.testing.assert_array_equal(o[4 * M:], expected(y)[4 * M:])


@pytest.mark.parametrize("host", ["", "portable"])
def test_launches_see_new_data(host):
    """On whichever threads their programs run."""
    module = run_passes(grid_product(), target().passes(Options()))
    code = target().compile(module, Options())
    loaded = PortableHost(2, worth_help_ns=0).load(code) if host else target().load(code)
    args = arguments(F32, F32, 8, 4, 3)
    x, y, o = args[:3]
    for _ in range(3):
        loaded.launch((32, 1, 1), words(args, module.entry.params))
        np.testing.assert_array_equal(o, x.astype(np.float64) @ y)
        y += 1


@pytest.mark.parametrize("options", [{"written": True}, {"disjoint": False}])
def test_memory_that_the_kernel_may_write_is_read_each_time(options):
    module = grid_product(**options)
    assert FORGET not in generated(module).text
    assert FORGET in generated(grid_product()).text


def test_the_accumulator_is_not_copied_for_it():
    """One buffer of 4 KiB goes round the loop; beside it are two panels of 128 slots and their states of 3 KiB.

    A slot for b holds 4 bytes more for each column: what the bias of a adds.
    """
    metadata = generated(grid_product(I8, I32), isa=dataclasses.replace(WIDE, vnni=True)).metadata
    assert metadata["scratch_bytes"] - 128 * (N * K + N * (K + 4)) < 3 * (M * N * 4)


@pytest.mark.parametrize("waits", [False, True])
def test_a_kernel_that_waits_for_others_keeps_nothing(waits):
    """It may see what another launch writes meanwhile.  Adding atomically to other memory changes nothing."""
    def body(b, x, y, o, flag):
        i, j, k = b.iota(M), b.iota(N), b.iota(K)
        if waits:
            first = b.region([], lambda: [b.binary("cmp_eq", b.load(flag), b.const(0))], "condition")
            b.create("while", [], {}, [first, b.region([], list)])
        else:
            b.create("atomic_rmw", [flag, b.const(1)], {"has_mask": False, "kind": Rmw.ADD})
        b.store(b.at(o, b.add(b.mul(b.col(i), N), b.row(j))),
                b.op("dot", tile(b, x, i, k, K), tile(b, y, k, j, N), b.const(0.0, F32, (M, N))))
    module = kernel([*((s, ptr(F32)) for s in "xyo"), ("flag", ptr(I32))], body)
    assert (FORGET in generated(module).text) == (not waits)
