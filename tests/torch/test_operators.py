"""The operators behind compiled launches: their schemas, torch's own checks of them, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilewright as triton
import tilewright.language as tl
from tests.gpu import ON_GPU
from tilewright.diagnostics import KernelAssertionError

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


def operators_in(function: Callable[..., Any], *args: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """The operators of the graph of a call, and what they get."""
    found: list[tuple[Any, tuple[Any, ...]]] = []

    def look(module: Any, inputs: Any) -> Any:
        for node in module.graph.nodes:
            if "tilewright" in str(node.target):
                found.append((node.target, node.args))
        return module

    torch.compile(function, fullgraph=True, backend=look)(*args)
    return found


def schema_in(function: Callable[..., Any], *args: Any) -> str:
    ((operator, _),) = operators_in(function, *args)
    return str(operator.default._schema).partition("(")[2].rpartition(", SymInt[] grid")[0]


@triton.jit
def exchange(a, b, c, SWAP: tl.constexpr):
    """Writes a, or a and b; c is read."""
    x, y = tl.load(a), tl.load(b)
    tl.store(a, y + tl.load(c))
    if SWAP:
        tl.store(b, x)


@pytest.mark.parametrize("swap, schema", [(True, "Tensor(a0!) a, Tensor(a1!) b, Tensor c"),
                                          (False, "Tensor(a0!) a, Tensor b, Tensor c")])
def test_what_is_written_depends_on_compile_time_values(swap: bool, schema: str) -> None:
    def function(a: Any, b: Any, c: Any) -> None:
        exchange[(1,)](a, b, c, swap)

    assert schema_in(function, torch.ones(1), torch.ones(1), torch.ones(1)) == schema


def test_writes_through_loops_branches_and_calls_are_seen() -> None:
    @triton.jit
    def put(pointer, value):
        tl.atomic_add(pointer, value)

    @triton.jit
    def wanders(a, b, c, n):
        pointer = b
        for i in range(n):
            if i > 2:
                pointer = a + i
            put(pointer, tl.load(c + i))

    def function(a: Any, b: Any, c: Any) -> None:
        wanders[(1,)](a, b, c, c.numel())

    assert schema_in(function, torch.ones(9), torch.ones(9), torch.ones(9)) == \
        "Tensor(a0!) a, Tensor(a1!) b, Tensor c, SymInt n"


def test_a_branch_for_size_one_counts() -> None:
    @triton.jit
    def rare(a, b, n):
        if n == 1:
            tl.store(b, 1.0)
        else:
            tl.store(a, 2.0)

    def function(a: Any, b: Any, n: int) -> Any:
        rare[(1,)](a, b, n)
        return a + b

    assert schema_in(function, torch.zeros(1), torch.zeros(1), 5) == "Tensor(a0!) a, Tensor(a1!) b, SymInt n"
    fast = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert [fast(torch.zeros(1), torch.zeros(1), n).item() for n in (5, 1, 7)] == [2.0, 1.0, 2.0]


def test_names_that_torch_cannot_have() -> None:
    @triton.jit
    def awkward(grid, self, n):
        tl.store(self, tl.load(grid) + n)

    def function(a: Any, b: Any) -> None:
        awkward[(1,)](a, b, 3)

    assert schema_in(function, torch.ones(1), torch.ones(1)) == "Tensor grid_, Tensor(a1!) self_, SymInt n"


def test_torchs_own_checks() -> None:
    def function(a: Any, b: Any, c: Any) -> None:
        exchange[(1,)](a, b, c, True)

    ((operator, _),) = operators_in(function, *(torch.ones(1) for _ in range(3)))
    a, b, c = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])
    torch.library.opcheck(operator.default, (a, b, c, [1, 1, 1]))


def test_one_operator_for_equal_launches() -> None:
    def function(x: Any) -> None:
        for swap in (True, True, False, True):
            exchange[(1,)](x[:1], x[1:2], x[2:], swap)

    names = [operator.__name__ for operator, _ in operators_in(function, torch.ones(3))]
    assert len(names) == 4 and len(set(names)) == 2


def test_a_failed_assertion_is_the_kernels(assert_same: Callable[..., int]) -> None:
    @triton.jit(debug=True)
    def positive(x):
        tl.device_assert(tl.load(x) > 0, "not positive")
        tl.store(x, 0.0)

    def function(x: Any) -> Any:
        positive[(1,)](x)
        return x + 1

    fast = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert fast(torch.ones(1)).item() == 1
    with pytest.raises(KernelAssertionError, match="not positive"):
        fast(-torch.ones(1))
        if ON_GPU:
            torch.cuda.synchronize()


@pytest.mark.parametrize("mode", [{}, {"check": True}, {"interpret": True}], ids=["compiled", "checked", "interpreted"])
def test_what_a_kernel_reads_may_change_but_not_what_it_writes(mode: dict[str, bool]) -> None:
    space: dict[str, Any] = {"tl": tl, "WHICH": tl.constexpr(0)}
    source = "def either(a, b):\n    if WHICH == 0:\n        tl.store(a, 1.0)\n    else:\n        tl.store(b, 1.0)\n"
    exec(source, space)
    either = triton.jit(space["either"], source=source)

    def function(a: Any, b: Any) -> Any:
        either[(1,)](a, b)
        return a + b

    fast = torch.compile(function, fullgraph=True, backend="aot_eager")
    with triton.knobs.scope(**mode):
        assert fast(torch.zeros(1), torch.zeros(1)).item() == 1
        space["WHICH"] = tl.constexpr(1)
        with pytest.raises(RuntimeError, match=r"either writes b, which it did not .* torch.compiler.reset\(\)"):
            fast(torch.zeros(1), torch.zeros(1))


def test_tilewright_does_not_import_torch() -> None:
    code = ("import sys, numpy as np, tilewright as triton, tilewright.language as tl\n"
            "@triton.jit\ndef k(x):\n    tl.store(x, 2.0)\n"
            "x = np.zeros(1, np.float32); k[(1,)](x); print(x[0], 'torch' in sys.modules)")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert result.stdout == "2.0 False\n", result.stderr
