"""Layouts: what memory accesses get, that all tiles have one, and that the program stays the same."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import compiled, interpret, laid_out, tile_ir
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.ops import Stage
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.ir.walk import ops_in
from tilewright.layout import coalesced
from tilewright.targets.nvidia.capability import capability
from tilewright.targets.nvidia.passes.accesses import Accesses
from tilewright.targets.nvidia.passes.homes import propagated


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * n + i, e / tl.sum(e, axis=0), mask=i < n)


@triton.jit
def transposed_sums(x, out, K, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, N)[None, :]
    total = tl.zeros((M, N), tl.float32)
    p = x + i * K + j
    for _ in range(0, K, N):
        total += tl.load(p)
        p += N
    t = tl.trans(total) * tl.sum(total, axis=1)[None, :]
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], t)


@triton.jit
def halves(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    pairs = tl.reshape(tl.load(x + i), (N // 2, 2))
    a, b = tl.split(pairs)
    if tl.sum(a) > 0:
        c = a
    else:
        c = b * 2
    k = 0
    while k < 3:
        c += tl.cumsum(a, 0)
        k += 1
    tl.store(out + i, tl.reshape(tl.join(c, b), (N,)))


@triton.jit
def only_the_user_decides(out, n, M: tl.constexpr, N: tl.constexpr):
    """What goes round comes from cheap tiles alone, so its layout comes from the store."""
    v = tl.full((M, N), 1, tl.float32)
    k = 0
    while k < n:
        k += 1
        v = tl.full((M, N), 2, tl.float32) * k
    w = tl.full((M, N), 3, tl.float32)
    for _ in range(n):
        w = tl.full((M, N), 4, tl.float32)
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, v)
    tl.store(out + M * N + j * M + i, w)


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


CASES = {
    "add": (add, (3,), [numbers(700), numbers(700), np.zeros(700, np.float32), 700], {"BLOCK": 256}),
    "softmax": (softmax, (4,), [numbers(4, 100), np.zeros((4, 100), np.float32), 100], {"BLOCK": 100}),
    "transposed": (transposed_sums, (1,), [numbers(16, 64), np.zeros((32, 16), np.float32), 64],
                   {"M": 16, "N": 32}),
    "only_the_user": (only_the_user_decides, (1,), [np.zeros(2 * 8 * 2, np.float32), 3], {"M": 8, "N": 2}),
    "halves": (halves, (1,), [numbers(64), np.zeros(64, np.float32)], {"N": 64}),
}


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("name", CASES)
def test_the_program_stays_the_same(name, num_warps):
    kernel, grid, args, constants = CASES[name]
    module = tile_ir(kernel, *args, **constants)
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    interpret(module, grid, expected)
    after = laid_out(module, num_warps)
    verify(after, Stage.LAID_OUT)
    found = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    interpret(after, grid, found)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", CASES)
def test_text_of_laid_out_modules(name):
    kernel, _, args, constants = CASES[name]
    text = print_module(laid_out(tile_ir(kernel, *args, **constants)))
    assert print_module(parse_module(text)) == text


def ops_of(module, name):
    return [op for op in ops_in(module.entry.body) if op.name == name]


@pytest.mark.parametrize("n, vector", [(1024, 4), (1000, 4), (1001, 4)])
def test_accesses_are_coalesced(n, vector):
    x = np.zeros(n, np.float32)
    module = laid_out(tile_ir(add, x, x.copy(), x.copy(), n, BLOCK=1024))
    for op in ops_of(module, "load") + ops_of(module, "store"):
        assert layout_of(op.operands[0]) == coalesced((1024,), vector, 4)


def test_vector_add_loads_16_bytes_at_once():
    x = np.zeros(1024, np.float32)
    ptx = compiled(tile_ir(add, x, x.copy(), x.copy(), 1024, BLOCK=1024)).texts["ptx"]
    assert ptx.count("ld.global.nc.v4.b32") == 4 and ptx.count("st.global.v4.b32") == 2
    assert "ld.global.nc.b32" not in ptx


def test_no_read_only_loads_of_what_may_be_written():
    x = np.zeros(1024, np.float32)
    ptx = compiled(tile_ir(add, x, x, x, 1024, BLOCK=1024, disjoint=False)).texts["ptx"]
    assert ".nc" not in ptx


def test_softmax_needs_no_conversion():
    module = laid_out(tile_ir(softmax, *CASES["softmax"][2], BLOCK=128))
    assert not ops_of(module, "convert")


@triton.jit
def scaled(x, weight, at, out, step, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i).to(tl.float32) * tl.load(weight + i * step)
    if N > 512:
        a += tl.load(at + tl.load(at + i)).to(tl.float32)
    tl.store(out + i, a.to(tl.float16))


@pytest.mark.parametrize("dtype, step, size, runs", [
    (np.float32, 1, 512, [8, 8]), (np.float16, 1, 512, [8, 8]),
    (np.float64, 1, 512, [8, 2]),           # 64 bytes of a thread are too many
    (np.float32, 3, 512, [8, 1]),           # no runs by itself
    (np.float32, 1, 1024, [8, 8, 4, 1])])   # nor has what is gathered; indices meet nothing
def test_loads_that_meet_take_as_many_neighbours(dtype, step, size, runs):
    """By propagation: as many as the narrowest of them, if that is two accesses of 16 bytes at most."""
    x, weight, at = np.zeros(8, np.float16), np.zeros(8, dtype), np.zeros(8, np.int32)
    module = tile_ir(scaled, x, weight, at, x.copy(), step, N=size)
    given = propagated(module, Accesses(module, 2), 2, capability(90))
    found = [next(1 << k for k, b in enumerate((*given.runs[op].bases("register"), 0)) if b != 1 << k)
             for op in ops_of(module, "load")]
    assert found == runs


@triton.jit
def rows_of_a_norm(x, weight, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * n + i).to(tl.float32)
    tl.store(out + tl.program_id(0) * n + i, (v / tl.sum(v, 0) * tl.load(weight + i)).to(tl.float16))


def test_halves_and_floats_meet_without_shared_memory():
    x, weight = np.zeros(16, np.float16), np.zeros(16, np.float32)
    module = laid_out(tile_ir(rows_of_a_norm, x, weight, x.copy(), 16, N=1024))
    assert not ops_of(module, "convert")


def test_a_transposed_tile_is_converted_once():
    module = laid_out(tile_ir(transposed_sums, *CASES["transposed"][2], **CASES["transposed"][3]))
    assert len(ops_of(module, "convert")) == 1
