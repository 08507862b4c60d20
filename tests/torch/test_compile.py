"""Kernels in functions that torch compiles: compiled equals eager, in one graph, for new shapes too.

`compiled` uses the backend `aot_eager`, which functionalises the graph; one test goes all the way through Inductor.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilewright as triton
import tilewright.language as tl

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


def compiled(function: Callable[..., Any], backend: str = "aot_eager", **options: Any) -> Callable[..., Any]:
    return torch.compile(function, fullgraph=True, backend=backend, **options)


def graph_of(function: Callable[..., Any], *args: Any) -> str:
    """The graph that Dynamo makes of a call."""
    found: list[str] = []

    def keep(module: Any, inputs: Any) -> Any:
        found.append(module.print_readable(print_output=False))
        return module

    torch.compile(function, fullgraph=True, backend=keep)(*args)
    assert len(found) == 1
    return found[0]


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def scale_kernel(x, n, factor, BLOCK: tl.constexpr):
    """In place."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x + offsets, tl.load(x + offsets, mask=mask) * factor, mask=mask)


def add(x: Any, y: Any) -> Any:
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=16)
    return out


def test_through_inductor() -> None:
    def function(x: Any, y: Any) -> Any:
        return (add(x.sin(), y) * 2).relu()

    fast = compiled(function, backend="inductor")
    for n in (5, 70, 33):
        x, y = torch.randn(n), torch.randn(n)
        torch.testing.assert_close(fast(x, y), function(x, y))


def test_new_shapes_need_one_dynamic_graph(assert_same: Callable[..., int]) -> None:
    lists = [(torch.randn(n), torch.randn(n)) for n in (5, 70, 33, 16, 1000)]
    assert assert_same(add, *lists) == 2           # the first shape, then any


def test_graph_names_what_is_written() -> None:
    graph = graph_of(add, torch.randn(5), torch.randn(5))
    assert "torch.ops.tilewright.add_kernel_" in graph
    name = graph.partition("torch.ops.tilewright.")[2].partition("(")[0]
    schema = str(getattr(torch.ops.tilewright, name).default._schema)
    assert schema == f"tilewright::{name}(Tensor x, Tensor y, Tensor(a2!) out, SymInt n, SymInt[] grid) -> ()"


def test_in_place_on_an_argument_and_on_a_view(assert_same: Callable[..., int]) -> None:
    def function(x: Any, factor: Any) -> Any:
        scale_kernel[(1,)](x, 4, factor, BLOCK=16)
        part = x[4:]
        scale_kernel[(triton.cdiv(part.numel(), 8),)](part, part.numel(), 3.0, BLOCK=8)
        return x.sum(), part + 1

    assert_same(function, (torch.arange(20.0), 2.0), (torch.arange(37.0), 2.0), (torch.arange(20.0), 0.5))


def test_in_place_on_an_intermediate_that_is_read_before_and_after(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        y = x * 2
        before = y + 1
        scale_kernel[(1,)](y, y.numel(), 10.0, BLOCK=32)
        return before, y, y.t() if y.dim() == 2 else y

    assert_same(function, (torch.randn(8),), (torch.randn(2, 3),))


def test_strided_views(assert_same: Callable[..., int]) -> None:
    @triton.jit
    def column_sums(x, out, rows, stride, between, BLOCK: tl.constexpr):
        r = tl.arange(0, BLOCK)
        column = tl.load(x + r * stride + tl.program_id(0) * between, mask=r < rows, other=0)
        tl.store(out + tl.program_id(0), tl.sum(column, 0))

    def function(x: Any) -> Any:
        y = (x + 1)[:, ::2].t()[:3]
        y = y.t()
        out = torch.zeros(x.shape[1])
        column_sums[(2,)](y, out, y.shape[0], *y.stride(), BLOCK=16)
        return out

    assert_same(function, (torch.randn(5, 8),), (torch.randn(7, 10),))


def test_tensor_passed_twice(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        add_kernel[(1,)](x, x, x, x.numel(), BLOCK=16)
        return x * 1

    assert_same(function, (torch.randn(9),))


def test_grid_sees_arguments_defaults_and_compile_time_values(assert_same: Callable[..., int]) -> None:
    @triton.jit
    def numbers(out, n, BLOCK: tl.constexpr = 8):
        tl.store(out + tl.program_id(0), tl.num_programs(0) + BLOCK)

    def function(x: Any) -> Any:
        out = torch.zeros(20)
        numbers[lambda meta: (meta["n"] // meta["BLOCK"], 1)](out, x.shape[0])
        numbers[[2]](out[10:], 1)
        numbers[1, 1, 1](out[15:], n=1, BLOCK=2)
        return out

    assert_same(function, (torch.randn(40),), (torch.randn(80),))


def test_run_and_next_power_of_2(assert_same: Callable[..., int]) -> None:
    def function(x: Any) -> Any:
        out = torch.empty_like(x)
        add_kernel.run(x, x, out, x.numel(), BLOCK=triton.next_power_of_2(x.shape[0]), grid=(1,), warmup=False)
        return out

    assert_same(function, (torch.randn(9),), (torch.randn(17),), (torch.randn(20),))


def test_other_kernel_under_the_same_name_is_seen() -> None:
    def function(kernel: Any, x: Any) -> Any:
        kernel[(1,)](x, x.numel(), 2.0, BLOCK=16)
        return x + 0

    def variant(number: float) -> Any:
        value = tl.constexpr(number)

        @triton.jit
        def fill(x, n, factor, BLOCK: tl.constexpr):
            offsets = tl.arange(0, BLOCK)
            tl.store(x + offsets, tl.full((BLOCK,), value, tl.float32), mask=offsets < n)
        return fill

    one, two = variant(1.0), variant(2.0)
    fast = compiled(function)
    for kernel, value in ((one, 1.0), (two, 2.0), (one, 1.0), (scale_kernel, 2.0)):
        assert torch.equal(fast(kernel, torch.ones(5)), torch.full((5,), value))


def test_mode_without_compilation_still_launches() -> None:
    """Dynamo's answer is never true when Python runs the code."""
    x, y = torch.randn(5), torch.randn(5)
    assert torch.equal(add(x, y), x + y)


def test_errors_name_the_kernel() -> None:
    def function(x: Any) -> Any:
        add_kernel[(1, 1, 1, 1)](x, x, x, 5, BLOCK=16)
        return x

    with pytest.raises(Exception, match="1 to 3 sizes"):
        compiled(function)(torch.randn(5))


def test_kernel_that_is_older_than_torch() -> None:
    code = """
import tilewright as triton, tilewright.language as tl
@triton.jit
def increment(x):
    tl.store(x, tl.load(x) + 1)
import torch
def function(x):
    increment[(1,)](x)
    return x * 2
print(torch.compile(function, fullgraph=True, backend="eager")(torch.ones(1)).item())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert result.stdout == "4.0\n", result.stderr
