"""`torch.autograd.Function` over kernels: gradients are checked in eager code, and compiled code gives the same."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as triton
import tilewright.language as tl

torch = pytest.importorskip("torch")


@triton.jit
def silu_forward(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    tl.store(out + offsets, value / (1 + tl.exp(-value)), mask=mask)


@triton.jit
def silu_backward(x, grad, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    sigmoid = 1 / (1 + tl.exp(-value))
    slope = sigmoid * (1 + value * (1 - sigmoid))
    tl.store(out + offsets, tl.load(grad + offsets, mask=mask) * slope, mask=mask)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        silu_forward[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), BLOCK=16)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        grad = grad.contiguous()
        silu_backward[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, grad, out, x.numel(), BLOCK=16)
        return out


def test_gradcheck() -> None:
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Silu.apply, (x,))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_gradient(backend: str) -> None:
    def function(x: Any) -> Any:
        return (Silu.apply(x * 2) ** 2).sum()

    fast = torch.compile(function, fullgraph=True, backend=backend)
    for shape in ((3, 4), (2, 11)):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        want, have = function(x), fast(y)
        want.backward()
        have.backward()
        torch.testing.assert_close(have, want)
        torch.testing.assert_close(y.grad, x.grad)


def test_tensors_that_require_gradients_can_be_written_without_them() -> None:
    @triton.jit
    def double(x, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        tl.store(x + offsets, tl.load(x + offsets) * 2)

    def function(weight: Any) -> Any:
        with torch.no_grad():
            double[(1,)](weight, BLOCK=8)
        return weight.sum()

    weight = torch.ones(8, requires_grad=True)
    result = torch.compile(function, fullgraph=True, backend="aot_eager")(weight)
    result.backward()
    assert result.item() == 16 and torch.equal(weight.grad, torch.ones(8))
