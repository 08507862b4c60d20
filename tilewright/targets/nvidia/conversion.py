"""Layout conversions, as `layout.plan` plans them: a renaming, selects, shuffles, or a trip through shared memory.

Plans are data: register numbers and offsets that are constants, xored with images of the thread's lane and warp bits.
What depends on the thread becomes selects of registers, computed lanes, computed addresses.
Before: two layouts of one tile.  After: the result's registers.  Tests: tests/targets/nvidia/test_conversion.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op
from tilewright.ir.types import Element, element_of
from tilewright.layout import Layout
from tilewright.layout.access import Access
from tilewright.layout.linear import LANE, REGISTER, WARP, Bases
from tilewright.layout.plan import Plan, plan
from tilewright.layout.shuffle import Moves, Round, Shuffles
from tilewright.targets.llvm import convert as element_types
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import Words, shared_address
from tilewright.targets.nvidia.emit.code import LANE_BITS
from tilewright.targets.nvidia.partial import shuffle
from tilewright.targets.nvidia.rearrange import by_renaming
from tilewright.targets.nvidia.state import Kernel

# More than this is moved in pieces, as far as the layouts allow, so that scratch does not limit how many programs fit.
SCRATCH_LIMIT = 48 << 10


def convert(kernel: Kernel, op: Op) -> None:
    """A `convert` op."""
    if by_renaming(kernel, op):
        return
    have, want, element = layout_of(op.operands[0]), layout_of(op.result), element_of(op.result.type)
    kernel.bind(op.result, _Conversion(kernel, element).carry_out(
        plan(have, want, element.bytes, matrix=False, scratch_limit=SCRATCH_LIMIT), kernel.registers(op.operands[0])))


@dataclass(frozen=True)
class _Conversion:
    kernel: Kernel
    element: Element

    def carry_out(self, how: Plan, source: Sequence[LlvmValue]) -> list[LlvmValue]:
        """The registers of the result."""
        if how.moves is not None:
            return self._moved(how.moves, source)
        if how.shuffles is not None:
            return self._shuffled(how.shuffles, source, how.dst)
        if how.trip is None:
            return list(source)
        result: list[LlvmValue | None] = [None] * how.dst.size(REGISTER)
        base = self.kernel.scratch(how.scratch_bytes)
        for piece in how.pieces:
            part = [source[r] for r in piece.take]
            if how.trip.spread is not None:
                part = self._moved(how.trip.spread, part)
            self.kernel.code.barrier()
            self._store(how.trip.store, base, part)
            self.kernel.code.barrier()
            for register, value in zip(piece.put, self._load(how.trip.load, base), strict=True):
                result[register] = value
        return [v for v in result if v is not None]

    # --- inside a thread

    def _moved(self, moves: Moves, source: Sequence[LlvmValue]) -> list[LlvmValue]:
        turned = self._turned(source, moves.by_lane, moves.by_warp)
        return [turned[r] for r in moves.take]

    def _turned(self, registers: Sequence[LlvmValue], by_lane: Bases, by_warp: Bases) -> list[LlvmValue]:
        """Register r ^ x in the place of r, x being the image of the thread's lane and warp bits."""
        code = self.kernel.code
        flags: dict[int, LlvmValue] = {}
        for bit, image in [*enumerate(by_lane), *((LANE_BITS + i, b) for i, b in enumerate(by_warp))]:
            if image:
                flag = code.icmp("ne", code.op("and", code.tid, constant(I32, 1 << bit)), constant(I32, 0))
                flags[image] = code.op("xor", flags[image], flag) if image in flags else flag
        values = list(registers)
        for image, flag in flags.items():
            values = [v if v == values[r ^ image] else code.select(flag, values[r ^ image], v)
                      for r, v in enumerate(values)]
        return values

    # --- inside a warp

    def _shuffled(self, plan: Shuffles, source: Sequence[LlvmValue], dst: Layout) -> list[LlvmValue]:
        sent = self._turned(source, plan.take_by_lane, plan.take_by_warp)
        nothing = LlvmValue(element_types.register_type(self.element), "poison")
        received = [nothing] * dst.size(REGISTER)
        for one in plan.rounds:
            for register, value in zip(one.put, self._round(plan, one, [sent[r] for r in one.take]), strict=True):
                received[register] = value
        placed = self._turned(received, plan.put_by_lane, ())
        return [placed[r] for r in plan.copies]

    def _round(self, plan: Shuffles, one: Round, values: Sequence[LlvmValue]) -> list[LlvmValue]:
        """What arrives; elements that travel together are packed into one word."""
        if not one.moves:
            return list(values)
        words = Words(self.element, len(values))
        packed = words.pack(self.kernel, values) if len(values) > 1 else list(values)
        return self._unpacked(words, [self._sent(plan, one, w) for w in packed])

    def _unpacked(self, words: Words, packed: list[LlvmValue]) -> list[LlvmValue]:
        return words.unpack(self.kernel, packed) if words.count > 1 else packed

    def _sent(self, plan: Shuffles, one: Round, value: LlvmValue) -> LlvmValue:
        if plan.butterfly:
            return shuffle(self.kernel, "shuffle_xor", value, constant(I32, one.lane))
        code = self.kernel.code
        lane = code.combine(code.tid, self._thread_bases(plan.from_by_lane, plan.from_by_warp))
        return shuffle(self.kernel, "shuffle_from", value, code.op("xor", lane, constant(I32, one.lane)))

    @staticmethod
    def _thread_bases(by_lane: Bases, by_warp: Bases) -> tuple[int, ...]:
        return (*by_lane, *(0,) * (LANE_BITS - len(by_lane)), *by_warp)

    # --- through shared memory

    def _addresses(self, access: Access, base: LlvmValue) -> Mapping[int, LlvmValue]:
        """The address of each offset that a step has."""
        code = self.kernel.code
        thread = code.combine(code.tid, self._thread_bases(access.by_lane, access.by_warp))
        return {step.offset: shared_address(self.kernel, base, code.op("xor", thread, constant(I32, step.offset)),
                                            self.element.bytes) for step in access.steps}

    def _store(self, access: Access, base: LlvmValue, values: Sequence[LlvmValue]) -> None:
        addresses = self._addresses(access, base)
        guard = self.kernel.code.thread_flag({LANE: access.idle_lanes, WARP: access.idle_warps})
        for step in access.steps:
            words = Words(self.element, len(step.registers))
            packed = words.pack(self.kernel, [values[r] for r in step.registers])
            self.kernel.code.machine("st", [], [addresses[step.offset], *packed], guard=guard, space=".shared",
                                     hints="", vector=words.vector, kind=words.kind)

    def _load(self, access: Access, base: LlvmValue) -> list[LlvmValue]:
        addresses = self._addresses(access, base)
        found: dict[int, LlvmValue] = {}
        for step in access.steps:
            words = Words(self.element, len(step.registers))
            read = self.kernel.code.machine("ld", [words.word] * words.number, [addresses[step.offset]], how="",
                                            space=".shared", hints="", vector=words.vector, kind=words.kind)
            found.update(zip(step.registers, words.unpack(self.kernel, read), strict=True))
        return [found[r] for r in access.copies]

