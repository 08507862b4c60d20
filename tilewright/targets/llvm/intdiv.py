"""Integer division that never traps, with the op table's values where C has none.

x / 0 = 0, x % 0 = x, INT_MIN / -1 = INT_MIN, INT_MIN % -1 = 0.  A vector of up to 32 bits divides in floats that hold
the quotient exactly, a quarter of the time of scalar divisions; of 64 bits it does so while all operands are below
2**51, else element by element.  Division by a constant is left to LLVM, which multiplies.
Tests: tests/targets/llvm/test_intdiv.py.
"""

from __future__ import annotations

from tilewright.targets.llvm.mathlib import truncate
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Value, constant, integer_value, zero

# Numbers below 2**51 in magnitude become doubles, and back, by adding this and shifting it out.
_MAGIC = 1.5 * 2.0**52
_MAGIC_BITS = 0x4338000000000000


def emit(f: FunctionWriter, name: str, x: Value, y: Value) -> Value:
    """The op row `name` (`div_s`, `div_u`, `rem_s`, `rem_u`) on integers of 8 to 64 bits.  May start new blocks."""
    signed, remainder = name.endswith("_s"), name.startswith("rem")
    divisor = integer_value(y)
    if divisor is not None:
        return _by_constant(f, x, y, divisor, signed, remainder)
    quotient = _quotient(f, x, y, signed)
    if not remainder:
        return quotient
    return f.op("sub", x, f.op("mul", quotient, y))


def _by_constant(f: FunctionWriter, x: Value, y: Value, divisor: int, signed: bool, remainder: bool) -> Value:
    nothing = zero(x.type)
    if divisor == 0:
        return x if remainder else nothing
    if divisor == -1 and signed:
        return nothing if remainder else f.op("sub", nothing, x)
    return f.op(("s" if signed else "u") + ("rem" if remainder else "div"), x, y)


def _quotient(f: FunctionWriter, x: Value, y: Value, signed: bool) -> Value:
    """x / y, truncated; 0 where y is 0."""
    t = x.type
    by_zero = f.icmp("eq", y, zero(t))
    bad = by_zero
    if signed:
        overflow = f.op("and", f.icmp("eq", y, constant(t, -1)),
                        f.icmp("eq", x, constant(t, 1 << (t.bits - 1))))
        bad = f.op("or", by_zero, overflow)
    safe = f.select(bad, constant(t, 1), y)     # INT_MIN / 1 is the value of INT_MIN / -1
    if not t.lanes:
        quotient = f.op("sdiv" if signed else "udiv", x, safe)
    elif t.bits == 64:
        quotient = _wide_quotient(f, x, safe, signed)
    else:
        quotient = _float_quotient(f, x, safe, signed)
    return f.select(by_zero, zero(t), quotient)


def _float_quotient(f: FunctionWriter, x: Value, y: Value, signed: bool) -> Value:
    """In f32 up to 16 bits, in f64 for 32: a quotient just below an integer does not round up to it.

    x/y = q - 1/y differs from q by more than half an ulp while |x| < 2**(significant bits - 1).
    """
    t = x.type.of("float" if x.type.bits <= 16 else "double")
    a, b = (f.cast("sitofp" if signed else "uitofp", v, t) for v in (x, y))
    ratio = f.op("fdiv", a, b)
    if x.type.bits == 32:
        return f.cast("fptosi" if signed else "fptoui", ratio, x.type)
    return f.cast("trunc", f.cast("fptosi", ratio, t.of("i32")), x.type)


def _wide_quotient(f: FunctionWriter, x: Value, y: Value, signed: bool) -> Value:
    """64 bits: in f64 when every operand is small, else LLVM's element-wise division of safe divisors."""
    t = x.type
    offset = constant(t, 1 << 51 if signed else 0)
    reach = constant(t, 1 << 52 if signed else 1 << 51)
    small = f.op("and", *(f.icmp("ult", f.op("add", v, offset), reach) for v in (x, y)))

    def in_doubles() -> tuple[Value]:
        double = t.of("double")
        magic, bits = constant(double, _MAGIC), constant(t, _MAGIC_BITS)
        a, b = (f.op("fsub", f.bitcast(f.op("add", v, bits), double), magic) for v in (x, y))
        whole = truncate(f, f.op("fdiv", a, b))
        return (f.op("sub", f.bitcast(f.op("fadd", whole, magic), t), bits),)

    def by_element() -> tuple[Value]:
        return (f.op("sdiv" if signed else "udiv", x, y),)

    (quotient,) = f.branch(f.all_lanes(small), in_doubles, by_element)
    return quotient


def mulhi_u(f: FunctionWriter, x: Value, y: Value) -> Value:
    """The high half of the unsigned product."""
    t = x.type
    if t.bits < 64 or not t.lanes:
        wide = t.of(f"i{2 * t.bits}")
        product = f.op("mul", f.cast("zext", x, wide), f.cast("zext", y, wide))
        return f.cast("trunc", f.op("lshr", product, constant(wide, t.bits)), t)
    half, low = constant(t, 32), constant(t, 0xFFFFFFFF)
    xh, yh = f.op("lshr", x, half), f.op("lshr", y, half)
    xl, yl = f.op("and", x, low), f.op("and", y, low)
    middle = f.op("add", f.op("mul", xh, yl), f.op("lshr", f.op("mul", xl, yl), half))
    carry = f.op("add", f.op("mul", xl, yh), f.op("and", middle, low))
    high = f.op("add", f.op("mul", xh, yh), f.op("lshr", middle, half))
    return f.op("add", high, f.op("lshr", carry, half))
