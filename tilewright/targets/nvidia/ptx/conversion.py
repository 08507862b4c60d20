"""Meanings of cvt and cvt.pack: every pair of formats, modes, saturation, relu (PTX ISA 9.7.9.21, 9.7.9.22).

Before: a cvt with its types.  After: integers wrap or saturate as PTX says; float to integer saturates, NaN gives 0,
or the highest bit alone where one of the two types has 64 bits.
Tests: tests/targets/nvidia/ptx/test_conversion.py.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx import floats
from tilewright.targets.nvidia.ptx.binding import DTYPE, Binding, Mask, Step
from tilewright.targets.nvidia.ptx.floating import flush, rounding, saturate_unit
from tilewright.targets.nvidia.ptx.operands import Instruction, Special

Array = np.ndarray[Any, Any]
_FLOATS = ("f16", "bf16", "f32", "f64", "tf32")
_SMALL_PAIRS = {"e4m3x2": "e4m3", "e5m2x2": "e5m2", "e2m1x2": "e2m1", "e2m3x2": "e2m3", "e3m2x2": "e3m2"}
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16", **_SMALL_PAIRS}


def convert(instruction: Instruction, bind: Binding) -> Step:
    """cvt: by the kinds of its two types."""
    parts = instruction.parts
    if "pack" in parts:
        return _pack_integers(instruction, bind)
    to, source = parts[-2], parts[-1]
    if to in _PAIRS and source == "f32":
        return _pack_floats(instruction, bind, to)
    if source in _SMALL_PAIRS or to in _SMALL_PAIRS:
        return _small_pair(instruction, bind, to, source)
    operand = instruction.operands[1]
    if isinstance(operand, Special):
        source_array = bind.source(operand, {4: "u32", 8: "u64"}[bind.cta.special[operand.name].dtype.itemsize])
    else:
        source_array = bind.source(operand, source)
    meaning = _between(parts, to, source, bind)
    target = "b32" if to == "tf32" else to
    put = bind.put(instruction.operands[0], target)
    if to == "tf32":
        return lambda on: put(meaning(source_array).view(np.uint32), on)
    return lambda on: put(meaning(source_array), on)


def _between(parts: tuple[str, ...], to: str, source: str, bind: Binding) -> Callable[[Array], Array]:
    if source in _FLOATS:
        return _from_float(parts, to, source) if to in _FLOATS else _float_to_integer(parts, to, source)
    if to in _FLOATS:
        return _integer_to_float(parts, to, source)
    return _integer_to_integer(parts, to)


def _integer_to_integer(parts: tuple[str, ...], to: str) -> Callable[[Array], Array]:
    dtype = DTYPE[to]
    if "sat" not in parts:
        return lambda a: a.astype(dtype)
    info = np.iinfo(dtype)

    def clamped(a: Array) -> Array:
        own = np.iinfo(a.dtype)
        return np.clip(a, max(int(info.min), int(own.min)), min(int(info.max), int(own.max))).astype(dtype)

    return clamped


def _integer_to_float(parts: tuple[str, ...], to: str, source: str) -> Callable[[Array], Array]:
    mode = rounding(parts)

    def to_float(a: Array) -> Array:
        if mode == "nearest" and to in ("f32", "f64"):
            out = a.astype(DTYPE[to])
        elif a.dtype.itemsize < 8:
            out = floats.encode(a.astype(np.float64), to, mode)
        else:       # 64 bits do not fit a float64: exactly, one by one
            values = [floats.round_exact(Fraction(int(v)), to, mode) for v in np.atleast_1d(a)]
            out = floats.encode(np.array(values).reshape(np.shape(a)), to, "nearest")
        return saturate_unit(out) if "sat" in parts else out

    return to_float


def _float_to_integer(parts: tuple[str, ...], to: str, source: str) -> Callable[[Array], Array]:
    mode, info, dtype = rounding(parts), np.iinfo(DTYPE[to]), DTYPE[to]
    top = float(int(info.max) + 1)

    def to_integer(a: Array) -> Array:
        value = floats.decode(flush(a, source) if "ftz" in parts and source == "f32" else a, source)
        whole = floats.to_integer(value, mode)
        nan, high, low = np.isnan(whole), whole >= top, whole < float(info.min)
        out = np.where(nan | high | low, 0.0, whole).astype(dtype)
        if high.any() or low.any():
            out = np.where(high, dtype.type(info.max), np.where(low, dtype.type(info.min), out))
        if (dtype.itemsize == 8 or source == "f64") and nan.any():
            out = np.where(nan, np.array(1 << (8 * dtype.itemsize - 1), f"u{dtype.itemsize}").view(dtype), out)
        return out

    return to_integer


def _from_float(parts: tuple[str, ...], to: str, source: str) -> Callable[[Array], Array]:
    mode = rounding(parts)
    integral = next((p for p in parts if p in ("rni", "rzi", "rmi", "rpi")), None)
    flushes, saturates = "ftz" in parts, "sat" in parts
    relu, finite = "relu" in parts, "satfinite" in parts

    def to_float(a: Array) -> Array:
        value = floats.decode(flush(a, source) if flushes and source == "f32" else a, source)
        if integral:
            value = floats.to_integer(value, floats.MODES[integral])
        if relu:
            value = np.where(value > 0, value, np.where(np.isnan(value), value, 0.0))
        out = floats.encode(value, to, "nearest" if integral else mode, finite)
        if flushes and to == "f32":
            out = flush(out, "f32")
        return saturate_unit(out) if saturates else out

    return to_float


# ---- two elements in one register
def _finish(value: Array, parts: tuple[str, ...]) -> Array:
    if "relu" in parts:
        return np.where(value > 0, value, np.where(np.isnan(value), value, 0.0))
    return value


def _pack_floats(instruction: Instruction, bind: Binding, to: str) -> Step:
    """cvt.f16x2.f32 d, a, b: a in the upper half, b in the lower."""
    parts, format = instruction.parts, _PAIRS[to]
    high, low = (bind.source(o, "f32") for o in instruction.operands[1:3])
    small = to in _SMALL_PAIRS
    bits = 4 if format == "e2m1" else 8 if small else 16
    put = bind.put(instruction.operands[0], {4: "b8", 8: "b16", 16: "b32"}[bits])
    mode = rounding(parts)
    finite = "satfinite" in parts
    flushes = "ftz" in parts

    def half(x: Array) -> Array:
        if format == "f16" and mode == "nearest" and len(parts) == 4:
            out = x.astype(np.float16).view(np.uint16)
            return np.where(np.isnan(x), np.uint16(0x7FFF), out) if np.isnan(x).any() else out
        value = _finish((flush(x, "f32") if flushes else x).astype(np.float64), parts)
        out = floats.encode(value, format, mode, finite)
        return out.view(np.uint16) if format == "f16" else out

    def step(on: Mask) -> None:
        joined = half(high).astype(np.uint32) << np.uint32(bits) | half(low).astype(np.uint32)
        put(joined, on)

    return step


def _small_pair(instruction: Instruction, bind: Binding, to: str, source: str) -> Step:
    """Between a pair of 8-bit (or smaller) floats and f16x2 or bf16x2."""
    parts = instruction.parts
    mode = rounding(parts)
    if source in _SMALL_PAIRS:
        return _widen_small_pair(instruction, bind, to, _SMALL_PAIRS[source])
    format = _SMALL_PAIRS[to]
    wide = _PAIRS[source]
    bits = 4 if format == "e2m1" else 8
    a = bind.source(instruction.operands[1], source)
    put = bind.put(instruction.operands[0], "b16" if bits == 8 else "b8")

    def narrow(on: Mask) -> None:
        value = _finish(floats.decode(a, wide), parts)
        code = floats.encode(value, format, mode, True).astype(np.uint16).reshape(-1, 2)
        put(code[:, 1] << np.uint16(bits) | code[:, 0], on)

    return narrow


def _widen_small_pair(instruction: Instruction, bind: Binding, to: str, format: str) -> Step:
    bits = 4 if format == "e2m1" else 8
    a = bind.source(instruction.operands[1], "b16" if bits == 8 else "b8")
    put, wide = bind.put(instruction.operands[0], to), _PAIRS[to]
    mask = np.uint16((1 << bits) - 1)

    def widen(on: Mask) -> None:
        code = np.stack(np.broadcast_arrays(a.astype(np.uint16) & mask, a.astype(np.uint16) >> np.uint16(bits)), -1)
        value = _finish(floats.decode(code.astype(np.uint8), format), instruction.parts)
        put(floats.encode(value, wide).reshape(-1), on)

    return widen


def _pack_integers(instruction: Instruction, bind: Binding) -> Step:
    """cvt.pack.sat: two s32 clamped into halves of d, with c shifted up (9.7.9.22)."""
    parts = instruction.parts
    if parts[3] not in ("u8", "s8", "u16", "s16"):
        raise bind.error(f"packing into {parts[3]} has no meaning here")
    to, source = DTYPE[parts[3]], "s32"
    info, bits = np.iinfo(to), 8 * to.itemsize
    a, b = (bind.source(o, source) for o in instruction.operands[1:3])
    c = bind.source(instruction.operands[3], "b32") if len(instruction.operands) == 4 else None
    put = bind.put(instruction.operands[0], "b32")
    ones = np.uint32((1 << bits) - 1)

    def step(on: Mask) -> None:
        x, y = (np.clip(v, info.min, info.max).astype(np.int64).astype(np.uint32) & ones for v in (a, b))
        joined = x << np.uint32(bits) | y
        if c is not None and 2 * bits < 32:
            joined = joined | c << np.uint32(2 * bits)
        put(joined, on)

    return step


