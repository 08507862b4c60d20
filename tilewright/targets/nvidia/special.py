"""Rows for which a GPU has instructions that no other machine has: rules on registers, in front of the general ones.

Each stays within the row's bound: div.full and ex2.approx are right to 2 ulp in f32, rcp.approx and sqrt.approx to 1,
rsqrt.approx to 2**-22.9 (PTX ISA 9.7.3); exp reduces its argument first, and is right to 2 ulp (1.93 at worst, of four
million arguments on an H200, 2026-11-30: ex2.approx errs by more than 1 on [0, 1)).  exp2 takes it as it is: 2.06 at
worst, of all arguments (H200, 2026-12-01), and zero below 2**-126.  Reduced it would be 1.59, for 7 instructions
instead of one; subnormal results would take 4 (attention, heads of 64: 306 TFLOP/s with 7, 373 with 4, 411 with one).
Before: values in register form.  Tests: tests/targets/nvidia/test_special.py, tests/conform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewright.ir.node import Op
from tilewright.ir.ops.attributes import Rounding
from tilewright.ir.ops.rules import scalar_element
from tilewright.ir.types import BF16, F16, F32, STORED_ONLY, Scalar
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.elementwise import rule_of
from tilewright.targets.llvm.mathlib.sigmoidal import tanh_near
from tilewright.targets.llvm.types import FLOAT, I8, I16, I32, Type, Value, constant
from tilewright.targets.nvidia.emit.code import Code

Rule = Callable[[Code, Op, Sequence[Value]], Value]

_LOG2E = 1.4426950408889634
_LOG2E_HIGH = 1.4426950216293335        # as a float; with the rest the product is right to 2**-48
_STEPS = 252                            # powers of two from 2**-126 to 2**126
_COUNTER = 12582913.0                   # 1.5 * 2**23 + 1: behind it a float counts by ones, its low bits are the count
_TANH_NEAR = 0.6                        # below it errors of powers count for more than half of their ulp
_HALF2 = Type("half", 2)


def _single(rule: Rule) -> Rule:
    """`rule` for f32, the general one for other types."""
    def choose(code: Code, op: Op, args: Sequence[Value]) -> Value:
        wide = scalar_element(op.operands[0].type) == F32
        return rule(code, op, args) if wide else rule_of(op)(code, op, args)

    return choose


def _instruction(name: str) -> Rule:
    return _single(lambda code, op, args: code.machine(name, [FLOAT], args)[0])


def _exponential(code: Code, op: Op, args: Sequence[Value]) -> Value:
    """e**x as 2**t for t = n + f with a whole n in -126 .. 126: ex2(f) * 2**n, in one statement of assembly.

    It counts n in steps from -126, as x * log2(e) / 252 + 1/2 limited to 0 .. 1 (a NaN gives 0).  Beyond the range of n
    the rest f is outside of [0, 1) and ex2 overflows or underflows by itself; a NaN comes through the rest.
    """
    numbers = {"scale": _LOG2E / _STEPS, "half": 0.5, "steps": _STEPS, "counter": _COUNTER,
               "origin": _COUNTER + _STEPS // 2, "high": _LOG2E_HIGH, "low": _LOG2E - _LOG2E_HIGH}
    texts = {n: f"0f{int(np.float32(v).view(np.uint32)):08X}" for n, v in numbers.items()}
    return code.machine("exp", [FLOAT], args, guard=None, initial=(), groups=(), **texts)[0]


def _hyperbolic_tangent(code: Code, op: Op, args: Sequence[Value]) -> Value:
    """1 - 2 / (2**(2 a log2(e)) + 1), with two approximate instructions, where what they err by counts for little."""
    (x,) = args
    a = code.unary_intrinsic("fabs", x)
    (power,) = code.machine("exp2", [FLOAT], [code.op("fmul", a, _float(2 * _LOG2E))])
    inverse = code.reciprocal(code.op("fadd", power, _float(1.0)))      # 0 of an infinite one
    far = code.fma(inverse, _float(-2.0), _float(1.0))
    result = code.select(code.fcmp("olt", a, _float(_TANH_NEAR)), tanh_near(code, a), far)
    return code.machine("copysign", [FLOAT], [x, result])[0]


def _float(value: float) -> Value:
    """The float nearest to `value`."""
    return constant(FLOAT, float(np.float32(value)))


def _extremum(code: Code, op: Op, args: Sequence[Value]) -> Value:
    """-0 < +0, and NaN as the row says: that is what the instructions do."""
    element = scalar_element(op.operands[0].type)
    if element.bits > F32.bits:
        return rule_of(op)(code, op, args)
    given = [convert.widen(code, a, element) for a in args]
    return convert.narrow(code, code.machine(op.name, [FLOAT], given)[0], element)


# --- division of many numbers by one

SHARED = 3          # from so many on, one reciprocal and products are less than quotients
_FAR = 2.0**64      # where an extreme divisor is scaled to be one, it is by as much


def quotients(code: Code, dividends: Sequence[Value], divisor: Value) -> list[Value]:
    """x / divisor for each x, in f32, within 2 ulp: x * (1 / divisor), where rcp.approx.ftz is right to 1 ulp, takes no
    subnormal number and gives none.

    A divisor beyond 2**126, or below 2**-126, has no normal reciprocal: it is (x * (1 / (divisor * s))) * s for a power
    of two s, and the threads in which it is not skip the second product.
    """
    size = code.unary_intrinsic("fabs", divisor)
    usual = code.op("and", code.fcmp("oge", size, _float(2.0**-126)), code.fcmp("ole", size, _float(2.0**126)))
    far = code.select(code.fcmp("ogt", size, _float(1.0)), _float(1 / _FAR), _float(_FAR))
    scale, extreme = code.select(usual, _float(1.0), far), code.not_(usual)
    inverse = code.reciprocal(code.op("fmul", divisor, scale))
    return [code.machine("scaled", [FLOAT], [x, inverse, extreme, scale])[0] for x in dividends]


# --- integers


def _divide(code: Code, op: Op, args: Sequence[Value]) -> Value:
    """A quotient or remainder.  The hardware traps nowhere, so nothing is tested before; x / 0 gives all ones there.

    For divisors that are constants LLVM knows better; and of what it may not know (x / 0) it would be told too much.
    """
    a, b = args
    if b.is_constant or b.type.bits < I32.bits:
        return rule_of(op)(code, op, args)
    quotient = code.machine(f"div.{op.name[-1]}{b.type.bits}", [b.type], args)[0]
    if op.name.startswith("rem"):
        return code.op("sub", a, code.op("mul", quotient, b))       # a, if b is 0
    return unless_zero(code, b, quotient)


def unless_zero(code: Code, divisor: Value, quotient: Value) -> Value:
    """The quotient of the hardware; x / 0 is 0."""
    nothing = constant(divisor.type, 0)
    return code.select(code.icmp("eq", divisor, nothing), nothing, quotient)


# --- eight-bit floats, where the hardware converts them (capability 8.9 and newer)


def _convert(code: Code, op: Op, args: Sequence[Value]) -> Value:
    source, target = scalar_element(op.operands[0].type), scalar_element(op.results[0].type)
    toward_zero = op.attrs.get("rounding") is Rounding.RTZ
    if code.has_fp8 and not toward_zero and source.bits < 64 and not {source, target} & STORED_ONLY:
        if target.bits == 8 and target.is_float:
            return _to_eight_bits(code, convert.widen(code, args[0], source), target)
        if source.bits == 8 and target.bits < 64:
            return convert.convert_float(code, _from_eight_bits(code, args[0], source), F16, target)
    if source == F32 and target in (BF16, F16) and not toward_zero:
        result = code.deferred(convert.register_type(target), lambda: rule_of(op)(code, op, args))
        code.note_rounded(result, args[0])
        return result
    return rule_of(op)(code, op, args)


def _to_eight_bits(code: Code, x: Value, target: Scalar) -> Value:
    pair = code.machine(f"cvt.{target}", [I16], [_float(0.0), x])[0]        # the second operand is the low half
    return code.cast("trunc", pair, I8)


def _from_eight_bits(code: Code, x: Value, source: Scalar) -> Value:
    """As f16, which holds every value."""
    pair = code.machine(f"cvt.from.{source}", [I32], [code.cast("zext", x, I16)])[0]
    return code.extract(code.bitcast(pair, _HALF2), 0)


RULES: Mapping[str, Rule] = {
    "exp": _single(_exponential), "exp2": _instruction("exp2"), "tanh": _single(_hyperbolic_tangent),
    "div_f": _instruction("div.full"), "sqrt": _instruction("sqrt"), "rsqrt": _instruction("rsqrt"),
    **dict.fromkeys(("max_f", "min_f", "max_nan_f", "min_nan_f"), _extremum),
    **dict.fromkeys(("div_s", "div_u", "rem_s", "rem_u"), _divide), "fp_trunc": _convert, "fp_ext": _convert,
}
