"""Meanings of integer and bit instructions (PTX ISA 9.7.1, 9.7.2, 9.7.7, 9.7.8).

Every meaning takes the instruction and the binding, and gives a step.  What PTX leaves undefined (division by zero)
gives all ones, as the hardware does.
Tests: tests/targets/nvidia/ptx/test_integer.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.binding import DTYPE, Binding, Mask, Step, elementwise
from tilewright.targets.nvidia.ptx.operands import Immediate, Instruction

Array = np.ndarray[Any, Any]
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def width(type: str) -> int:
    return DTYPE[type].itemsize * 8


def saturated(wide: Array, type: str) -> Array:
    """A result computed with room to spare, clamped to `type`."""
    info = np.iinfo(DTYPE[type])
    return np.clip(wide, info.min, info.max).astype(DTYPE[type])


def high_half(a: Array, b: Array, type: str) -> Array:
    """The upper half of a product (9.7.1.3)."""
    bits = width(type)
    if bits < 64:
        wide = np.int64 if type[0] == "s" else np.uint64
        return np.asarray((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(DTYPE[type])
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = np.broadcast_arrays(a.view(np.uint64), b.view(np.uint64))
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    top = x1 * y1 + (middle >> half) + ((middle & mask) + x0 * y1 >> half)
    if type[0] == "s":
        for sign, other in ((x, y), (y, x)):
            top = top - np.where(sign >> np.uint64(63) != 0, other, np.uint64(0))
    return np.asarray(top).view(DTYPE[type])


def product(parts: tuple[str, ...], type: str) -> Callable[[Array, Array], Array]:
    """mul.lo, mul.hi or mul.wide as a function."""
    if "wide" in parts:
        wide = DTYPE[_WIDER[type]]
        return lambda a, b: np.asarray(np.multiply(a.astype(wide), b.astype(wide)))
    if "hi" in parts:
        return lambda a, b: high_half(a, b, type)
    return lambda a, b: np.asarray(np.multiply(a, b))


def add_or_subtract(instruction: Instruction, bind: Binding) -> Step:
    """add, sub: wrapping, saturating (.sat, s32), with a carry out (.cc), packed 16-bit pairs."""
    parts, type = instruction.parts, instruction.parts[-1]
    operation: Any = np.add if parts[0] == "add" else np.subtract
    if "cc" in parts:
        return _with_carry(instruction, bind, carry_in=False)
    if "sat" in parts:
        def clamped(a: Array, b: Array) -> Array:
            return saturated(operation(a.astype(np.int64), b.astype(np.int64)), type)

        return elementwise(bind, instruction, clamped, type)
    return elementwise(bind, instruction, operation, type)


def add_or_subtract_with_carry(instruction: Instruction, bind: Binding) -> Step:
    """addc, subc (9.7.2): with the carry of the last .cc instruction."""
    return _with_carry(instruction, bind, carry_in=True)


def carry_flag(bind: Binding) -> Array:
    """The condition code register CC.CF, a flag a thread (9.7.2)."""
    if "CC" not in bind.registers:
        bind.registers["CC"] = np.zeros(bind.threads, bool)
    return bind.registers["CC"]


def _with_carry(instruction: Instruction, bind: Binding, carry_in: bool) -> Step:
    type, flag = instruction.parts[-1], carry_flag(bind)
    unsigned = "u" + type[1:]
    a, b = (bind.source(o, unsigned) for o in instruction.operands[1:])
    put = bind.put(instruction.operands[0], unsigned)
    adds, sets = instruction.parts[0].startswith("add"), "cc" in instruction.parts
    one = DTYPE[unsigned].type(1)

    def step(on: Mask) -> None:
        carry = flag if carry_in else np.zeros(bind.threads, bool)
        first = a + b if adds else a - b
        total = first + carry * one if adds else first - carry * one
        if sets:
            out = (first < a) | (total < first) if adds else (a < b) | (first < total)
            np.copyto(flag, out, where=True if on is None else on)
        put(total, on)

    return step


def multiply(instruction: Instruction, bind: Binding) -> Step:
    """mul.lo, .hi, .wide."""
    parts, type = instruction.parts, instruction.parts[-1]
    return elementwise(bind, instruction, product(parts, type), type, _WIDER[type] if "wide" in parts else type)


def multiply_add(instruction: Instruction, bind: Binding) -> Step:
    """mad.lo, .hi, .wide, with .sat and carries (9.7.1.4, 9.7.2.5)."""
    parts, type = instruction.parts, instruction.parts[-1]
    result = _WIDER[type] if "wide" in parts else type
    times = product(parts, type)
    if "cc" in parts or parts[0] == "madc":
        return _multiply_add_carry(instruction, bind, times)
    if "sat" in parts:
        return elementwise(bind, instruction,
                           lambda a, b, c: saturated(times(a, b).astype(np.int64) + c.astype(np.int64), type), type)
    return elementwise(bind, instruction, lambda a, b, c: times(a, b) + c, type, result, (type, type, result))


def _multiply_add_carry(instruction: Instruction, bind: Binding, times: Callable[[Array, Array], Array]) -> Step:
    type = instruction.parts[-1]
    unsigned, flag = "u" + type[1:], carry_flag(bind)
    a, b = (bind.source(o, type) for o in instruction.operands[1:3])
    c = bind.source(instruction.operands[3], unsigned)
    put = bind.put(instruction.operands[0], unsigned)
    carries_in, sets = instruction.parts[0] == "madc", "cc" in instruction.parts
    one = DTYPE[unsigned].type(1)

    def step(on: Mask) -> None:
        first = np.asarray(times(a, b)).view(DTYPE[unsigned]) + c
        total = first + flag * one if carries_in else first
        if sets:
            np.copyto(flag, (first < c) | (total < first), where=True if on is None else on)
        put(total, on)

    return step


def multiply_24(instruction: Instruction, bind: Binding) -> Step:
    """mul24, mad24 .lo and .hi: of the low 24 bits (9.7.1.5, 9.7.1.6)."""
    parts, type = instruction.parts, instruction.parts[-1]
    shift = 16 if "hi" in parts else 0

    def low24(x: Array) -> Array:
        wide = x.astype(np.int64)
        return ((wide << 40) >> 40) if type == "s32" else wide & 0xFFFFFF

    def times(a: Array, b: Array, c: Any = 0) -> Array:
        return ((low24(a) * low24(b) >> shift) + np.asarray(c).astype(np.int64)).astype(DTYPE[type])

    return elementwise(bind, instruction, times, type)


def sum_of_absolute_differences(instruction: Instruction, bind: Binding) -> Step:
    """sad: |a - b| + c (9.7.1.7)."""
    type = instruction.parts[-1]
    return elementwise(bind, instruction, lambda a, b, c: np.where(a < b, b - a, a - b) + c, type)


def divide(instruction: Instruction, bind: Binding) -> Step:
    """div, rem of integers: toward zero; by zero all ones, and the dividend (9.7.1.8, 9.7.1.9: unspecified)."""
    type = instruction.parts[-1]
    dtype, remainder = DTYPE[type], instruction.parts[0] == "rem"

    def quotient(a: Array, b: Array) -> Array:
        zero = b == 0
        safe = np.where(zero, dtype.type(1), b)
        q = a // safe
        if type[0] == "s":
            q = q + ((q * safe != a) & ((a < 0) != (safe < 0))).astype(dtype)
        if remainder:
            return np.where(zero, a, a - q * safe)
        return np.where(zero, dtype.type(-1) if type[0] == "s" else ~dtype.type(0), q)

    return elementwise(bind, instruction, quotient, type)


def absolute(instruction: Instruction, bind: Binding) -> Step:
    return elementwise(bind, instruction, np.abs, instruction.parts[-1])


def negate(instruction: Instruction, bind: Binding) -> Step:
    return elementwise(bind, instruction, np.negative, instruction.parts[-1])


def extremum(instruction: Instruction, bind: Binding) -> Step:
    """min, max of integers and packed pairs; .relu clamps at 0 (9.7.1.12, 9.7.1.13)."""
    parts, type = instruction.parts, instruction.parts[-1]
    operation: Any = np.minimum if parts[0] == "min" else np.maximum
    if "relu" in parts:
        return elementwise(bind, instruction, lambda a, b: np.maximum(operation(a, b), 0), type)
    return elementwise(bind, instruction, operation, type)


# ---- bits
_LOGIC: dict[str, Any] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def logic(instruction: Instruction, bind: Binding) -> Step:
    """and, or, xor, of bits and predicates (9.7.8.1 to .3)."""
    type = instruction.parts[-1]
    if type == "pred":
        a, b = (bind.predicate(o) for o in instruction.operands[1:])
        put, operation = bind.put(instruction.operands[0], "pred"), _LOGIC[instruction.parts[0]]
        return lambda on: put(operation(a(), b()), on)
    return elementwise(bind, instruction, _LOGIC[instruction.parts[0]], type)


def complement(instruction: Instruction, bind: Binding) -> Step:
    """not (and cnot: is it zero)."""
    type = instruction.parts[-1]
    if instruction.parts[0] == "cnot":
        return elementwise(bind, instruction, lambda a: a == 0, type)
    if type == "pred":
        a, put = bind.predicate(instruction.operands[1]), bind.put(instruction.operands[0], "pred")
        return lambda on: put(~a(), on)
    return elementwise(bind, instruction, np.invert, type)


def shift(instruction: Instruction, bind: Binding) -> Step:
    """shl, shr: a distance of the width or more gives 0, or the sign (9.7.8.8, 9.7.8.9)."""
    type = instruction.parts[-1]
    dtype, bits, left = DTYPE[type], width(type), instruction.parts[0] == "shl"
    operation: Any = np.left_shift if left else np.right_shift
    distance = instruction.operands[2]
    if isinstance(distance, Immediate) and 0 <= distance.value < bits:
        by = np.array(distance.value, dtype)
        a, put = bind.source(instruction.operands[1], type), bind.put(instruction.operands[0], type)
        return lambda on: put(operation(a, by), on)

    def shifted(a: Array, by: Array) -> Array:
        if type[0] == "s" and not left:
            return np.asarray(np.right_shift(a, np.minimum(by, bits - 1).astype(dtype)))
        return np.asarray(np.where(by < bits, operation(a, np.minimum(by, bits - 1).astype(dtype)), dtype.type(0)))

    return elementwise(bind, instruction, shifted, type, types=(type, "u32"))


def funnel_shift(instruction: Instruction, bind: Binding) -> Step:
    """shf.l, shf.r with .wrap or .clamp, of the pair b:a (9.7.8.7)."""
    left, wrap = "l" in instruction.parts, "wrap" in instruction.parts

    def shifted(a: Array, b: Array, by: Array) -> Array:
        distance = (by & np.uint32(31) if wrap else np.minimum(by, np.uint32(32))).astype(np.uint64)
        pair = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        if left:
            return ((pair << distance) >> np.uint64(32)).astype(np.uint32) if wrap else \
                np.where(distance == 32, a, ((pair << distance) >> np.uint64(32)).astype(np.uint32))
        return (pair >> distance).astype(np.uint32)

    return elementwise(bind, instruction, shifted, "b32", types=("b32", "b32", "u32"))


def three_input_logic(instruction: Instruction, bind: Binding) -> Step:
    """lop3: any function of three bits, given by its table; with a predicate result or-ed in (9.7.8.6)."""
    table = instruction.operands[4]
    if not isinstance(table, Immediate) or len(instruction.parts) > 2:
        raise bind.error("takes a constant table, and no boolean operation, here")
    a, b, c = (bind.source(o, "b32") for o in instruction.operands[1:4])
    put, entries = bind.put(instruction.operands[0], "b32"), [i for i in range(8) if table.value >> i & 1]

    def step(on: Mask) -> None:
        out = np.zeros(bind.threads, np.uint32)
        for entry in entries:
            out |= (a if entry & 4 else ~a) & (b if entry & 2 else ~b) & (c if entry & 1 else ~c)
        put(out, on)

    return step


def bits_set(a: Array) -> Array:
    """The number of bits set, as uint32."""
    raw = np.ascontiguousarray(a)
    counts = np.unpackbits(raw.reshape(-1, 1).view(np.uint8), axis=1).sum(1, dtype=np.uint32)
    return np.asarray(counts.reshape(raw.shape))


def leading_zeros(a: Array) -> Array:
    """Zeros above the highest set bit of unsigned `a`, as uint32."""
    bits = a.dtype.itemsize * 8
    high = np.zeros(a.shape, np.int64)
    rest = a.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        more = rest >> np.uint64(step) != 0
        high += more * step
        rest = np.where(more, rest >> np.uint64(step), rest)
    return np.asarray((bits - 1 - high + (a == 0)).astype(np.uint32))


def population_count(instruction: Instruction, bind: Binding) -> Step:
    return elementwise(bind, instruction, bits_set, instruction.parts[-1], "u32")


def count_leading_zeros(instruction: Instruction, bind: Binding) -> Step:
    return elementwise(bind, instruction, leading_zeros, instruction.parts[-1], "u32")


def find_leading_bit(instruction: Instruction, bind: Binding) -> Step:
    """bfind: the highest bit that is not the sign, or ~0; .shiftamt: how far to shift it up (9.7.1.16)."""
    type = instruction.parts[-1]
    bits, amount = width(type), "shiftamt" in instruction.parts

    def find(a: Array) -> Array:
        plain = np.where(a < 0, ~a, a).astype("u" + str(bits // 8)) if type[0] == "s" else a
        zeros = leading_zeros(plain)
        found = zeros if amount else np.uint32(bits - 1) - zeros
        return np.where(plain == 0, np.uint32(0xFFFFFFFF), found)

    return elementwise(bind, instruction, find, type, "u32")


def reverse_bits(instruction: Instruction, bind: Binding) -> Step:
    type = instruction.parts[-1]

    def reverse(a: Array) -> Array:
        raw = np.unpackbits(np.ascontiguousarray(a).reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
        return np.packbits(raw[:, ::-1], axis=1, bitorder="little").view(DTYPE[type]).reshape(np.shape(a))

    return elementwise(bind, instruction, reverse, type)


def extract_field(instruction: Instruction, bind: Binding) -> Step:
    """bfe: bits of `a` from b & 255, c & 255 many, extended (9.7.1.18)."""
    type = instruction.parts[-1]
    bits, dtype = width(type), DTYPE[type]
    unsigned = np.dtype(f"u{bits // 8}")

    def extract(a: Array, position: Array, length: Array) -> Array:
        start, count = (position & 255).astype(np.int64), (length & 255).astype(np.int64)
        shifted = np.where(start >= bits, 0, a.view(unsigned) >> np.minimum(start, bits - 1).astype(unsigned))
        mask = np.where(count >= bits, ~unsigned.type(0),
                        (unsigned.type(1) << np.minimum(count, bits - 1).astype(unsigned)) - unsigned.type(1))
        field = shifted.astype(unsigned) & mask
        if type[0] == "s":
            sign_at = np.minimum(start + count - 1, bits - 1)
            sign = (a.view(unsigned) >> np.maximum(sign_at, 0).astype(unsigned) & unsigned.type(1)) != 0
            fill = np.minimum(np.maximum(bits - start, 0), count)       # bits above the register's are the sign's
            low = np.where(fill >= bits, ~unsigned.type(0),
                           (unsigned.type(1) << np.minimum(fill, bits - 1).astype(unsigned)) - unsigned.type(1))
            field = np.where(sign & (count > 0), field & low | ~low, field & low)
        return np.asarray(field).astype(unsigned).view(dtype)

    return elementwise(bind, instruction, extract, type, types=(type, "u32", "u32"))


def insert_field(instruction: Instruction, bind: Binding) -> Step:
    """bfi: the low d bits of `a` into `b` at c (9.7.1.19)."""
    type = instruction.parts[-1]
    bits, dtype = width(type), DTYPE[type]

    def insert(a: Array, b: Array, position: Array, length: Array) -> Array:
        start, count = (position & 255).astype(np.int64), (length & 255).astype(np.int64)
        ones = np.where(count >= bits, ~dtype.type(0),
                        (dtype.type(1) << np.minimum(count, bits - 1).astype(dtype)) - dtype.type(1)).astype(dtype)
        by = np.minimum(start, bits - 1).astype(dtype)
        mask = np.where(start >= bits, dtype.type(0), ones << by)
        return np.asarray(b & ~mask | np.where(start >= bits, dtype.type(0), a << by) & mask)

    return elementwise(bind, instruction, insert, type, types=(type, type, "u32", "u32"))


def bit_mask(instruction: Instruction, bind: Binding) -> Step:
    """bmsk.clamp, .wrap: b ones from bit a (9.7.8.11)."""
    wrap = "wrap" in instruction.parts

    def mask(a: Array, b: Array) -> Array:
        start, count = a.astype(np.uint64), b.astype(np.uint64)
        limit = np.uint64(32)
        start, count = (start & np.uint64(31), count & np.uint64(31)) if wrap else \
            (np.minimum(start, limit), np.minimum(count, limit))
        return (((np.uint64(1) << count) - np.uint64(1)) << start).astype(np.uint32)

    return elementwise(bind, instruction, mask, "b32")


def extend(instruction: Instruction, bind: Binding) -> Step:
    """szext: from b bits, with zeros or the sign (9.7.8.10)."""
    type, wrap = instruction.parts[-1], "wrap" in instruction.parts

    def extended(a: Array, b: Array) -> Array:
        count = (b & np.uint32(31)).astype(np.int64) if wrap else np.minimum(b, 32).astype(np.int64)
        low = a.astype(np.int64) & ((np.int64(1) << count) - 1)
        if type == "s32":
            low = np.where((count > 0) & (low >> np.maximum(count - 1, 0) & 1 != 0), low - (np.int64(1) << count), low)
        return low.astype(DTYPE[type])

    return elementwise(bind, instruction, extended, type, types=(type, "u32"))


def permute_bytes(instruction: Instruction, bind: Binding) -> Step:
    """prmt, and its modes (9.7.9.7)."""
    mode = instruction.parts[-1] if instruction.parts[-1] != "b32" else ""
    if mode:
        return elementwise(bind, instruction, lambda a, b, c: _permute_mode(a, b, c, mode), "b32")
    selector = instruction.operands[3]
    if isinstance(selector, Immediate) and selector.value & 0x8888 == 0:
        return _permute_fixed(instruction, bind, selector.value)

    def permute(a: Array, b: Array, c: Array) -> Array:
        pair = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        out = np.zeros(np.broadcast(a, b, c).shape, np.uint32)
        for i in range(4):
            pick = c >> np.uint32(4 * i) & np.uint32(15)
            byte = (pair >> ((pick & np.uint32(7)) * np.uint32(8)).astype(np.uint64) & np.uint64(255)).astype(np.uint32)
            byte = np.where(pick & 8 != 0, np.where(byte & 128 != 0, np.uint32(255), np.uint32(0)), byte)
            out = out | byte << np.uint32(8 * i)
        return out

    return elementwise(bind, instruction, permute, "b32")


def _permute_fixed(instruction: Instruction, bind: Binding, selector: int) -> Step:
    """A constant selector without sign copies: a shuffle of eight bytes."""
    a, b = (bind.source(o, "b32") for o in instruction.operands[1:3])
    put, order = bind.put(instruction.operands[0], "b32"), [selector >> 4 * i & 7 for i in range(4)]
    pair = np.empty((bind.threads, 2), np.uint32)

    def step(on: Mask) -> None:
        pair[:, 0] = a
        pair[:, 1] = b
        put(np.ascontiguousarray(pair.view(np.uint8)[:, order]).view(np.uint32)[:, 0], on)

    return step


def _permute_mode(a: Array, b: Array, c: Array, mode: str) -> Array:
    at = c.astype(np.int64) & 3
    pair = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)

    def byte(index: Array) -> Array:
        return (pair >> (8 * (index & 7)).astype(np.uint64) & np.uint64(255)).astype(np.uint32)

    picks = {
        "f4e": [at, at + 1, at + 2, at + 3], "b4e": [at, at - 1, at - 2, at - 3], "rc8": [at] * 4,
        "ecl": [np.maximum(at, i) for i in range(4)], "ecr": [np.minimum(at, i) for i in range(4)],
        "rc16": [(at & 1) * 2, (at & 1) * 2 + 1] * 2,
    }[mode]
    out = np.zeros_like(byte(at))
    for i, pick in enumerate(picks):
        out = out | byte(pick) << np.uint32(8 * i)
    return out


def dot_product(instruction: Instruction, bind: Binding) -> Step:
    """dp4a, dp2a (9.7.1.22, 9.7.1.23)."""
    parts, signs = instruction.parts, instruction.parts[-2:]
    a, b = (np.int8 if s == "s32" else np.uint8 for s in signs)
    a2 = np.int16 if signs[0] == "s32" else np.uint16
    result = "s32" if "s32" in signs else "u32"
    low = 0 if "lo" in parts else 2

    def dot(x: Array, y: Array, c: Array) -> Array:
        x, y = (np.ascontiguousarray(np.broadcast_to(v, bind.threads)) for v in (x, y))
        if parts[0] == "dp4a":
            terms = x.view(a).reshape(-1, 4).astype(np.int64) * y.view(b).reshape(-1, 4).astype(np.int64)
        else:
            halves, bytes_ = x.view(a2).reshape(-1, 2), y.view(b).reshape(-1, 4)[:, low:low + 2]
            terms = halves.astype(np.int64) * bytes_.astype(np.int64)
        return np.asarray((c.astype(np.int64) + terms.sum(1)).astype(DTYPE[result]))

    return elementwise(bind, instruction, dot, "u32", result, ("u32", "u32", result))
