"""A program's code for one CTA: closures, guards around them, and the watch on registers that may be unwritten.

Before: `decode` has found the suspects.  After: `steps[pc]` does a plain instruction, `controls[pc]` one of control
flow, `ends[pc]` is where the run of plain instructions from `pc` stops.
Tests: tests/targets/nvidia/ptx/test_program.py, test_faults.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx import wgmma
from tilewright.targets.nvidia.ptx.binding import Control, Made, Mask, Step
from tilewright.targets.nvidia.ptx.operands import Immediate, Instruction, Vector
from tilewright.targets.nvidia.ptx.program import registers_of
from tilewright.targets.nvidia.ptx.report import Fault
from tilewright.targets.nvidia.ptx.table import row_of

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.cta import Cta
    from tilewright.targets.nvidia.ptx.strands import Strand

Array = np.ndarray[Any, Any]
# what a meaning may stumble over when an instruction is not as the ISA has it
_MISFITS = (IndexError, KeyError, AttributeError, AssertionError, StopIteration, TypeError, ValueError)


class Code:
    """The closures of `cta.program` for `cta`."""

    def __init__(self, cta: Cta) -> None:
        self.cta, program = cta, cta.program
        size = len(program.code)
        self.known: dict[str, Array] = {}      # of a suspect: which threads have written it
        self.steps: list[Step] = [_nothing] * size
        self.controls: list[Callable[[Strand], int] | None] = [None] * (size + 1)
        if cta.launch.checks.uninitialised:
            self.known = {name: np.zeros(cta.threads, bool) for name in program.suspects}
        cta.binding.known = self.known
        self._mark_accumulators()
        for pc, instruction in enumerate(program.code):
            self._bind(pc, instruction)
        self.controls[size] = self._fall_off
        self.ends = self._ends(size)

    def reset(self) -> None:
        for known in self.known.values():
            known[:] = False
        bind = self.cta.binding
        for mark in (*bind.marks.values(), *bind.fragments.values(), *bind.changed.values()):
            mark[:] = -1

    def _mark_accumulators(self) -> None:
        """Registers that a wgmma writes, and those that they are moved to."""
        code, bind = self.cta.program.code, self.cta.binding
        for instruction, uses in zip(code, self.cta.program.uses):
            if instruction.opcode.startswith("wgmma.mma_async"):
                for name in uses[0]:
                    bind.flying(name)
                if isinstance(instruction.operands[1], Vector):
                    for name in registers_of(instruction.operands[1]):
                        bind.fragment(name)
        moves = [uses for uses, i in zip(self.cta.program.uses, code) if i.family == "mov"] if bind.marks else []
        grown = True
        while grown:
            grown = False
            for writes, reads in moves:
                if len(reads) == 1 and reads[0] in bind.marks and len(writes) == 1 and writes[0] not in bind.marks:
                    bind.flying(writes[0])
                    grown = True

    def _ends(self, size: int) -> list[int]:
        starts = set(self.cta.program.blocks)
        ends, end = [size] * (size + 1), size
        for pc in range(size - 1, -1, -1):
            if self.controls[pc] is not None:
                end = pc
            elif pc + 1 in starts:
                end = pc + 1
            ends[pc] = end
        return ends

    def _fall_off(self, strand: Strand) -> int:
        raise Fault("operand", "control runs past the end of the kernel; `ret` is missing")

    def _bind(self, pc: int, instruction: Instruction) -> None:
        bind = self.cta.binding
        bind.instruction = instruction
        try:
            made: Made = row_of(instruction).meaning(instruction, bind)
        except _MISFITS as error:
            raise bind.error(f"operands or modifiers that have no meaning here ({error})") from error
        defined = self.cta.program.function.undefined.get(pc)
        if isinstance(made, Control):
            self.controls[pc] = self._guarded_control(self._watched_control(made.run, pc), instruction)
            return
        step = self._watched(made, pc)
        if bind.marks:
            step = self._apart_from_products(step, pc)
        step = self._guarded(step, instruction)
        if defined and self.known:
            step = _before(step, [self.known[name] for name in defined if name in self.known])
        self.steps[pc] = step

    # ---- guards
    def _guarded(self, step: Step, instruction: Instruction) -> Step:
        guard = instruction.guard
        if guard is None or instruction.family == "bra":
            return step
        predicate, negated, size = self.cta.binding.guard(guard.register), guard.negated, self.cta.threads
        watch = self._watch([guard.register])

        def guarded(on: Mask) -> None:
            if watch is not None:
                watch(on)
            chosen = ~predicate if negated else predicate
            if on is not None:
                chosen = chosen & on
            count = np.count_nonzero(chosen)
            if count == size:
                step(None)
            elif count:
                step(chosen)

        return guarded

    def _guarded_control(self, run: Callable[[Strand], int], instruction: Instruction) -> Callable[[Strand], int]:
        guard, cta = instruction.guard, self.cta
        if guard is None:
            return run
        watch = self._watch([guard.register])
        if instruction.family in ("bra", "brx"):        # they look at their guards themselves
            return run if watch is None else _after(watch, run)
        predicate, negated = cta.binding.guard(guard.register), guard.negated

        def guarded(strand: Strand) -> int:
            if watch is not None and strand.admitted != strand.pc:
                watch(strand.on)
            chosen = ~predicate if negated else predicate
            if strand.admitted != strand.pc:
                on = chosen if strand.on is None else chosen & strand.on
                if not on.any():
                    return strand.pc + 1
            return run(strand) if cta.admit(strand, chosen) else -1

        return guarded

    def _apart_from_products(self, step: Step, pc: int) -> Step:
        instruction, (writes, reads) = self.cta.program.code[pc], self.cta.program.uses[pc]
        check = wgmma.watch(self.cta.binding, instruction, reads, writes)
        note = wgmma.note_writes(self.cta.binding, instruction, writes)
        if check is None and note is None:
            return step

        def checked(on: Mask) -> None:
            if check is not None:
                check(on)
            step(on)
            if note is not None:
                note(on)

        return checked

    # ---- registers that may be unwritten
    def _watch(self, names: list[str]) -> Step | None:
        watched = [(name, self.known[name]) for name in dict.fromkeys(names) if name in self.known]
        if not watched:
            return None

        def check(on: Mask) -> None:
            for name, known in watched:
                bad = ~known if on is None else on & ~known
                if bad.any():
                    raise Fault("uninitialised", f"register {name.split('@')[0]} is read, and nothing wrote it",
                                tuple(int(t) for t in np.flatnonzero(bad)[:3]))

        return check

    def _watched(self, step: Step, pc: int) -> Step:
        instruction, (writes, reads) = self.cta.program.code[pc], self.cta.program.uses[pc]
        if self.known.keys().isdisjoint(reads) and self.known.keys().isdisjoint(writes):
            return step
        guard = instruction.guard.register if instruction.guard is not None else None
        reads = [name for name in reads if name != guard]
        marks = [self.known[name] for name in writes if name in self.known]
        if row_of(instruction).pure:
            return self._computed(step, instruction, marks)
        watch = self._watch(reads)
        if watch is None and not marks:
            return step

        def watched(on: Mask) -> None:
            if watch is not None:
                watch(on)
            step(on)
            for known in marks:
                known[... if on is None else on] = True

        return watched

    def _computed(self, step: Step, instruction: Instruction, marks: list[Array]) -> Step:
        """Unwritten sources make unwritten results; of a selection only the source that was chosen counts.

        A register that is packed of parts, or of bytes of two registers, is taken to be written if one of them is: LLVM
        fills up words that it takes apart again, and which bits are whose is not followed.
        """
        operands = instruction.operands
        groups = [[k for name in registers_of(o) if (k := self.known.get(name)) is not None] for o in operands[1:]]
        packs = instruction.family == "mov" and len(registers_of(operands[1])) > 1
        if instruction.family == "prmt" and isinstance(operands[3], Immediate):
            picked = {operands[3].value >> 4 * byte & 7 for byte in range(4)}      # bytes 0-3 of a, 4-7 of b
            taken = [picked & {0, 1, 2, 3}, picked & {4, 5, 6, 7}]
            groups = [*(group if some else [] for group, some in zip(groups[:2], taken)), []]
            packs = all(taken)
        if not marks and not any(groups):
            return step
        choose = None
        if instruction.family == "selp" and (groups[0] or groups[1]):
            choose = self.cta.binding.predicate(operands[3])
        everything = np.ones(self.cta.threads, bool)
        flat = [known for group in groups for known in group]

        def all_of(knowns: list[Array]) -> Array:
            out = everything
            for known in knowns:
                out = out & known
            return out

        packed = operands[1:2] if instruction.family == "mov" else operands[1:3]
        parts = [self.known.get(n, everything) for o in packed for n in registers_of(o)] if packs else []

        def computed(on: Mask) -> None:
            if packs:
                known = np.logical_or.reduce(parts)
            elif choose is not None:
                known = np.where(choose(), all_of(groups[0]), all_of(groups[1])) & all_of(groups[2])
            else:
                known = all_of(flat)
            step(on)
            for mark in marks:
                np.copyto(mark, known, where=True if on is None else on)

        return computed

    def _watched_control(self, run: Callable[[Strand], int], pc: int) -> Callable[[Strand], int]:
        """A control instruction uses what it reads; but a shuffle hands it on, in its meaning."""
        instruction, (writes, reads) = self.cta.program.code[pc], self.cta.program.uses[pc]
        if instruction.guard is not None:
            reads = [name for name in reads if name != instruction.guard.register]
        if row_of(instruction).pure:
            return run
        watch = self._watch(reads)
        marks = [self.known[name] for name in writes if name in self.known]
        if watch is None and not marks:
            return run

        def watched(strand: Strand) -> int:
            if watch is not None:
                watch(strand.on)
            on = strand.on
            after = run(strand)
            for known in marks:
                known[... if on is None else on] = True
            return after

        return watched


def _after(watch: Step, run: Callable[[Strand], int]) -> Callable[[Strand], int]:
    def watched(strand: Strand) -> int:
        watch(strand.on)
        return run(strand)

    return watched


def _nothing(on: Mask) -> None:
    """An instruction with no effect here."""


def _before(step: Step, knowns: list[Array]) -> Step:
    def defined(on: Mask) -> None:
        for known in knowns:
            known[... if on is None else on] = True
        step(on)

    return defined
