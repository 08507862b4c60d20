"""How far the inexact instructions of a GPU are from the truth, over many random arguments."""

from __future__ import annotations

import os

import pytest

import tilewright as tw
import tilewright.language as tl

torch = pytest.importorskip("torch")

COUNT = 1 << 22


@tw.jit
def apply(x, y, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n)
    b = tl.load(y + at, mask=at < n)
    if OP == "exp":
        r = tl.exp(a)
    elif OP == "exp2":
        r = tl.exp2(a)
    elif OP == "log":
        r = tl.log(b)
    elif OP == "log2":
        r = tl.log2(b)
    elif OP == "sqrt":
        r = tl.sqrt(b)
    elif OP == "rsqrt":
        r = tl.rsqrt(b)
    elif OP == "div":
        r = a / b
    elif OP == "div_rn":
        r = tl.div_rn(a, b)
    elif OP == "sqrt_rn":
        r = tl.sqrt_rn(b)
    elif OP == "sin":
        r = tl.sin(a)
    else:
        r = tl.cos(a)
    tl.store(out + at, r, mask=at < n)


# units in the last place of float32: what the rows promise, and more for the exponentials (tests/conform/engines.py)
ALLOWED = {"exp": 2, "exp2": 2.1, "log": 1, "log2": 1, "sqrt": 1, "rsqrt": 2, "div": 2, "div_rn": 0.5, "sqrt_rn": 0.5,
           "sin": 2, "cos": 2}
EXACT = {"exp": lambda a, b: a.exp(), "exp2": lambda a, b: a.exp2(), "log": lambda a, b: b.log(),
         "log2": lambda a, b: b.log2(), "sqrt": lambda a, b: b.sqrt(), "rsqrt": lambda a, b: b.rsqrt(),
         "div": lambda a, b: a / b, "div_rn": lambda a, b: a / b, "sqrt_rn": lambda a, b: b.sqrt(),
         "sin": lambda a, b: a.sin(), "cos": lambda a, b: a.cos()}


@pytest.mark.parametrize("op", ALLOWED)
def test_error(op: str) -> None:
    generator = torch.Generator("cuda").manual_seed(1)
    a = torch.randn(COUNT, device="cuda", generator=generator) * 20
    b = torch.randn(COUNT, device="cuda", generator=generator).exp() * 3
    out = torch.empty_like(a)
    apply[(COUNT // 1024,)](a, b, out, COUNT, op, 1024)
    exact = EXACT[op](a.double(), b.double())
    exponent = torch.frexp(exact.abs()).exponent.double() - 24      # frexp: 0.5 <= mantissa < 1
    unit = torch.exp2(torch.clamp(exponent, min=-149))
    if op == "exp2":
        exact = torch.where((out == 0) & (exact < 2.0**-126), 0.0, exact)
    apart = torch.where(out == exact.float(), 0.0, (out.double() - exact).abs() / unit)     # also what overflows
    worst = apart.nan_to_num(nan=float("inf")).max().item()
    os.write(2, f"WORST {op} {worst:.3f}\n".encode())
    assert worst <= ALLOWED[op] + 1e-3, f"{op} errs by {worst:.3f} units"
