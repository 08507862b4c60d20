"""exp and exp2 of f32 on AVX-512: powers of two in sixteenths, picked out of a register by one instruction.

x = (k/16)*ln(2) + r, and e**x = 2**(k/16) * e**r, where |r| <= ln(2)/32 leaves a polynomial of degree 3 instead of 6.
`vscalefps` multiplies by 2**floor(k/16); the fraction of k/16 is the number of the lane that is picked, which rounding
has put into the lowest bits.  7 instructions multiply, not 9 as in `exponential.exp`, which other machines and f64 use:
softmax of rows in the second cache is 1.06 to 1.09 times as fast (Emerald Rapids, 2026-11-30).  Scalars and other lane
counts are put into whole registers, so that all give the same bits.
Bound: 1 ulp; half of it are the powers of two, which are rounded (0.4519 ulp at most).  At all f32 from 2**-31 to 2**8
exp is off by 0.9998 ulp at most, exp2 by 0.9905 (2026-11-30).  Tests: test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm import avx512
from tilewright.targets.llvm.mathlib.kit import number, polynomial
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Type, Value, constant_lanes

_LOG2_E = 1.4426950216293335
# ln(2) = high + low.  high has 15 bits, and what is left after its multiple is exact.
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.428606765330187e-06
_TO_SIXTEENTHS = 1.5 * 2.0**19      # adding it rounds to a multiple of 1/16, whose number is then in the low bits

_POWERS = (
    1.0, 1.0442737340927124, 1.0905077457427979, 1.1387885808944702, 1.1892070770263672, 1.2418577671051025,
    1.2968395948410034, 1.3542555570602417, 1.4142135381698608, 1.4768261909484863, 1.5422108173370361,
    1.610490322113037, 1.6817928552627563, 1.7562521696090698, 1.8340080976486206, 1.9152065515518188,
)
# (e**r - 1)/r on |r| <= ln(2)/32, and (2**r - 1)/r on |r| <= 1/32.  tools/fit_math.py, 2026-11-30; lowest power first.
_EXP = (1.0, 0.5000163316726685, 0.16667009890079498)
_EXP2 = (0.6931471824645996, 0.2402343451976776, 0.055502913892269135)


def serves(f: FunctionWriter, t: Type) -> bool:
    """Whether the functions here take values of type `t`, scalars and all lane counts."""
    return f.isa.avx512 and t.element == "float"


def exp(f: FunctionWriter, x: Value) -> Value:
    return avx512.by_registers(f, x, lambda v: _exp(f, v, limited=False))


def exp_moderate(f: FunctionWriter, x: Value) -> Value:
    """e**x for |x| < 80."""
    return avx512.by_registers(f, x, lambda v: _exp(f, v, limited=True))


def exp2(f: FunctionWriter, x: Value) -> Value:
    return avx512.by_registers(f, x, lambda v: _exp2(f, v))


def _exp(f: FunctionWriter, x: Value, limited: bool) -> Value:
    magic = number(x, _TO_SIXTEENTHS)
    moved = f.fma(x, number(x, _LOG2_E), magic)
    sixteenths = f.op("fsub", moved, magic)
    r = f.fma(sixteenths, number(x, -_LN2_LOW), f.fma(sixteenths, number(x, -_LN2_HIGH), x))
    return _powered(f, moved, sixteenths, r if limited else avx512.kept_small(f, r), _EXP)


def _exp2(f: FunctionWriter, x: Value) -> Value:
    magic = number(x, _TO_SIXTEENTHS)
    moved = f.op("fadd", x, magic)
    sixteenths = f.op("fsub", moved, magic)
    return _powered(f, moved, sixteenths, avx512.kept_small(f, f.op("fsub", x, sixteenths)), _EXP2)


def _powered(f: FunctionWriter, moved: Value, sixteenths: Value, r: Value, coefficients: tuple[float, ...]) -> Value:
    """2**sixteenths * (1 + r*p(r)); the low bits of `moved` are the fraction of `sixteenths`."""
    power = avx512.pick(f, constant_lanes("float", _POWERS), f.bitcast(moved, moved.type.as_int))
    product = f.fma(polynomial(f, r, coefficients), f.op("fmul", r, power), power)
    return avx512.scale(f, product, sixteenths)
