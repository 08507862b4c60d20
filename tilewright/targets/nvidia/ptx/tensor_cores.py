"""Meanings of mma.sync, ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14).

Products are exact and sums are rounded once, from float64: more exact than the hardware.  tf32 operands lose the bits
that the hardware does not read.
Tests: tests/targets/nvidia/ptx/test_tensor_cores.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx import floats
from tilewright.targets.nvidia.ptx.access import memory_of
from tilewright.targets.nvidia.ptx.binding import Binding, Control, Mask
from tilewright.targets.nvidia.ptx.counting import count_access
from tilewright.targets.nvidia.ptx.fragments import a_places, b_places, c_places
from tilewright.targets.nvidia.ptx.operands import Instruction, Operand
from tilewright.targets.nvidia.ptx.warp import meeting

Array = np.ndarray[Any, Any]
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f64": 64}
# shape -> types of A
_SHAPES = {
    (16, 8, 4): ("tf32", "f64"), (16, 8, 8): ("f16", "bf16", "tf32", "f64"),
    (16, 8, 16): ("f16", "bf16", "s8", "u8", "e4m3", "e5m2", "f64"),
    (16, 8, 32): ("s8", "u8", "e4m3", "e5m2", "s4", "u4"),
    (16, 8, 64): ("s4", "u4"), (8, 8, 4): ("f64",), (8, 8, 16): ("s8", "u8"), (8, 8, 32): ("s4", "u4"),
    (8, 8, 128): ("b1",), (16, 8, 128): ("b1",), (16, 8, 256): ("b1",),
}


def elements(raw: Array, type: str) -> Array:
    """32-bit (or 64-bit) registers, last axis, as numbers of `type`: float64, or int64 for integers."""
    if type == "f64":
        return raw.view(np.float64)
    if type == "f16":
        return raw.view(np.float16).astype(np.float64)
    if type == "bf16":
        return floats.decode(raw.view(np.uint16), "bf16")
    if type == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if type in ("e4m3", "e5m2"):
        return floats.decode(raw.view(np.uint8), type)
    if type in ("s8", "u8"):
        return raw.view(np.int8 if type == "s8" else np.uint8).astype(np.int64)
    if type in ("s4", "u4"):
        bytes_ = raw.view(np.uint8)
        halves = np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(*bytes_.shape[:-1], -1).astype(np.int64)
        return np.where((halves > 7) & (type == "s4"), halves - 16, halves)
    return np.unpackbits(raw.view(np.uint8), axis=-1, bitorder="little").astype(np.int64)


class Registers:
    """Registers of a fragment as [warps, 32, registers], gathered when asked."""

    def __init__(self, bind: Binding, operand: Operand, bits: int = 32) -> None:
        self.sources = [bind.source(item, f"b{bits}") for item in bind.items(operand)]
        self.buffer = np.empty((bind.threads, len(self.sources)), f"u{bits // 8}")

    def gather(self) -> Array:
        for i, source in enumerate(self.sources):
            self.buffer[:, i] = source
        return self.buffer.reshape(-1, 32, len(self.sources))


def multiply_accumulate(instruction: Instruction, bind: Binding) -> Control:
    """mma.sync: D = A B + C, one tile a warp."""
    parts = instruction.parts
    shape = next((s for p in parts if (s := _SHAPE.match(p))), None)
    if shape is None or "sp" in parts or any(p.startswith("kind") for p in parts) or "row" not in parts:
        raise bind.error("has no meaning here (sparse, block-scaled)")
    m, n, k = (int(x) for x in shape.groups())
    types = [p for p in parts[parts.index("col") + 1:] if p in (*BITS, "f32", "s32")]
    if len(types) != 4 or types[1] not in _SHAPES.get((m, n, k), ()):
        raise bind.error(f"there is no such product of {m}x{n}x{k}")
    d_type, a_type, b_type, c_type = types
    read_a, read_b = _operands(instruction, bind, (m, n, k), a_type, b_type)
    read_c = _accumulator(bind, instruction.operands[3], m, n, c_type)
    write = _result(bind, instruction.operands[0], m, n, d_type, "satfinite" in parts)
    counters, warps = bind.cta.launch.counters, bind.cta.warps
    logical = next((p for p in ("xor", "and") if p in parts), "") if a_type == "b1" else ""

    def act(on: Mask) -> None:
        counters.counts["mma"] += warps if on is None else int(np.count_nonzero(on)) // 32
        a, b = read_a(), read_b()
        if logical:
            joined = a[:, :, :, None] ^ b[:, None] if logical == "xor" else a[:, :, :, None] & b[:, None]
            product = joined.sum(2)
        else:
            product = a @ b
        write(product + read_c(), on)

    return meeting(bind, None, act)


def _operands(instruction: Instruction, bind: Binding, shape: tuple[int, int, int], a_type: str,
              b_type: str) -> tuple[Callable[[], Array], Callable[[], Array]]:
    m, n, k = shape
    bits = BITS[a_type]
    width = 64 if a_type == "f64" else 32
    per = width // bits
    a, b = Registers(bind, instruction.operands[1], width), Registers(bind, instruction.operands[2], width)
    at_a, at_b = a_places(m, k, per), b_places(k, n, per)
    if 32 * len(a.sources) * per != m * k or 32 * len(b.sources) * per != k * n:
        raise bind.error(f"{len(a.sources)} and {len(b.sources)} registers do not hold {m}x{k} and {k}x{n}")

    def read_a() -> Array:
        return elements(a.gather(), a_type).reshape(-1, m * k)[:, at_a]

    def read_b() -> Array:
        return elements(b.gather(), b_type).reshape(-1, k * n)[:, at_b]

    return read_a, read_b


def _accumulator(bind: Binding, operand: Operand, m: int, n: int, type: str) -> Callable[[], Array]:
    """C as [warps, m, n]."""
    width = 64 if type == "f64" else 32
    registers = Registers(bind, operand, width)
    place = c_places(m, n, 2 if type == "f16" else 1).reshape(-1)
    inverse = np.argsort(place, kind="stable")
    if len(place) != 32 * len(registers.sources) * (2 if type == "f16" else 1):
        raise bind.error(f"{len(registers.sources)} registers do not hold {m}x{n} {type}")

    def read() -> Array:
        raw = registers.gather()
        if type == "f16":
            value = raw.view(np.float16).astype(np.float64)
        elif type == "s32":
            value = raw.view(np.int32).astype(np.int64)
        else:
            value = raw.view(np.float32).astype(np.float64) if type == "f32" else raw.view(np.float64)
        return value.reshape(len(raw), -1)[:, inverse].reshape(-1, m, n)

    return read


def encode_result(value: Array, type: str, saturate: bool) -> Array:
    """float64 or int64 sums as unsigned registers' elements."""
    if type == "s32":
        if saturate:
            value = np.clip(value, -(2**31), 2**31 - 1)
        return value.astype(np.uint32)
    if type == "f64":
        return value.view(np.uint64)
    if type == "f16":
        return value.astype(np.float16).view(np.uint16)
    return value.astype(np.float32).view(np.uint32)


def _result(bind: Binding, operand: Operand, m: int, n: int, type: str,
            saturate: bool) -> Callable[[Array, Mask], None]:
    per = 2 if type == "f16" else 1
    puts = [bind.put(item, "b64" if type == "f64" else "b32") for item in bind.items(operand)]
    if 32 * len(puts) * per != m * n:
        raise bind.error(f"{len(puts)} registers do not hold {m}x{n} {type}")
    place = c_places(m, n, per).reshape(-1)

    def write(value: Array, on: Mask) -> None:
        raw = encode_result(value, type, saturate)
        flat = np.ascontiguousarray(raw.reshape(len(raw), -1)[:, place])
        if per == 2:
            flat = flat.view(np.uint32)
        columns = flat.reshape(len(raw) * 32, -1)
        for i, put in enumerate(puts):
            put(columns[:, i], on)

    return write


# ---- matrices of 8x8 between shared memory and fragments
def _matrices(instruction: Instruction, bind: Binding) -> int:
    parts = instruction.parts
    if "m8n8" not in parts or parts[-1] != "b16":
        raise bind.error("moves matrices m8n8 of b16 here")
    return next(int(p[1:]) for p in parts if p in ("x1", "x2", "x4"))


def load_matrix(instruction: Instruction, bind: Binding) -> Control:
    """ldmatrix: lane l gives the address of row l % 8 of matrix l / 8."""
    cta, count = bind.cta, _matrices(instruction, bind)
    address, memory = bind.address(instruction.operands[1]), memory_of(instruction, bind, instruction.operands[1])
    puts = [bind.put(item, "b32") for item in bind.items(instruction.operands[0])]
    if len(puts) != count:
        raise bind.error(f"x{count} takes {count} registers, got {len(puts)}")
    transposed = "trans" in instruction.parts
    giving = (cta.ids & 31) < 8 * count
    counted, line = cta.launch.checks.memory_counters, instruction.line

    def act(on: Mask) -> None:
        lanes = giving if on is None else giving & on
        threads = cta.ids[lanes]
        where = address()[lanes]
        if counted:
            count_access(cta.launch.counters, memory.space, "load", where, 16, threads, line)
        rows = memory.read(where, threads, 4, 4).reshape(-1, count, 8, 4)
        if transposed:
            rows = np.ascontiguousarray(rows.view(np.uint16).swapaxes(2, 3)).view(np.uint32)
        words = rows.reshape(-1, count, 32)
        if on is not None:
            whole = np.zeros((cta.warps, count, 32), np.uint32)
            whole[on.reshape(-1, 32).any(1)] = words
            words = whole
        for i, put in enumerate(puts):
            put(words[:, i].reshape(-1), on)

    return meeting(bind, None, act)


def store_matrix(instruction: Instruction, bind: Binding) -> Control:
    """stmatrix: the other way."""
    cta, count = bind.cta, _matrices(instruction, bind)
    address, memory = bind.address(instruction.operands[0]), memory_of(instruction, bind, instruction.operands[0])
    registers = Registers(bind, instruction.operands[1])
    if len(registers.sources) != count:
        raise bind.error(f"x{count} takes {count} registers, got {len(registers.sources)}")
    transposed = "trans" in instruction.parts
    giving = (cta.ids & 31) < 8 * count
    counted, line = cta.launch.checks.memory_counters, instruction.line

    def act(on: Mask) -> None:
        rows = np.ascontiguousarray(registers.gather().swapaxes(1, 2)).reshape(-1, count, 8, 4)
        if transposed:
            rows = np.ascontiguousarray(rows.view(np.uint16).swapaxes(2, 3)).view(np.uint32)
        lanes = giving if on is None else giving & on
        if on is not None:
            rows = rows[on.reshape(-1, 32).any(1)]
        where, threads = address()[lanes], cta.ids[lanes]
        if counted:
            count_access(cta.launch.counters, memory.space, "store", where, 16, threads, line)
        memory.write(where, threads, rows.reshape(-1, 4))

    return meeting(bind, None, act)


def move_matrix(instruction: Instruction, bind: Binding) -> Control:
    """movmatrix: an 8x8 matrix of 16 bits transposed across the warp."""
    source, put = Registers(bind, instruction.operands[1]), bind.put(instruction.operands[0], "b32")

    def act(on: Mask) -> None:
        rows = source.gather().reshape(-1, 8, 4).view(np.uint16)
        put(np.ascontiguousarray(rows.swapaxes(1, 2)).view(np.uint32).reshape(-1), on)

    return meeting(bind, None, act)
