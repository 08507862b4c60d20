"""Blocks of described arrays on a GPU: arrays of many sizes, launches on other arrays in turn, in a graph."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.tools.tensor_descriptor import TensorDescriptor

torch = pytest.importorskip("torch")

COPY = "cp.async.bulk.tensor"
KINDS = ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64")


@tw.jit
def added(x, y, out, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    out.store([i, j], x.load([i, j]) + y.load([i, j]))


@tw.jit
def added_here(x, y, out, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_tensor_descriptor(x, [M, N], [stride, 1], [BM, BN])
    b = tl.make_tensor_descriptor(y, [M, N], [stride, 1], [BM, BN])
    c = tl.make_tensor_descriptor(out, [M, N], [stride, 1], [BM, BN])
    c.store([i, j], a.load([i, j]) + b.load([i, j]))


@tw.jit
def one_more(x, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    x.store([i, j], x.load([i, j]) + 1)


@tw.jit
def placed(x, out, i, j, BM: tl.constexpr, BN: tl.constexpr):
    out.store([i, j], x.load([0, 0]))


def is_by_hardware(kernel: Any) -> bool:
    return COPY in kernel.asm["ptx"]


HAS_COPIES = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_many_sizes(kind: str, seed: int) -> None:
    choice = random.Random(f"{kind} {seed}")
    dtype = getattr(torch, kind)
    block = [choice.choice((8, 16, 32, 64, 128)), choice.choice((16, 32, 64, 128, 256))]
    rows, columns = choice.randint(1, 700), choice.randint(1, 700)
    if seed % 2:
        columns = -(-columns // 16) * 16        # else the threads store, since rows end within 16 bytes
    pitch = -(-columns // 16) * 16 + choice.choice((0, 16))
    whole = [torch.randint(-50, 50, (rows, pitch), device="cuda").to(dtype) for _ in range(3)]
    x, y, out = (w[:, :columns] for w in whole)
    beside = whole[2][:, columns:].clone()
    grid = (tw.cdiv(rows, block[0]), tw.cdiv(columns, block[1]))
    described = [TensorDescriptor.from_tensor(v, block) for v in (x, y, out)]
    kernel = added[grid](*described, BM=block[0], BN=block[1], num_warps=choice.choice((1, 2, 4, 8)))
    assert torch.equal(out, x + y)
    size = block[0] * block[1] * x.element_size()
    assert is_by_hardware(kernel) == (HAS_COPIES and 1024 <= size <= 16384)
    one_more[grid](described[2], BM=block[0], BN=block[1])
    assert torch.equal(out, x + y + 1) and torch.equal(whole[2][:, columns:], beside)


@pytest.mark.parametrize("kind", ["float16", "float32", "int8"])
def test_blocks_stored_at_any_place(kind: str) -> None:
    """Over every edge, by numbers of elements that are no whole 16 bytes."""
    x = torch.randint(1, 100, (32, 64), device="cuda").to(getattr(torch, kind))
    described = TensorDescriptor.from_tensor(x, [32, 64])
    for i, j in ((0, 0), (-3, -5), (1, -1), (70, 3), (5, 77), (80, 95), (-31, -63), (-32, 0), (0, 128), (95, 127)):
        out = torch.zeros((96, 128), device="cuda", dtype=x.dtype)
        kernel = placed[(1,)](described, TensorDescriptor.from_tensor(out, [32, 64]), i, j, BM=32, BN=64)
        assert is_by_hardware(kernel) == HAS_COPIES
        wide = torch.zeros((96 + 64, 128 + 128), device="cuda", dtype=x.dtype)
        wide[32 + i:64 + i, 64 + j:128 + j] = x
        assert torch.equal(out, wide[32:128, 64:192])


def test_other_arrays_and_numbers_in_turn() -> None:
    """Maps belong to addresses and sizes; an empty array has none, and nor has one whose rows lie on one another."""
    sets = [[torch.randn(256, 256, device="cuda") for _ in range(3)] for _ in range(4)]

    def launch(x: Any, y: Any, out: Any, rows: int = 256, columns: int = 256, stride: int = 256) -> Any:
        return added_here[(8, 8)](x, y, out, rows, columns, stride, BM=32, BN=32)

    assert is_by_hardware(launch(*sets[0])) == HAS_COPIES
    for _ in range(10):
        for x, y, out in sets:
            launch(x, y, out.zero_())
            assert torch.equal(out, x + y)
        launch(x, y, out.zero_(), rows=96)
        assert torch.equal(out[:96], (x + y)[:96]) and not out[96:].any()
        launch(x, y, out.zero_(), rows=0)
        assert not out.any()
        launch(x, y, out.zero_(), rows=32, columns=32, stride=0)
        assert not out[1:].any() and not out[0, 32:].any()


def test_in_a_graph() -> None:
    x, y, out = (torch.randn(256, 256, device="cuda") for _ in range(3))

    def launch() -> None:
        added_here[(8, 8)](x, y, out, 256, 256, 256, BM=32, BN=32)

    launch()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        launch()
    x += 1
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)
