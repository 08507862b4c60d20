"""Carrying out what `layout.plan` decides: a tile's registers in another layout.

Register numbers, lanes and offsets that depend on the thread are xors of constants with images of its lane and warp
bits.  A register chosen by the thread is found by one row of selects for each bit that may differ.  A trip through
shared memory stores and loads in the vectors or matrices of its plan, between barriers.
Before: a `convert` of laid-out IR.  After: its result is bound.  Tests: tests/targets/nvidia/test_conversion.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op
from tilewright.ir.types import Element, element_of
from tilewright.layout import f2
from tilewright.layout.access import Access, Form
from tilewright.layout.linear import LANE, REGISTER, WARP
from tilewright.layout.plan import Plan
from tilewright.layout.shuffle import Moves, Shuffles
from tilewright.targets.llvm.types import I32, I64, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import Words, as_bits, from_bits
from tilewright.targets.nvidia.emit.code import ALL_LANES, LANE_BITS
from tilewright.targets.nvidia.scratch import way_of
from tilewright.targets.nvidia.state import Kernel, Registers

_MATRICES = {Form.MATRIX: "", Form.TRANSPOSED: ".trans"}
_WIDE = 8       # bytes of an element that takes two shuffles


def convert(kernel: Kernel, op: Op) -> None:
    """A `convert`."""
    source, result = op.operands[0], op.result
    element = element_of(source.type)
    way = way_of(kernel.capability, layout_of(source), layout_of(result), element)
    kernel.bind(result, converted(kernel, op, way, kernel.registers(source), element))


def converted(kernel: Kernel, op: Op, way: Plan, registers: Registers, element: Element) -> Registers:
    """The registers of the destination of `way`, through the scratch of `op` if it takes any."""
    if way.moves is not None:
        return _moved(kernel, way.moves, registers)
    if way.shuffles is not None:
        return _shuffled(kernel, way.shuffles, registers, way.dst.size(REGISTER), element)
    if way.trip is None:
        return registers
    found: list[LlvmValue | None] = [None] * way.dst.size(REGISTER)
    for piece in way.pieces:
        base = kernel.shared.begin(op).address
        stored(kernel, way, base, tuple(registers[r] for r in piece.take), element)
        kernel.shared.meet()
        loads = Loads(kernel, way.trip.load, base, element)
        for to, copy in zip(piece.put, way.trip.load.copies, strict=True):
            found[to] = loads.with_register(copy)[copy]
    return tuple(v for v in found if v is not None)


# --- inside a thread


def _by_thread(kernel: Kernel, by_lane: Sequence[int], by_warp: Sequence[int], scale: int = 1) -> LlvmValue:
    """The xor of the images of this thread's lane and warp bits, times `scale` (a power of two)."""
    lanes = (*by_lane, *(0,) * (LANE_BITS - len(by_lane)))
    return kernel.code.of_thread(tuple(b * scale for b in (*lanes, *by_warp)))


def _xored(kernel: Kernel, registers: Registers, number: LlvmValue, may: int) -> Registers:
    """Register r of the result is register r ^ `number`, a number of this thread in which only bits of `may` are set.
    """
    code = kernel.code
    for bit in f2.bits_of(may):
        is_set = code.icmp("ne", code.op("and", number, constant(I32, 1 << bit)), constant(I32, 0))
        registers = tuple(_either(kernel, is_set, registers[r ^ 1 << bit], v) for r, v in enumerate(registers))
    return registers


def _either(kernel: Kernel, condition: LlvmValue, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    return a if a == b else kernel.code.select(condition, a, b)


def _union(*columns: Sequence[int]) -> int:
    total = 0
    for each in columns:
        for b in each:
            total |= b
    return total


def _moved(kernel: Kernel, moves: Moves, registers: Registers) -> Registers:
    may = _union(moves.by_lane, moves.by_warp)
    if may:
        registers = _xored(kernel, registers, _by_thread(kernel, moves.by_lane, moves.by_warp), may)
    return tuple(registers[r] for r in moves.take)


# --- inside a warp


def _shuffled(kernel: Kernel, way: Shuffles, registers: Registers, count: int, element: Element) -> Registers:
    may = _union(way.take_by_lane, way.take_by_warp)
    if may:
        registers = _xored(kernel, registers, _by_thread(kernel, way.take_by_lane, way.take_by_warp), may)
    found = [registers[0]] * count
    for r in way.rounds:
        sent = [registers[t] for t in r.take]
        for to, value in zip(r.put, _sent(kernel, way, r.lane, sent, element) if r.moves else sent, strict=True):
            found[to] = value
    put = _union(way.put_by_lane)
    filled = _xored(kernel, tuple(found), _by_thread(kernel, way.put_by_lane, ()), put) if put else found
    return tuple(filled[c] for c in way.copies)


def _sent(kernel: Kernel, way: Shuffles, lane: int, values: Sequence[LlvmValue], element: Element) -> list[LlvmValue]:
    """What each lane receives when all send `values`, 32 bits or one element of 64 together."""
    code = kernel.code
    if element.bytes == _WIDE:
        (value,) = values
        bits = as_bits(kernel, value, I64)
        halves = [code.cast("trunc", code.op("lshr", bits, constant(I64, s)), I32) for s in (0, 32)]
        low, high = (code.cast("zext", _exchanged(kernel, way, lane, h), I64) for h in halves)
        return [from_bits(kernel, code.op("or", low, code.op("shl", high, constant(I64, 32))), element)]
    words = Words(element, len(values))
    (word,) = words.pack(kernel, values)
    received = _exchanged(kernel, way, lane, code.cast("zext", code.bitcast(word, word.type.as_int), I32))
    return words.unpack(kernel, [code.bitcast(code.cast("trunc", received, words.word.as_int), words.word)])


def _exchanged(kernel: Kernel, way: Shuffles, lane: int, word: LlvmValue) -> LlvmValue:
    code = kernel.code
    everybody, last = constant(I32, ALL_LANES), constant(I32, 31)
    if way.butterfly:
        return code.machine("shuffle_xor", [I32], [everybody, word, constant(I32, lane), last])[0]
    peer = code.op("xor", _by_thread(kernel, way.from_by_lane, way.from_by_warp), constant(I32, lane))
    return code.machine("shuffle_from", [I32], [everybody, word, peer, last])[0]


# --- through shared memory


def _addresses(kernel: Kernel, access: Access, base: LlvmValue, element: Element) -> list[LlvmValue]:
    """This thread's address in each step."""
    code = kernel.code
    place = _by_thread(kernel, access.by_lane, access.by_warp, element.bytes)
    moved = _union(access.by_lane, access.by_warp) * element.bytes
    found = []
    for step in access.steps:
        offset = step.offset * element.bytes
        if offset & moved:
            found.append(code.op("add", base, code.op("xor", place, constant(I32, offset))))
        else:
            start = code.op("add", base, place)
            found.append(code.op("add", start, constant(I32, offset)) if offset else start)
    return found


def _words(access: Access, element: Element) -> Words:
    """How the registers of one instruction travel."""
    return Words(element, access.width if access.form is Form.VECTOR else len(access.steps[0].registers))


def stored(kernel: Kernel, way: Plan, base: LlvmValue, registers: Registers, element: Element) -> None:
    """The store of a trip (of one piece), without barriers."""
    assert way.trip is not None
    if way.trip.spread is not None:
        registers = _moved(kernel, way.trip.spread, registers)
    write_registers(kernel, way.trip.store, base, registers, element)


def write_registers(kernel: Kernel, access: Access, base: LlvmValue, registers: Registers, element: Element) -> None:
    """Registers of a tile written to shared memory at `base`, without barriers."""
    guard = kernel.code.thread_flag({LANE: access.idle_lanes, WARP: access.idle_warps})
    words = _words(access, element)
    for step, address in zip(access.steps, _addresses(kernel, access, base, element), strict=True):
        packed = words.pack(kernel, [registers[r] for r in step.registers])
        if access.form is Form.VECTOR:
            kernel.code.machine("st", [], [address, *packed], guard=guard, space=".shared", hints="",
                                vector=words.vector, kind=words.kind)
        else:
            kernel.code.machine("stmatrix", [], [address, *packed], guard=guard, count=str(access.width),
                                trans=_MATRICES[access.form])


class Loads:
    """The loads of a trip, each written when one of its registers is first asked for, in each region anew."""

    def __init__(self, kernel: Kernel, access: Access, base: LlvmValue, element: Element) -> None:
        self._kernel, self._access = kernel, access
        self._words = _words(access, element)
        self._addresses = _addresses(kernel, access, base, element)
        self._step_of = {r: k for k, step in enumerate(access.steps) for r in step.registers}
        self._loaded: dict[int, Sequence[LlvmValue]] = {}               # the words of each load
        self._elements: dict[int, Mapping[int, LlvmValue]] = {}

    def with_register(self, register: int) -> Mapping[int, LlvmValue]:
        """What the load that brings `register` brings, by register."""
        at = self._step_of[self._access.copies[register]]
        if at not in self._elements:
            elements = self._words.unpack(self._kernel, self._load(at))
            self._kernel.keep(self._elements, at, dict(zip(self._access.steps[at].registers, elements, strict=True)))
        found = self._elements[at]
        return {**found, register: found[self._access.copies[register]]}

    def word(self, registers: Sequence[int]) -> LlvmValue | None:
        """The loaded word that holds just these registers; None if there is no such word."""
        mine = tuple(self._access.copies[r] for r in registers)
        at = self._step_of[mine[0]]
        held = self._access.steps[at].registers
        first = held.index(mine[0])
        if len(mine) * self._words.number != len(held) or first % len(mine) or held[first:first + len(mine)] != mine:
            return None
        return self._load(at)[first // len(mine)]

    def all_of(self, count: int) -> Callable[[], Registers]:
        """What gives all registers of the value, of which there are `count`."""
        return lambda: tuple(self.with_register(r)[r] for r in range(count))

    def _load(self, at: int) -> Sequence[LlvmValue]:
        known = self._loaded.get(at)
        return self._kernel.keep(self._loaded, at, self._written(at)) if known is None else known

    def _written(self, at: int) -> Sequence[LlvmValue]:
        access, words, code = self._access, self._words, self._kernel.code
        results = [words.word] * words.number
        if access.form is Form.VECTOR:
            return code.machine("ld", results, [self._addresses[at]], how="", space=".shared", hints="",
                                vector=words.vector, kind=words.kind)
        return code.machine("ldmatrix", results, [self._addresses[at]], count=str(access.width),
                            trans=_MATRICES[access.form])
