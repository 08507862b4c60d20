"""Instructions of AVX-512 that do at once what takes several elsewhere.

`serves(f, t)` says whether they exist for a type: whole registers of f32 or f64.  Who uses them has a form with the
same bits for other machines and lane counts.  Semantics: Intel, Software Developer's Manual, VRANGEPS and VSCALEFPS.
Tests: tests/targets/llvm/test_minmax.py, test_mathlib.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import I32, Type, Value, constant, constant_lanes

_BITS = (128, 256, 512)
_SUFFIX = {"float": "ps", "double": "pd"}
_CURRENT_ROUNDING = 4

MINIMUM, MAXIMUM, LEAST_MAGNITUDE = 0b0100, 0b0101, 0b0010     # the last one keeps the first operand's sign


def serves(f: FunctionWriter, t: Type) -> bool:
    """Whether the functions here take values of type `t`."""
    return f.isa.avx512 and t.element in _SUFFIX and t.lanes * t.bits in _BITS


def _call(f: FunctionWriter, name: str, a: Value, b: Value, *control: Value) -> Value:
    """A masked intrinsic with every lane on."""
    t = a.type
    size = t.lanes * t.bits
    on = constant(Type(f"i{max(8, t.lanes)}"), -1)
    args = [a, b, *control, Value(t, "poison"), on]
    if size == 512:
        args.append(constant(I32, _CURRENT_ROUNDING))
    full = f"llvm.x86.avx512.mask.{name}.{_SUFFIX[t.element]}.{size}"
    f.module.declare(full, t, [v.type for v in args])
    return f.call(full, t, args)


def scale(f: FunctionWriter, p: Value, n: Value) -> Value:
    """p * 2**n with one rounding, for a float n that is whole, infinite (infinity or 0 results) or NaN."""
    return _call(f, "scalef", p, n)


def can_permute(f: FunctionWriter, t: Type) -> bool:
    """Whether `permute` takes whole registers of type `t`."""
    return t.lanes * t.bits == 512 and ((t.element == "i16" and f.isa.avx512) or (t.element == "i8" and f.isa.vbmi))


def permute(f: FunctionWriter, a: Value, lanes: Sequence[int]) -> Value:
    """Lanes of `a` picked by number, in one instruction: LLVM takes a shuffle apart into cheaper looking ones."""
    name = f"llvm.x86.avx512.permvar.{'qi' if a.type.element == 'i8' else 'hi'}.512"
    args = [a, constant_lanes(a.type.element, lanes)]
    f.module.declare(name, a.type, [a.type, a.type])
    return f.call(name, a.type, args)


def has_high_halves(f: FunctionWriter, t: Type) -> bool:
    """Whether `high_halves` takes whole registers of type `t`."""
    return t == Type("i32", 16) and f.isa.vbmi


def high_halves(f: FunctionWriter, a: Value) -> Value:
    """The upper 16 bits of each lane, in one instruction: LLVM shifts, and narrows in two."""
    wide = [b for lane in range(16) for b in (4 * lane + 2, 4 * lane + 3)]
    both = permute(f, f.bitcast(a, Type("i8", 64)), wide * 2)
    return f.bitcast(f.shuffle(both, both, range(32)), Type("i16", 16))


def pick(f: FunctionWriter, table: Value, index: Value) -> Value:
    """Lane by lane the element of a table of 16 floats that the low four bits of `index` name."""
    name = "llvm.x86.avx512.permvar.sf.512"
    f.module.declare(name, table.type, [table.type, index.type])
    return f.call(name, table.type, [table, index])


def select_by_size(f: FunctionWriter, a: Value, b: Value, which: int) -> Value:
    """The lesser or greater of two numbers, -0 being less than +0; of a quiet NaN and a number the number."""
    return _call(f, "range", a, b, constant(I32, which))


def kept_small(f: FunctionWriter, r: Value) -> Value:
    """`r` where it is the rest of an argument; where that was infinite or far out, and `r` is noise, 1/2 or less.

    The power of two that multiplies what is made of it decides there, if that is positive and finite.
    """
    return select_by_size(f, r, constant(r.type, 0.5), LEAST_MAGNITUDE)


def by_registers(f: FunctionWriter, x: Value, function: Callable[[Value], Value]) -> Value:
    """`function`, which takes whole registers of f32, of a scalar or any number of lanes (a power of two)."""
    lanes, whole = x.type.lanes, 512 // x.type.bits
    if lanes == whole:
        return function(x)
    if not lanes:
        return f.extract(function(f.splat(x, whole)), 0)
    if lanes < whole:
        filled = f.shuffle(x, x, [k if k < lanes else -1 for k in range(whole)])
        return f.shuffle(function(filled), filled, range(lanes))
    half = lanes // 2
    low, high = (by_registers(f, f.shuffle(x, x, range(start, start + half)), function) for start in (0, half))
    return f.shuffle(low, high, range(lanes))
