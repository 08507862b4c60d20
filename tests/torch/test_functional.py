"""Tensors of torch.func, which have no data, and tensors whose numbers are not what is in memory."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs

torch = pytest.importorskip("torch")


@triton.jit
def square(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(out + i, value * value, mask=i < n)


def squared(x: Any) -> Any:
    out = torch.empty_like(x)
    square[(triton.cdiv(x.numel(), 8),)](x, out, x.numel(), BLOCK=8)
    return out


class Square(torch.autograd.Function):
    """What the message says to write."""

    @staticmethod
    def forward(x: Any) -> Any:
        return squared(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * gradient

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return Square.apply(x), in_dims[0]


CASES = {"vmap": lambda f: torch.func.vmap(f)(torch.arange(6.0).reshape(2, 3)),
         "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(torch.arange(3.0)),
         "vmap of grad": lambda f: torch.func.vmap(torch.func.grad(lambda x: f(x).sum()))(torch.ones(2, 3))}


@pytest.mark.parametrize("case", CASES)
def test_tensors_of_torch_func_are_refused_with_a_cure_that_works(case: str) -> None:
    for _ in range(3):      # also when the kernel is known
        with pytest.raises(TypeError, match="square: parameter 'x': a tensor inside torch.func .*no data; launch in a "
                                            "torch.autograd.Function with backward and the static method vmap, or"):
            CASES[case](squared)
        assert squared(torch.arange(3.0)).tolist() == [0, 1, 4]
    assert torch.equal(CASES[case](Square.apply), CASES[case](lambda x: x * x))


@differs("A tensor with torch's negative bit is refused", topic="Launching and tuning",
         peer="The bit is not looked at: a kernel reads the numbers with the wrong sign.",
         ours="An error that says `resolve_neg()`. (Such are views of the imaginary part of a conjugate.)")
def test_the_negative_bit() -> None:
    z = torch.tensor([1 + 2j, 3 + 4j])
    for _ in range(3):
        for x in (z.conj().imag, torch._neg_view(torch.ones(2))):
            with pytest.raises(TypeError, match="'x': its negative bit is set .*pass tensor.resolve_neg()"):
                square[(1,)](x, torch.zeros(2), 2, BLOCK=2)
        assert squared(z.conj().imag.resolve_neg()).tolist() == [4, 16]
