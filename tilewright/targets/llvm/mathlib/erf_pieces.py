"""erf of f32 on AVX-512: erf(a)/a in 16 pieces, whose coefficients are picked out of registers by one instruction each.

Around k/4 the ratio is a polynomial of degree 5.  That is half the work of the two polynomials and the exponential
that `sigmoidal.erf` needs, which other machines use.  Scalars and other lane counts are put into whole registers, so
that all give the same bits.  Bound: 2 ulp; from 3.875 on the result is 1.  Tests: tests/targets/llvm/test_mathlib.py.
"""

from __future__ import annotations

from tilewright.targets.llvm import avx512
from tilewright.targets.llvm.mathlib.kit import magnitude, number, with_sign_of
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Type, Value, constant_lanes

_TOP = 3.875
_TO_QUARTERS = 1.5 * 2.0**21        # adding it rounds to a multiple of 1/4, whose number is then in the low bits

# By power, lowest first; in each row by piece.  tools/fit_math.py, 2026-11-30.
_PIECES = (
    (1.1283791065216064, 1.105305552482605, 1.0409997701644897, 0.9482074975967407, 0.8427007794380188,
     0.7383201122283936, 0.6440700888633728, 0.5638123750686646, 0.49766114354133606, 0.4437943398952484,
     0.3998372256755829, 0.3635997772216797, 0.33332598209381104, 0.30769097805023193, 0.2857140600681305,
     0.2666666507720947),
    (0.0, -0.18116572499275208, -0.3244343400001526, -0.4070352613925934, -0.42759329080581665, -0.40143918991088867,
     -0.35009321570396423, -0.29202136397361755, -0.2384970784187317, -0.1940675675868988, -0.15906357765197754,
     -0.13200490176677704, -0.11106223613023758, -0.09466516971588135, -0.08163104951381683, -0.07111086696386337),
    (-0.3761080205440521, -0.33534717559814453, -0.22991760075092316, -0.1002153754234314, 0.012487436644732952,
     0.0846266821026802, 0.11446727067232132, 0.11409689486026764, 0.09857917577028275, 0.07911235839128494,
     0.06144562363624573, 0.04741467908024788, 0.036878351122140884, 0.029100000858306885, 0.023321157321333885,
     0.018958313390612602),
    (0.0, 0.1047205850481987, 0.16689611971378326, 0.16934193670749664, 0.12588264048099518, 0.06632630527019501,
     0.01619381085038185, -0.013678213581442833, -0.025178352370858192, -0.025504926219582558, -0.021238164976239204,
     -0.01623951829969883, -0.012031384743750095, -0.008892722427845001, -0.006650168914347887,
     -0.005054617300629616),
    (0.1114579513669014, 0.08852780610322952, 0.03255058452486992, -0.02473747730255127, -0.056502826511859894,
     -0.0576397143304348, -0.04060913249850273, -0.019857347011566162, -0.004580021370202303, 0.0026832681614905596,
     0.005103269591927528, 0.0047568087466061115, 0.0038237348198890686, 0.002576458267867565, 0.001708687050268054,
     0.0015351854963228106),
    (0.0, -0.0357225127518177, -0.04969696328043938, -0.037752825766801834, -0.012486294843256474,
     0.008469179272651672, 0.016915498301386833, 0.014994541183114052, 0.008825093507766724, 0.0034994983579963446,
     0.0004111356975045055, -0.0006488064536824822, -0.0008530138293281198, -0.000737756781745702,
     -0.0005125299794599414, -0.0003445212496444583),
)


def serves(f: FunctionWriter, t: Type) -> bool:
    return f.isa.avx512 and t.element == "float"


def erf(f: FunctionWriter, x: Value) -> Value:
    return avx512.by_registers(f, x, lambda v: _erf(f, v))


def _erf(f: FunctionWriter, x: Value) -> Value:
    a = magnitude(f, x)
    moved = f.op("fadd", a, number(a, _TO_QUARTERS))
    piece = f.bitcast(moved, a.type.as_int)
    t = f.op("fsub", a, f.op("fsub", moved, number(a, _TO_QUARTERS)))
    first, *others = (avx512.pick(f, constant_lanes("float", row), piece) for row in _PIECES)
    rest = others[-1]
    for c in reversed(others[:-1]):
        rest = f.fma(rest, t, c)
    near = f.fma(a, first, f.op("fmul", a, f.op("fmul", rest, t)))
    far = f.fcmp("oge", a, number(a, _TOP))
    return with_sign_of(f, f.select(far, number(a, 1.0), near), x)
