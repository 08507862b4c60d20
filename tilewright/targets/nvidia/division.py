"""Quotients and remainders of integers by what is no constant: in 32 bits where both numbers fit, without signs where
the dividend has none.

    before                  after, if the ranges say that they fit      else
    q = div.s64 x, y        q = sext(div.u32 x, |y|) and a sign         if no x and no y of a thread has an upper half
                                                                        all in 32 bits, else all in 64

The hardware divides by neither.  A 64-bit quotient is a call of some 70 instructions; one of 32 bits takes 9 behind a
reciprocal that all quotients by one number share, unless there are branches between them (ptxas 13.0, sm_90a): so the
registers of a tile have one branch.  Indices are why: they are made in 64 bits and seldom need them.  A quotient and a
remainder of the same numbers are made together.
Tests: tests/targets/nvidia/test_division.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tilewright.analysis.ranges import Interval
from tilewright.ir.node import Op
from tilewright.ir.types import I32 as INT
from tilewright.ir.types import I64 as LONG
from tilewright.ir.types import element_of
from tilewright.targets.llvm.elementwise import rule_of
from tilewright.targets.llvm.types import I32, I64, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia import special
from tilewright.targets.nvidia.emit.code import Code
from tilewright.targets.nvidia.state import Kernel

_DIVISIONS = frozenset({"div_s", "div_u", "rem_s", "rem_u"})
_UNSIGNED = Interval(0, (1 << 32) - 1)
_DIVIDENDS = Interval(-(1 << 31) + 1, (1 << 31) - 1)    # whose quotients are among them as well
_DIVISORS = Interval(-(1 << 31), (1 << 31) - 1)

Pair = tuple[LlvmValue, LlvmValue]


def fits(kernel: Kernel, op: Op) -> bool:
    """Whether `op` divides 64-bit numbers of which it is known that 32 bits hold them, and that the quotient does not
    leave them; or numbers of 32 bits with signs, the first of which is not negative."""
    if op.name not in _DIVISIONS or element_of(op.result.type) not in (INT, LONG):
        return False
    dividend, divisor = (kernel.axis.ranges.fact(v) for v in op.operands)
    if element_of(op.result.type) == INT:
        return op.name.endswith("_s") and dividend.low >= 0
    return (dividend.within(_UNSIGNED) and divisor.within(_UNSIGNED)) or (
        dividend.within(_DIVIDENDS) and divisor.within(_DIVISORS))


def short_division(kernel: Kernel, op: Op, args: Sequence[LlvmValue]) -> LlvmValue:
    """An element of the result of an `op` that `fits`."""
    x, y = args
    if y.is_constant:
        return rule_of(op)(kernel.code, op, args)
    code, (dividend, divisor) = kernel.code, (kernel.axis.ranges.fact(v) for v in op.operands)
    short, by = (code.cast("trunc", v, I32) for v in (x, y))
    if dividend.low < 0:
        result = special.RULES[op.name](code, op, (short, by))
        return code.cast("sext", result, x.type)
    signed = divisor.low < 0
    negative = code.icmp("slt", by, constant(I32, 0)) if signed else None
    size = by if negative is None else code.select(negative, code.op("sub", constant(I32, 0), by), by)
    (quotient,) = code.machine("div.u32", [I32], [short, size])
    if op.name.startswith("rem"):       # it has the dividend's sign
        return code.cast("zext", code.op("sub", short, code.op("mul", quotient, size)), x.type)
    quotient = special.unless_zero(code, by, quotient)
    if negative is None:
        return code.cast("zext", quotient, x.type)
    return code.cast("sext", code.select(negative, code.op("sub", constant(I32, 0), quotient), quotient), x.type)


def divide(kernel: Kernel, op: Op) -> Sequence[LlvmValue] | None:
    """The registers of the result of `op`, with one branch; None if it does not divide 64-bit numbers by what is no
    constant.  May start new blocks."""
    if op.name not in _DIVISIONS or element_of(op.result.type) != LONG or fits(kernel, op):
        return None
    dividends, divisors = (tuple(kernel.registers(v)) for v in op.operands)
    if any(y.is_constant for y in divisors):
        return None
    pairs = tuple(dict.fromkeys(zip(dividends, divisors, strict=True)))
    key = (op.name[-1], pairs)
    known = kernel.quotients.get(key)
    if known is None:
        known = _in_one_branch(kernel.code, pairs, f"div.{op.name[-1]}64")
        if kernel.code.can_wait:        # else this is code that seldom runs, beside the way of all other
            kernel.keep(kernel.quotients, key, known)
    at = len(pairs) if op.name.startswith("rem") else 0
    made = {pair: known[at + k] for k, pair in enumerate(pairs)}
    return [made[pair] for pair in zip(dividends, divisors, strict=True)]


def _in_one_branch(code: Code, pairs: Sequence[Pair], division: str) -> Sequence[LlvmValue]:
    """The quotients of `pairs`, and behind them the remainders."""
    numbers = dict.fromkeys(number for pair in pairs for number in pair)
    together = reduce(lambda a, b: code.op("or", a, b), numbers)
    upper = code.cast("trunc", code.op("lshr", together, constant(I64, 32)), I32)

    def short() -> Sequence[LlvmValue]:
        narrow = {v: code.cast("trunc", v, I32) for v in numbers}
        made = _quotients_and_rests(code, [(narrow[x], narrow[y]) for x, y in pairs], "div.u32")
        return [code.cast("zext", v, I64) for v in made]

    return code.branch(code.icmp("eq", upper, constant(I32, 0)), short,
                       lambda: _quotients_and_rests(code, pairs, division))


def _quotients_and_rests(code: Code, pairs: Sequence[Pair], division: str) -> list[LlvmValue]:
    quotients = [code.machine(division, [x.type], [x, y])[0] for x, y in pairs]
    rests = [code.op("sub", x, code.op("mul", q, y)) for (x, y), q in zip(pairs, quotients, strict=True)]
    return [*(special.unless_zero(code, y, q) for (_, y), q in zip(pairs, quotients, strict=True)), *rests]
