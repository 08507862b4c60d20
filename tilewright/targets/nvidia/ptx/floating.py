"""Meanings of float instructions, f16 to f64, scalar and packed (PTX ISA 9.7.3, 9.7.4).

Approximate instructions (ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt, div .approx) are computed in float64 and rounded:
more exact than the hardware, which the machine does not claim to match in their last bits.  NaN payloads are not kept.
Tests: tests/targets/nvidia/ptx/test_floating.py.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import copysign, isfinite, isnan, isqrt
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx import floats
from tilewright.targets.nvidia.ptx.binding import PACKED, Binding, Step, elementwise, storage
from tilewright.targets.nvidia.ptx.operands import Instruction

Array = np.ndarray[Any, Any]
_TINY = {"f32": np.float32(2.0**-126), "f16": np.float16(2.0**-14), "f64": np.float64(2.0**-1022)}
_DIRECTED = ("rz", "rm", "rp")


def element(type: str) -> str:
    """The element of a packed type, or the type."""
    return type[:-2] if type in PACKED else type


def flush(x: Array, format: str) -> Array:
    """Subnormals to zero of the same sign (.ftz)."""
    small = np.abs(x) < _TINY[format]
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if small.any() else x


def rounding(parts: tuple[str, ...]) -> str:
    """The rounding mode among modifiers, "nearest" if none."""
    return next((floats.MODES[p] for p in parts if p in floats.MODES), "nearest")


def saturate_unit(x: Array) -> Array:
    """.sat: to [0, 1], NaN to 0."""
    return np.where(np.isnan(x), x.dtype.type(0), np.clip(x, 0, 1)).astype(x.dtype)


class Format:
    """How elements of a type are computed with: `wide` decodes to float64, `back` rounds and stores."""

    def __init__(self, instruction: Instruction) -> None:
        self.parts = instruction.parts
        self.type = instruction.parts[-1]
        self.name = element(self.type)
        self.flushes = "ftz" in self.parts and self.name in ("f32", "f16")
        self.mode = rounding(self.parts)

    def wide(self, x: Array) -> Array:
        return floats.decode(flush(x, self.name) if self.flushes else x, self.name)

    def back(self, y: Array) -> Array:
        out = floats.encode(y, self.name, self.mode)
        return self.finish(out)

    def finish(self, out: Array) -> Array:
        """Modifiers of results, on storage."""
        if self.flushes:
            out = flush(out, self.name)
        if "sat" in self.parts and self.name != "bf16":
            out = saturate_unit(out)
        if "relu" in self.parts:
            value = floats.decode(out, self.name)
            positive = np.where(value > 0, out, out.dtype.type(0))
            out = np.where(np.isnan(value), floats.CANONICAL_NAN[self.name], positive)
            out = out.astype(storage(self.type) or out.dtype)
        return out

    def native(self) -> bool:
        """May NumPy's own arithmetic be used as it is?"""
        return self.name in ("f32", "f64") and self.mode == "nearest"


def _directed(form: Format, exact: Callable[..., Fraction], plain: Any, *sources: Array) -> Array:
    """By a mode other than to nearest: thread by thread in fractions (rare); where that has no meaning, as NumPy."""
    values = np.broadcast_arrays(*[form.wide(s) for s in sources])
    near = np.array(plain(*values), np.float64)
    if form.mode == "nearest":
        return form.back(near)
    for i in range(near.size):
        numbers = [float(v.flat[i]) for v in values]
        if all(map(isfinite, numbers)) and not isnan(near.flat[i]):
            try:
                value = exact(*map(Fraction, numbers))
            except (ZeroDivisionError, ValueError):
                continue
            if value != 0:
                near.flat[i] = copysign(floats.round_exact(value, form.name, form.mode), value.numerator > 0 or -1)
            elif form.mode == "down" and not any(n == 0 for n in numbers):
                near.flat[i] = -0.0      # x - x, when rounding down
    return form.back(near)


def add_or_subtract(instruction: Instruction, bind: Binding) -> Step:
    """add, sub of floats (9.7.3.1, 9.7.3.2, 9.7.4.1, 9.7.4.2)."""
    form = Format(instruction)
    sign = 1 if instruction.parts[0] == "add" else -1
    plain: Any = np.add if sign > 0 else np.subtract
    if form.native() and not form.flushes and "sat" not in form.parts:
        return elementwise(bind, instruction, plain, form.type)
    if form.mode != "nearest":
        return elementwise(bind, instruction, lambda a, b: _directed_sum(form, a, b, sign), form.type)
    if form.name == "f64":
        return elementwise(bind, instruction, plain, form.type)
    return elementwise(bind, instruction, lambda a, b: form.back(plain(form.wide(a), form.wide(b))), form.type)


def _directed_sum(form: Format, a: Array, b: Array, sign: int) -> Array:
    if form.name == "f64" or form.mode == "down":
        return _directed(form, lambda p, q: p + sign * q, lambda x, y: x + sign * y, a, b)
    # to odd, then directed: right for every mode
    return form.back(floats.sum_to_odd(*np.broadcast_arrays(form.wide(a), sign * form.wide(b))))


def multiply(instruction: Instruction, bind: Binding) -> Step:
    form = Format(instruction)
    if form.native() and not form.flushes and "sat" not in form.parts:
        return elementwise(bind, instruction, np.multiply, form.type)
    if form.name == "f64":
        return elementwise(bind, instruction, lambda a, b: _directed(form, lambda p, q: p * q, np.multiply, a, b),
                           form.type)
    return elementwise(bind, instruction, lambda a, b: form.back(form.wide(a) * form.wide(b)), form.type)


def fused(instruction: Instruction, bind: Binding) -> Step:
    """fma, and mad of floats, which is the same (9.7.3.5 to .7, 9.7.4.4)."""
    form = Format(instruction)
    if form.name == "f32" and form.native():
        if not form.flushes and "sat" not in form.parts:
            return elementwise(bind, instruction, floats.fma32, form.type)

        def modified(*sources: Array) -> Array:
            return form.finish(floats.fma32(*(flush(x, "f32") if form.flushes else x for x in sources)))

        return elementwise(bind, instruction, modified, form.type)
    if form.name == "f64":
        if form.mode == "nearest":
            return elementwise(bind, instruction, floats.fma64, form.type)
        return elementwise(bind, instruction, lambda *s: _directed(form, lambda p, q, r: p * q + r, floats.fma64, *s),
                           form.type)

    def meaning(a: Array, b: Array, c: Array) -> Array:
        product = form.wide(a) * form.wide(b)
        return form.back(floats.sum_to_odd(*np.broadcast_arrays(product, form.wide(c))))

    return elementwise(bind, instruction, meaning, form.type)


def divide(instruction: Instruction, bind: Binding) -> Step:
    """div.rn and directed; .approx and .full are as exact (9.7.3.8)."""
    form = Format(instruction)
    return elementwise(bind, instruction, lambda a, b: _directed(form, lambda p, q: p / q, np.divide, a, b), form.type)


def _unary(exact: Callable[..., Fraction] | None, plain: Callable[[Array], Any]
           ) -> Callable[[Instruction, Binding], Step]:
    """A function of one float, through float64."""
    def meaning(instruction: Instruction, bind: Binding) -> Step:
        form = Format(instruction)
        if exact is not None and form.mode != "nearest":
            return elementwise(bind, instruction, lambda a: _directed(form, exact, plain, a), form.type)
        return elementwise(bind, instruction, lambda a: form.back(plain(form.wide(a))), form.type)

    return meaning


def _exact_root(x: Fraction) -> Fraction:
    """A root with so many bits that a directed rounding of it is right (exact where the root is rational)."""
    scale = 2**400
    root = isqrt(x.numerator * x.denominator * scale * scale)
    exact = root * root == x.numerator * x.denominator * scale * scale
    return Fraction(2 * root + (0 if exact else 1), 2 * x.denominator * scale)


reciprocal = _unary(lambda x: 1 / x, np.reciprocal)
square_root = _unary(_exact_root, np.sqrt)
reciprocal_root = _unary(None, lambda x: np.where(x == 0, np.copysign(np.inf, x), 1.0 / np.sqrt(x)))
sine = _unary(None, np.sin)
cosine = _unary(None, np.cos)
logarithm = _unary(None, np.log2)
exponential = _unary(None, np.exp2)
hyperbolic_tangent = _unary(None, np.tanh)


def _sign_bit(type: str) -> int:
    return {"f32": 1 << 31, "f64": 1 << 63}.get(type, 1 << 15)


def _on_bits(change: Callable[[Array, Any], Array]) -> Callable[[Instruction, Binding], Step]:
    """abs and neg act on the sign, of NaN too (9.7.3.9, 9.7.3.10); with .ftz subnormals go to zero."""
    def meaning(instruction: Instruction, bind: Binding) -> Step:
        form = Format(instruction)
        dtype = bind.source(instruction.operands[1], form.type).dtype
        unsigned = np.dtype(f"u{dtype.itemsize}")
        sign = unsigned.type(_sign_bit(form.name))

        def act(a: Array) -> Array:
            a = flush(a, form.name) if form.flushes else a
            return change(np.ascontiguousarray(a).view(unsigned), sign).view(dtype)

        return elementwise(bind, instruction, act, form.type)

    return meaning


absolute = _on_bits(lambda bits, sign: bits & ~sign)
negate = _on_bits(lambda bits, sign: bits ^ sign)


def extremum(instruction: Instruction, bind: Binding) -> Step:
    """min, max: of a number and NaN the number, with .NaN NaN; -0 < +0; .xorsign.abs (9.7.3.11, 9.7.3.12)."""
    form, parts = Format(instruction), instruction.parts
    largest = parts[0] == "max"
    keeps_nan, by_size = "NaN" in parts, "xorsign" in parts

    def pick(a: Array, b: Array) -> Array:
        x, y = form.wide(a), form.wide(b)
        signs = np.signbit(x) ^ np.signbit(y)
        if by_size:
            x, y = np.abs(x), np.abs(y)
        out = (np.fmax if largest else np.fmin)(x, y)
        zeros = (x == 0) & (y == 0)
        if zeros.any():
            negative = np.signbit(x) & np.signbit(y) if largest else np.signbit(x) | np.signbit(y)
            out = np.where(zeros, np.where(negative, -0.0, 0.0), out)
        if by_size:
            out = np.where(signs, -out, out)
        if keeps_nan:
            out = np.where(np.isnan(x) | np.isnan(y), np.nan, out)
        return form.back(out)

    if len(instruction.operands) == 4:
        return elementwise(bind, instruction, lambda a, b, c: pick(pick(a, b), c), form.type)
    if form.name == "f32" and not (form.flushes or by_size):
        return elementwise(bind, instruction, lambda a, b: _extremum32(a, b, largest, keeps_nan), form.type)
    return elementwise(bind, instruction, pick, form.type)


def _extremum32(a: Array, b: Array, largest: bool, keeps_nan: bool) -> Array:
    """The common case in few operations: equal values differ in the sign of zero at most, so their bits are joined."""
    if keeps_nan:
        out = np.asarray((np.maximum if largest else np.minimum)(a, b))
    else:
        out = np.asarray((np.fmax if largest else np.fmin)(a, b))
    equal = a == b
    if equal.any():
        x, y = np.broadcast_arrays(a, b)
        bits = np.ascontiguousarray(x).view(np.uint32), np.ascontiguousarray(y).view(np.uint32)
        out = np.where(equal, (bits[0] & bits[1] if largest else bits[0] | bits[1]).view(np.float32), out)
    nan = np.isnan(out)
    return np.where(nan, floats.CANONICAL_NAN["f32"], out) if nan.any() else out


def copy_sign(instruction: Instruction, bind: Binding) -> Step:
    """copysign d, a, b: the sign of a on the value of b (9.7.3.4)."""
    return elementwise(bind, instruction, lambda a, b: np.copysign(b, a), instruction.parts[-1])


def test_property(instruction: Instruction, bind: Binding) -> Step:
    """testp (9.7.3.3)."""
    type, what = instruction.parts[-1], instruction.parts[1]
    tiny = _TINY[type]
    tests: dict[str, Callable[[Array], Any]] = {
        "finite": np.isfinite, "infinite": np.isinf, "number": lambda a: ~np.isnan(a), "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < tiny),
    }
    return elementwise(bind, instruction, tests[what], type, "pred")
