"""What the elementary functions share: constants, polynomials, rounding to an integer, powers of two.

Everything here works on scalars and on vectors of any lane count, of f32 and f64, and uses only instructions that
every machine has: rounding adds and subtracts a large number, powers of two are built in the exponent field.
Tests: tests/targets/llvm/test_mathlib.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Type, Value, constant

# Adding 1.5 * 2**p to |t| < 2**(p-1) puts the integer nearest to t in the low bits of the sum (p: stored bits).
MAGIC = {"float": 1.5 * 2.0**23, "double": 1.5 * 2.0**52}
MAGIC_BITS = {"float": 0x4B400000, "double": 0x4338000000000000}
MANTISSA = {"float": 23, "double": 52}
BIAS = {"float": 127, "double": 1023}
_LEADING = {"float": 0xFFFFF000, "double": 0xFFFFFFFF00000000}


def number(x: Value, value: float) -> Value:
    """A constant of `x`'s type."""
    return constant(x.type, value)


def is_single(x: Value) -> bool:
    return x.type.element == "float"


def polynomial(f: FunctionWriter, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule; the coefficients are given lowest power first."""
    result = number(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = f.fma(result, x, number(x, c))
    return result


def nearest(f: FunctionWriter, t: Value, factor: float = 1.0) -> tuple[Value, Value]:
    """The integer nearest to `t` * `factor` (ties to even), as a float and as an integer; for |t| below 2**21, 2**50.

    Of larger ones the float is about the product, and of infinities they themselves.
    """
    magic = number(t, MAGIC[t.type.element])
    shifted = f.op("fadd", t, magic) if factor == 1.0 else f.fma(t, number(t, factor), magic)
    whole = f.op("fsub", shifted, magic)
    bits = f.bitcast(shifted, t.type.as_int)
    return whole, f.op("sub", bits, constant(bits.type, MAGIC_BITS[t.type.element]))


def power_of_two(f: FunctionWriter, n: Value, t: Type) -> Value:
    """2**n as a float of type `t`, for integers n whose power is a normal number."""
    biased = f.op("add", n, constant(n.type, BIAS[t.element]))
    return f.bitcast(f.op("shl", biased, constant(n.type, MANTISSA[t.element])), t)


@dataclass(frozen=True, slots=True)
class Exponent:
    """An integer n in the low bits of a word, with the exponent's bias once or twice: `nearest_exponent` makes it."""

    bits: Value
    type: Type

    def power(self, f: FunctionWriter) -> Value:
        """2**n, a normal number, where the bias is in it once: what is above the exponent is shifted out."""
        return f.bitcast(f.op("shl", self.bits, constant(self.bits.type, MANTISSA[self.type.element])), self.type)

    def powers(self, f: FunctionWriter) -> tuple[Value, Value]:
        """Two normal numbers whose product is 2**n, where the bias is in it twice."""
        half = f.op("lshr", self.bits, constant(self.bits.type, 1))
        first, second = half, f.op("sub", self.bits, half)
        return Exponent(first, self.type).power(f), Exponent(second, self.type).power(f)


def nearest_exponent(f: FunctionWriter, t: Value, factor: float, biases: int) -> tuple[Value, Exponent]:
    """The integer nearest to `t` * `factor`, as `nearest` gives it, and as an exponent with its bias so many times.

    The bias is added together with the large number, so that a power takes one instruction and not three.
    """
    magic = number(t, MAGIC[t.type.element] + biases * BIAS[t.type.element])
    shifted = f.op("fadd", t, magic) if factor == 1.0 else f.fma(t, number(t, factor), magic)
    return f.op("fsub", shifted, magic), Exponent(f.bitcast(shifted, t.type.as_int), t.type)


def scale(f: FunctionWriter, p: Value, n: Value) -> Value:
    """p * 2**n with one rounding, for 0.5 < |p| < 2 and any n that two normal factors reach."""
    if f.isa.avx512:    # becomes vscalef; elsewhere llvm.ldexp is a call an element
        exponent = f.cast("trunc", n, n.type.of("i32"))
        return f.intrinsic("ldexp", p.type, (p, exponent), (p.type, exponent.type))
    half = f.op("ashr", n, constant(n.type, 1))
    rest = f.op("sub", n, half)
    return f.op("fmul", f.op("fmul", p, power_of_two(f, half, p.type)), power_of_two(f, rest, p.type))


def limit_above(f: FunctionWriter, x: Value, top: float) -> Value:
    """min(x, top); a NaN stays."""
    limit = number(x, top)
    return f.select(f.fcmp("ogt", x, limit), limit, x)


def limit_below(f: FunctionWriter, x: Value, low: float) -> Value:
    """max(x, low); a NaN stays."""
    limit = number(x, low)
    return f.select(f.fcmp("olt", x, limit), limit, x)


def same_if_zero(f: FunctionWriter, x: Value, result: Value) -> Value:
    """`result`, but x itself where that is +0 or -0."""
    return f.select(f.fcmp("oeq", x, number(x, 0.0)), x, result)


def two_sum(f: FunctionWriter, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b rounded, and the rounding error exactly (Knuth, TAOCP 4.2.2)."""
    total = f.op("fadd", a, b)
    back = f.op("fsub", total, a)
    error = f.op("fadd", f.op("fsub", a, f.op("fsub", total, back)), f.op("fsub", b, back))
    return total, error


def fast_two_sum(f: FunctionWriter, a: Value, b: Value) -> tuple[Value, Value]:
    """The same when |a| >= |b| or a is 0 (Dekker)."""
    total = f.op("fadd", a, b)
    return total, f.op("fsub", b, f.op("fsub", total, a))


def leading(f: FunctionWriter, x: Value) -> Value:
    """The 12 (f32) or 21 (f64) leading bits of x: times a constant of 12 or 32 bits it is exact."""
    integer = x.type.as_int
    mask = constant(integer, _LEADING[x.type.element])
    return f.bitcast(f.op("and", f.bitcast(x, integer), mask), x.type)


def magnitude(f: FunctionWriter, x: Value) -> Value:
    return f.unary_intrinsic("fabs", x)


def with_sign_of(f: FunctionWriter, value: Value, sign: Value) -> Value:
    return f.binary_intrinsic("copysign", value, sign)
