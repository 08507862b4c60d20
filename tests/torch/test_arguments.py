"""All kinds of arguments, tuned kernels and heuristics, in functions that torch compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.tools.tensor_descriptor import TensorDescriptor

torch = pytest.importorskip("torch")


@triton.jit
def square(x):
    return x * x


@triton.jit
def general(x, bias, out, n, scale, FUNCTION: tl.constexpr, TYPE: tl.constexpr, NAME: tl.constexpr,
            BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = FUNCTION(tl.load(x + offsets, mask=mask)) * scale
    if bias is not None:
        value += tl.load(bias + offsets, mask=mask)
    if NAME == "rounded":
        value = value.to(TYPE).to(tl.float32)
    tl.store(out + offsets, value, mask=mask)


def test_none_numbers_and_compile_time_objects(assert_same: Callable[..., int]) -> None:
    def function(x: Any, bias: Any, scale: float) -> Any:
        out = torch.empty_like(x)
        general[(triton.cdiv(x.numel(), 8),)](x, bias, out, x.numel(), scale, square, tl.float16, "rounded", BLOCK=8)
        general[(triton.cdiv(x.numel(), 8),)](x, None, out[:3], 3, 0.5, FUNCTION=square, TYPE=tl.int32, NAME="",
                                              BLOCK=tl.constexpr(4), num_warps=2)
        return out

    assert_same(function, (torch.randn(20), torch.randn(20), 3.0), (torch.randn(30), None, 3.0),
                (torch.randn(30), torch.randn(30), 0.25), (torch.randn(30), torch.randn(30), 1.75))


class Pair(NamedTuple):
    first: Any
    second: Any


@triton.jit
def from_tuple(pair, out, sizes, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < sizes[0]
    tl.store(out[0] + offsets, tl.load(pair.first + offsets, mask=mask) * pair.second + sizes[1], mask=mask)


def test_tuples(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        out = torch.zeros_like(x)
        from_tuple[(1,)](Pair(x, 3), (out, None), (x.numel(), 2.5), BLOCK=64)
        return out

    assert_same(function, (torch.randn(20),), (torch.randn(30),), (torch.randn(31),))


@triton.jit
def total(out, *tensors):
    value = 0.0
    for i in tl.static_range(len(tensors)):
        value += tl.load(tensors[i])
    tl.store(out, value)


def test_variable_number_of_arguments(assert_same: Callable[..., int]) -> None:
    def function(x: Any, y: Any) -> Any:
        out = torch.zeros(1)
        total[(1,)](out, x, y, x)
        return out

    assert_same(function, (torch.randn(2), torch.randn(3)))


@triton.jit
def double_blocks(source, target):
    rows = tl.program_id(0) * 4
    target.store([rows, 0], source.load([rows, 0]) * 2)


def test_tensor_descriptors(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        out = torch.zeros_like(x)
        source, target = (TensorDescriptor.from_tensor(t, [4, 8]) for t in (x, out))
        double_blocks[(triton.cdiv(x.shape[0], 4),)](source, target)
        return out + 1

    assert_same(function, (torch.randn(8, 8),), (torch.randn(10, 5),), (torch.randn(3, 16),))


@triton.jit
def copy_bytes(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


def test_reinterpreted_tensor(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        out = torch.zeros(x.shape, dtype=torch.float32)
        copy_bytes[(1,)](triton.reinterpret(x, tl.float8e5), out, x.numel(), BLOCK=16)
        return out

    assert_same(function, (torch.arange(16, dtype=torch.uint8),))


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"], warmup=1, rep=1)
@triton.jit
def tuned_increment(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x + offsets, tl.load(x + offsets, mask=mask) + 1, mask=mask)


def test_tuned_in_place_kernel_is_applied_once(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        tuned_increment[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, x.numel())
        return x * 2

    assert assert_same(function, *((torch.randn(n),) for n in (30, 100, 77))) == 2
    assert {(type(k[0][1]), k[0][1]) for k in tuned_increment.cache} == {(int, 30), (int, 100), (int, 77)}


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def even_or_not(out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(out + tl.program_id(0), 1.0 if EVEN else 2.0)


def test_heuristics_are_computed_anew_for_each_size(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        out = torch.zeros(8)
        even_or_not[lambda meta: (meta["n"] // meta["BLOCK"] + meta["EVEN"],)](out, x.numel(), BLOCK=16)
        return out

    assert_same(function, *((torch.randn(n),) for n in (16, 17, 32, 40, 48)))


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"], warmup=1, rep=1)
@triton.heuristics({"DOUBLE": lambda args: args["BLOCK"] * 2})
@triton.jit
def stacked(x, out, n, BLOCK: tl.constexpr, DOUBLE: tl.constexpr):
    offsets = tl.program_id(0) * DOUBLE + tl.arange(0, DOUBLE)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n) * 2, mask=offsets < n)


def test_tuning_over_heuristics(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        out = torch.zeros_like(x)
        stacked[lambda meta: (triton.cdiv(x.numel(), meta["DOUBLE"]),)](x, out, x.numel())
        return out

    assert_same(function, (torch.randn(100),), (torch.randn(130),))


def test_hooks_run_on_the_tensors(assert_same: Callable[..., int]) -> None:
    @triton.autotune([triton.Config({}, pre_hook=lambda args: args["other"].fill_(4.0))], key=[])
    @triton.jit
    def read_other(x, other):
        tl.store(x, tl.load(other))

    def function(x: Any) -> Any:
        other = torch.zeros(1)
        read_other[(1,)](x, other)
        return other + 1

    assert_same(function, (torch.zeros(1),))


def test_reset_to_zero_is_a_write() -> None:
    @triton.autotune([triton.Config({"N": 1}), triton.Config({"N": 2})], key=[], reset_to_zero=["seen"],
                     warmup=1, rep=1)
    @triton.jit
    def look(x, seen, N: tl.constexpr):
        tl.store(x, tl.load(seen) + N - N)

    def function(x: Any, seen: Any) -> Any:
        look[(1,)](x, seen)
        return seen + 0

    seen = torch.ones(1)
    fast = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert fast(torch.zeros(1), seen).item() == 0.0     # tuned here, so it was reset
    assert seen.item() == 0.0
