"""What products ask for beforehand: who asks, for what, when, and that this changes no result."""

import re

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, WIDE, both, generated, kernel, ptr
from tests.targets.cpu.test_dot import matmul, tile_at
from tests.targets.cpu.test_panels import arguments, grid_product
from tilewright.targets.cpu.asking import lines_each, share
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.streaming import Streaming
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import I1, I64, constant, integer_value

PREFETCH = r"@llvm\.prefetch\.p0\(ptr (%\w+), i32 0, i32 (\d)"
M, N, K = 64, 64, 32        # 16 blocks in registers; 128 lines of a right tile, 256 of the sums, a quarter in a step
RIGHT, SUMS = 8, 4          # for each block
STORE = [("x", ptr(F32)), ("y", ptr(F32)), ("o", ptr(F32)), ("depth", I32)]


def asked(module):
    """How many lines a block asks for in the second cache."""
    return sum(level == "2" for _, level in re.findall(PREFETCH, generated(module, isa=WIDE).text))


def summed(store, moves=True, fill=0.0):
    """Products of tiles that lie behind each other, or of the same ones; `store(b, o, total, depth)` ends it."""
    def body(b, x, y, o, depth):
        def step(k, total):
            left, right = (b.load(tile_at(b, b.at(p, b.mul(k, size)) if moves else p, *shape))
                           for p, size, shape in ((x, M * K, (M, K)), (y, K * N, (K, N))))
            return [b.op("dot", left, right, total)]
        (total,) = b.for_(0, depth, 1, [b.const(fill, F32, (M, N))], step)
        store(b, o, total, depth)
    return kernel(STORE, body)


def plain(b, o, total, depth):
    b.store(tile_at(b, b.at(o, b.mul(depth, 3)), M, N), total)


# --- who asks for how much


@pytest.mark.parametrize("height,lines,blocks", [(8, 2, 2), (8, 2, 8), (8, 4, 16), (8, 1, 1), (4, 3, 5), (6, 5, 7),
                                                 (1, 6, 4), (8, 3, 100), (6, 4, 8), (5, 4, 6), (9, 8, 10)])
def test_all_blocks_ask_for_all_lines(height, lines, blocks):
    each = lines_each(height, lines, blocks)
    assert each * blocks >= height * lines and (each % lines == 0 or lines % each == 0)
    assert each <= lines * -(-height // blocks)
    code, found = Code(ModuleWriter(WIDE), "f", []), []
    for number in range(blocks):
        row, start = (integer_value(v) for v in share(code, constant(I64, number), each, lines))
        found += [row * lines + start // 64 + n for n in range(each)]
    assert len(set(found)) == len(found) and set(range(height * lines)) <= set(found)


def test_right_operands_and_places_of_results():
    assert asked(matmul(M, N, K, masked=False)) == asked(summed(plain)) == RIGHT + SUMS
    assert asked(summed(plain, moves=False)) == SUMS


def test_few_blocks_do_not_ask_for_much():
    assert asked(matmul(16, 64, 64, masked=False)) == 4         # of 64 lines of the sums 16 in each step, by 4 blocks


def test_whole_blocks_of_narrow_tiles():
    assert asked(matmul(64, 32, 32, masked=False)) == 8 + 4     # 8 rows of two vectors: 8 blocks, 64 and 128 lines


def test_turned_operands_are_not_asked_for():
    assert asked(grid_product()) > 0
    text = generated(grid_product(turned=True), isa=WIDE).text
    assert len(re.findall(PREFETCH, text)) < len(re.findall(PREFETCH, generated(grid_product(), isa=WIDE).text))


@pytest.mark.parametrize("store", [
    lambda b, o, total, depth: b.store(o, b.sum(b.sum(total, 1), 0)),
    lambda b, o, total, depth: b.store(tile_at(b, b.at(o, b.load(b.op("bitcast", o, to=ptr(I32)))), M, N), total),
    lambda b, o, total, depth: b.store(b.at(o, b.add(b.col(b.iota(M)), b.row(b.mul(b.iota(N), M)))), total),
], ids=["a sum", "a place from memory", "columns"])
def test_results_that_go_elsewhere(store):
    assert asked(summed(store)) == RIGHT


def test_results_that_are_changed_on_the_way():
    def stored(b, o, total, depth):
        plain(b, o, b.op("max_f", b.mul(total, 2.0), b.like(b.const(0.0, F32), total)), depth)

    assert asked(summed(stored)) == RIGHT + SUMS


@pytest.mark.parametrize("leaves", [0, 1])
def test_stores_that_may_bypass_the_caches_are_not_asked_for(monkeypatch, leaves):
    """How much a launch writes is known when it runs; here as if it were when code is made."""
    monkeypatch.setattr(Streaming, "leaves_caches", lambda self, size: constant(I1, leaves))
    assert asked(summed(plain)) == RIGHT + (0 if leaves else SUMS)


# --- where the next tile is


def distance_is_chosen(module):
    """Whether a prefetched place is found by what is chosen between two distances."""
    text = generated(module, isa=WIDE).text
    chosen = set(re.findall(r"(%\w+) = select i1 %\w+, i64 %\w+, i64 ", text))
    offsets = re.findall(r"getelementptr i8, ptr %\w+, i64 (%\w+)", text)
    sums = {found[0]: found[1:] for found in re.findall(r"(%\w+) = add i64 (%\w+), (%\w+)", text)}
    return any(o in chosen or chosen & set(sums.get(o, ())) for o in offsets)


def test_the_last_step_looks_to_the_next_program():
    """Its first tile is known where the programs' first tiles lie evenly."""
    assert distance_is_chosen(grid_product())

    def scattered(b, x, y, o, depth):
        start = b.op("xor", b.pid(), b.const(5))
        def step(k, total):
            at = b.add(b.mul(k, K), start)
            return [b.op("dot", b.load(tile_at(b, b.at(x, at), M, K)), b.load(tile_at(b, y, K, N)), total)]
        (total,) = b.for_(0, depth, 1, [b.const(0.0, F32, (M, N))], step)
        plain(b, o, total, depth)

    assert not distance_is_chosen(kernel(STORE, scattered))


# --- results


@pytest.mark.parametrize("depth", [0, 1, 3, 6])
@pytest.mark.parametrize("across", [False, True])
def test_loops_of_few_steps(depth, across):
    both(grid_product(across=across), (6,), arguments(F32, F32, 3, 2, max(1, depth))[:3] + [3, 2, depth])


def test_programs_that_make_several_tiles():
    """The loop over tiles is around that of products; the place of a result is made in its body."""
    def body(b, x, y, o, depth):
        def tile(t, carried):
            start = b.mul(t, M * K)
            def step(k, total):
                left = b.load(tile_at(b, b.at(x, b.add(start, b.mul(k, K))), M, K))
                return [b.op("dot", left, b.load(tile_at(b, b.at(y, b.mul(k, K * N)), K, N)), total)]
            (total,) = b.for_(0, depth, 1, [b.const(0.0, F32, (M, N))], step)
            b.store(tile_at(b, b.at(o, b.mul(b.add(b.mul(t, 2), b.pid()), M * N)), M, N), total)
            return [carried]
        b.for_(0, 3, 1, [b.const(0)], tile)
    module = kernel(STORE, body)
    assert asked(module) == RIGHT + SUMS
    rng = np.random.default_rng(4)
    x, y = (rng.integers(-4, 5, s).astype(np.float32) for s in ((3 * M + 2, K), (2 * K, N)))
    both(module, (2,), [x, y, np.zeros((6, M, N), np.float32), 2])
