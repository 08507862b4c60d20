"""Exact conversions between the element types of tile IR, on scalars and vectors.

A value of IR type `t` is held in registers as `register_type(t)`: bf16 and fp8 as their bits in integers, f16 as
`half`, i1 as `i1`; memory holds an i1 as a byte (`memory_type`).  Every conversion gives the bits of the op table's
`ref` (`ir.fp`): one rounding from any source, denormals kept, fp8 saturating, NaN canonical in bf16 and fp8; float to
int saturates and maps NaN to 0.  `fptrunc` to bfloat is never used: on CPUs with AVX512-BF16 it flushes denormals.
Tests: tests/targets/llvm/test_convert.py.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.ir.types import F16, STORED_ONLY, Element, Pointer, Scalar
from tilewright.targets.llvm import avx512
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Type, Value, constant, zero

_REGISTERS = {"f8e4m3": "i8", "f8e5m2": "i8", "f8e4m3fnuz": "i8", "f8e5m2fnuz": "i8", "f8e4m3b15": "i8",
              "bf16": "i16", "f16": "half", "f32": "float", "f64": "double"}


def register_type(element: Element, lanes: int = 0) -> Type:
    """How `lanes` elements (0: one scalar) are held in a register."""
    if isinstance(element, Pointer):
        return Type("ptr", lanes)
    return Type(_REGISTERS.get(element.name, element.name), lanes)


def memory_type(element: Element, lanes: int = 0) -> Type:
    """How `lanes` elements lie in memory."""
    t = register_type(element, lanes)
    return t.of("i8") if t.element == "i1" else t


def is_narrow_float(element: Element) -> bool:
    """Whether arithmetic on `element` is done in a wider type."""
    return isinstance(element, Scalar) and element.is_float and element.bits <= F16.bits


class _Format(NamedTuple):
    """A float format narrower than f32: stored mantissa bits, exponent of the smallest normal, code limits."""

    bits: int
    mantissa: int
    min_exponent: int
    largest: int          # code of the largest finite number
    overflow: int         # code for what rounds beyond it
    infinity: int         # code for infinity
    nan: int
    negative_zero: bool = True


_FORMATS = {
    "f16": _Format(16, 10, -14, 0x7BFF, 0x7C00, 0x7C00, 0x7E00),
    "f8e4m3": _Format(8, 3, -6, 0x7E, 0x7E, 0x7E, 0x7F),
    "f8e5m2": _Format(8, 2, -14, 0x7B, 0x7B, 0x7B, 0x7F),
    "f8e4m3fnuz": _Format(8, 3, -7, 0x7F, 0x7F, 0x7F, 0x80, negative_zero=False),
    "f8e5m2fnuz": _Format(8, 2, -15, 0x7F, 0x7F, 0x7F, 0x80, negative_zero=False),
    "f8e4m3b15": _Format(8, 3, -14, 0x7F, 0x7F, 0x7F, 0x7F),
}


# --- float to float

def convert_float(f: FunctionWriter, x: Value, source: Scalar, to: Scalar, toward_zero: bool = False) -> Value:
    """A value of float type `source` as one of float type `to`, rounded once."""
    if source == to:
        return x
    return narrow(f, widen(f, x, source), to, toward_zero)


def widen(f: FunctionWriter, x: Value, source: Scalar) -> Value:
    """f16, bf16 and fp8 as float, exactly; f32 and f64 as they are."""
    if source.name == "bf16":
        bits = f.cast("zext", x, x.type.of("i32"))
        return f.bitcast(f.op("shl", bits, constant(bits.type, 16)), x.type.of("float"))
    if source.name == "f16":
        return _from_half(f, f.bitcast(x, x.type.of("i16")))
    if source.name == "f8e5m2":
        wide = f.cast("zext", x, x.type.of("i16"))
        return _from_half(f, f.op("shl", wide, constant(wide.type, 8)))
    if source.name == "f8e4m3":
        return _from_e4m3(f, x)
    return _from_stored_only(f, x, _FORMATS[source.name]) if source in STORED_ONLY else x


def _from_stored_only(f: FunctionWriter, x: Value, form: _Format) -> Value:
    """The code's bits in a float's place, times the power of two between the biases, which is exact."""
    wide = f.cast("zext", x, x.type.of("i32"))
    t, single = wide.type, x.type.of("float")
    placed = f.op("shl", f.op("and", wide, constant(t, 0x7F)), constant(t, 23 - form.mantissa))
    size = f.op("fmul", f.bitcast(placed, single), constant(single, 2.0 ** (126 + form.min_exponent)))
    sign = f.op("shl", f.op("and", wide, constant(t, 0x80)), constant(t, 24))
    value = f.bitcast(f.op("or", f.bitcast(size, t), sign), single)
    if form.negative_zero:
        return value
    return f.select(f.icmp("eq", wide, constant(t, 0x80)), constant(single, float("nan")), value)


def _from_half(f: FunctionWriter, bits: Value) -> Value:
    """A half, given as i16, as float."""
    single = bits.type.of("float")
    if f.isa.half:
        return f.cast("fpext", f.bitcast(bits, bits.type.of("half")), single)
    # The half's exponent and mantissa in a float's place are 2**-112 too small; the product is exact.
    wide = f.cast("zext", bits, bits.type.of("i32"))
    t = wide.type
    moved = f.op("shl", f.op("and", wide, constant(t, 0x7FFF)), constant(t, 13))
    scaled = f.bitcast(f.op("fmul", f.bitcast(moved, single), constant(single, 2.0**112)), t)
    special = f.icmp("uge", moved, constant(t, 0x7C00 << 13))
    magnitude = f.select(special, f.op("or", moved, constant(t, 0x7F800000)), scaled)
    sign = f.op("shl", f.op("and", wide, constant(t, 0x8000)), constant(t, 16))
    return f.bitcast(f.op("or", magnitude, sign), single)


def _from_e4m3(f: FunctionWriter, x: Value) -> Value:
    """e4m3 has a half's exponent range moved by 8: its bits in a half's place, times 2**8; code 0x7f is NaN."""
    wide = f.cast("sext", x, x.type.of("i16"))
    t = wide.type
    half = f.op("and", f.op("shl", wide, constant(t, 7)), constant(t, 0xBF80))
    value = _from_half(f, half)
    value = f.op("fmul", value, constant(value.type, 256.0))
    code = f.op("and", x, constant(x.type, 0x7F))
    return f.select(f.icmp("eq", code, constant(x.type, 0x7F)), constant(value.type, float("nan")), value)


def narrow(f: FunctionWriter, x: Value, to: Scalar, toward_zero: bool = False) -> Value:
    """A float or double rounded to `to`, to nearest even or toward zero; a float is widened if `to` is f64."""
    if to.name == "f64":
        return f.cast("fpext", x, x.type.of("double"))
    if x.type.element == "double":
        if to.name == "f32" and not toward_zero:
            return f.cast("fptrunc", x, x.type.of("float"))
        x = _double_to_single(f, x, odd=not toward_zero)
    if to.name == "f32":
        return x
    if to.name == "bf16":
        return _to_bf16(f, x, toward_zero)
    if to.name == "f16" and f.isa.half and not toward_zero:
        return f.cast("fptrunc", x, x.type.of("half"))
    code = _encode(f, x, _FORMATS[to.name], toward_zero)
    return f.bitcast(code, x.type.of("half")) if to.name == "f16" else code


def _double_to_single(f: FunctionWriter, x: Value, odd: bool) -> Value:
    """A double as float, rounded toward zero; with `odd` the last bit is set if digits were lost.

    A second rounding to at most 22 bits is then as if done at once (Boldo and Melquiond, 2008).
    """
    near = f.cast("fptrunc", x, x.type.of("float"))
    back = f.cast("fpext", near, x.type)
    bits = f.bitcast(near, near.type.as_int)
    beyond = f.fcmp("ogt", f.unary_intrinsic("fabs", back), f.unary_intrinsic("fabs", x))
    bits = f.op("add", bits, f.cast("sext", beyond, bits.type))
    if odd:
        bits = f.op("or", bits, f.cast("zext", f.fcmp("one", back, x), bits.type))
    return f.bitcast(bits, near.type)


def _to_bf16(f: FunctionWriter, x: Value, toward_zero: bool) -> Value:
    if f.isa.narrows_bf16 and not toward_zero:
        return f.bitcast(f.cast("fptrunc", x, x.type.of("bfloat")), x.type.of("i16"))
    bits = f.bitcast(x, x.type.as_int)
    t = bits.type
    if avx512.has_high_halves(f, t) and not toward_zero:
        return _to_bf16_in_registers(f, x, bits)
    rounded = bits
    if not toward_zero:
        last = f.op("and", f.op("lshr", bits, constant(t, 16)), constant(t, 1))
        rounded = f.op("add", bits, f.op("add", last, constant(t, 0x7FFF)))
    code = f.cast("trunc", f.op("lshr", rounded, constant(t, 16)), t.of("i16"))
    return f.select(f.fcmp("uno", x, x), constant(code.type, 0x7FC0), code)


def _to_bf16_in_registers(f: FunctionWriter, x: Value, bits: Value) -> Value:
    """The same of a whole register of 512 bits: 6 instructions instead of 9, which counts behind a matrix product."""
    t = bits.type
    is_odd = f.icmp("ne", f.op("and", bits, constant(t, 1 << 16)), zero(t))
    rounded = f.select(is_odd, f.op("add", bits, constant(t, 0x8000)), f.op("add", bits, constant(t, 0x7FFF)))
    code = avx512.high_halves(f, rounded)
    return f.select(f.fcmp("uno", x, x), constant(code.type, 0x7FC0), code)


def _encode(f: FunctionWriter, x: Value, form: _Format, toward_zero: bool) -> Value:
    """The code of a float in `form`, as an integer of its width."""
    bits = f.bitcast(x, x.type.as_int)
    t = bits.type
    magnitude = f.op("and", bits, constant(t, 0x7FFFFFFF))
    shift = 23 - form.mantissa
    rebias = (form.min_exponent - 1) << 23      # moves the exponent from the float's bias to the format's
    normal = f.op("sub", magnitude, constant(t, (127 << 23) + rebias))
    if not toward_zero:
        last = f.op("and", f.op("lshr", magnitude, constant(t, shift)), constant(t, 1))
        normal = f.op("add", normal, f.op("add", last, constant(t, (1 << (shift - 1)) - 1)))
    normal = f.op("lshr", normal, constant(t, shift))
    small = f.icmp("ult", magnitude, constant(t, (form.min_exponent + 127) << 23))
    code = f.select(small, _denormal_code(f, magnitude, form, toward_zero), normal)
    limit = constant(t, form.largest if toward_zero else form.overflow)
    code = f.binary_intrinsic("umin", code, limit)
    if form.infinity != form.largest and toward_zero:
        code = f.select(f.icmp("eq", magnitude, constant(t, 0x7F800000)), constant(t, form.infinity), code)
    sign = f.op("lshr", f.op("and", bits, constant(t, 1 << 31)), constant(t, 32 - form.bits))
    if not form.negative_zero:
        sign = f.select(f.icmp("eq", code, constant(t, 0)), constant(t, 0), sign)
    code = f.select(f.fcmp("uno", x, x), constant(t, form.nan), f.op("or", code, sign))
    return f.cast("trunc", code, t.of(f"i{form.bits}"))


def _denormal_code(f: FunctionWriter, magnitude: Value, form: _Format, toward_zero: bool) -> Value:
    """The code of a magnitude below the smallest normal: how many of the smallest denormals it is."""
    t, single = magnitude.type, magnitude.type.of("float")
    value = f.bitcast(magnitude, single)
    quantum = form.min_exponent - form.mantissa
    if toward_zero:
        return f.cast("fptosi", f.op("fmul", value, constant(single, 2.0**-quantum)), t)
    # Adding 2**(quantum + 23) puts the quantum at the float's last bit; the sum is rounded as we want it.
    shifted = f.op("fadd", value, constant(single, 2.0 ** (quantum + 23)))
    return f.op("sub", f.bitcast(shifted, t), constant(t, (quantum + 23 + 127) << 23))


# --- integer to float

def int_to_float(f: FunctionWriter, x: Value, to: Scalar, signed: bool) -> Value:
    """An integer as float type `to`, rounded once to nearest even; a true i1 is 1, or -1 when signed."""
    instruction = "sitofp" if signed else "uitofp"
    if to.name in ("f32", "f64"):
        return f.cast(instruction, x, register_type(to, x.type.lanes))
    if x.type.bits <= 16:       # exact in float
        return narrow(f, f.cast(instruction, x, x.type.of("float")), to)
    if to.name == "bf16":
        double = f.cast(instruction, _sticky(f, x, signed) if x.type.bits == 64 else x, x.type.of("double"))
        return narrow(f, double, to)
    bound = constant(x.type, 1 << 20)           # beyond the largest f16 and fp8, and exact in float
    limited = f.binary_intrinsic("smin" if signed else "umin", x, bound)
    if signed:
        limited = f.binary_intrinsic("smax", limited, constant(x.type, -(1 << 20)))
    return narrow(f, f.cast("sitofp", f.cast("trunc", limited, x.type.of("i32")), x.type.of("float")), to)


def _sticky(f: FunctionWriter, x: Value, signed: bool) -> Value:
    """A number exact in double that rounds to bf16 as the i64 `x` does.

    From 2**31 on the low 12 bits are beneath bf16's last bit: they become one bit that says whether any was set.
    """
    t = x.type
    low = f.op("and", x, constant(t, 0xFFF))
    lost = f.icmp("ne", low, constant(t, 0))
    merged = f.op("or", f.op("sub", x, low), f.select(lost, constant(t, 0x800), constant(t, 0)))
    moved = f.op("add", x, constant(t, 1 << 31)) if signed else x
    small = f.icmp("ult", moved, constant(t, 1 << (32 if signed else 31)))
    return f.select(small, x, merged)


# --- float to integer

def float_to_int(f: FunctionWriter, x: Value, source: Scalar, to: Scalar, signed: bool) -> Value:
    """A float truncated to an integer of type `to`; saturates, NaN gives 0.  No lane ever traps."""
    x = widen(f, x, source)
    low = -(1 << (to.bits - 1)) if signed else 0
    high = (1 << (to.bits - 1 if signed else to.bits)) - 1
    t = x.type
    x = f.select(f.fcmp("uno", x, x), constant(t, 0.0), x)
    below = constant(t, float(low))
    x = f.select(f.fcmp("olt", x, below), below, x)
    integer = t.of(f"i{to.bits}")
    if high < 1 << (24 if t.element == "float" else 53):        # exact, so the limit can be applied before
        above = constant(t, float(high))
        x = f.select(f.fcmp("ogt", x, above), above, x)
        if to.bits < 32:
            return f.cast("trunc", f.cast("fptosi", x, t.of("i32")), integer)
        return f.cast("fptosi" if signed else "fptoui", x, integer)
    whole = f.cast("fptosi" if signed else "fptoui", x, integer)
    over = f.fcmp("oge", x, constant(t, float(high + 1)))
    return f.select(over, constant(integer, high), whole)
