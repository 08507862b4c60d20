"""Loops and branches.  Conditions and bounds are scalars, the same in all threads, so no control flow diverges.

What goes round a loop is a phi for each register, or for a word of narrow elements.  Loops count iterations, so that
no bound or step makes the index wrap into another one (`ir.ops.control`); they test at their end, since ptxas begins
several iterations at once in such loops only (layer norm of 12288 fp32 in six: 2441 GB/s with the test at the head,
3345 without; H200, 2026-11-30).  Pipelined loops, which it leaves as they are, test at their head: one that tests at
its end sets what it carries twice, for the case that it has no iteration (of a product of 128 x 128 by 4 warps 136
instructions of 1,305, and 8 registers).  Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I32, element_of
from tilewright.ir.walk import ops_in
from tilewright.targets.llvm.counting import loop_bound, trip_count
from tilewright.targets.llvm.types import I32 as LLVM_I32
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant
from tilewright.targets.nvidia.access import Words
from tilewright.targets.nvidia.state import Kernel


def flatten(kernel: Kernel, values: Sequence[Value]) -> list[LlvmValue]:
    """All registers of all values."""
    return [r for v in values for r in kernel.registers(v)]


def bind_all(kernel: Kernel, values: Sequence[Value], flat: Sequence[LlvmValue]) -> None:
    """The opposite of `flatten`."""
    at = 0
    for value in values:
        count = kernel.count(value)
        kernel.bind(value, flat[at:at + count])
        at += count


class Packing:
    """How narrow tiles come to where control flow joins: in the words in which their first elements were loaded, or in
    which a product of warpgroups takes those of these `places`, else an element a register."""

    def __init__(self, kernel: Kernel, inits: Sequence[Value], places: Collection[int] = ()) -> None:
        self._kernel = kernel
        self._words = [_pairs_of(kernel, v) if k in places else _words_of(kernel, v) for k, v in enumerate(inits)]

    def packed(self, values: Sequence[Value]) -> list[LlvmValue]:
        """What comes there, of all values."""
        found: list[LlvmValue] = []
        for value, groups in zip(values, self._words, strict=True):
            registers = self._kernel.registers(value)
            if groups:
                for group in groups:
                    found += Words(element_of(value.type), len(group)).pack(self._kernel, [registers[r] for r in group])
            else:
                found += registers
        return found

    def bind(self, values: Sequence[Value], flat: Sequence[LlvmValue]) -> None:
        """The opposite of `packed`."""
        rest = iter(flat)
        for value, groups in zip(values, self._words, strict=True):
            registers: dict[int, LlvmValue] = {}
            for group in groups:
                elements = Words(element_of(value.type), len(group)).unpack(self._kernel, [next(rest)])
                registers.update(zip(group, elements, strict=True))
            count = self._kernel.count(value)
            self._kernel.bind(value, [registers[r] if groups else next(rest) for r in range(count)])


def _words_of(kernel: Kernel, value: Value) -> list[tuple[int, ...]]:
    """The registers of each word that a tile came in; none if it came in parts of words."""
    groups: dict[LlvmValue, dict[int, int]] = {}
    counts = {0}
    registers = kernel.registers(value)
    for r, element in enumerate(registers):
        part = kernel.code.part(element)
        if part is None or part.word.type != LLVM_I32:
            return []
        groups.setdefault(part.word, {})[part.index] = r
        counts.add(part.count)
    found = [tuple(places[k] for k in sorted(places)) for places in groups.values()]
    whole = sum(map(len, found)) == len(registers) and {len(g) for g in found} | {0} == counts
    return found if whole and len(counts) == 2 else []


def _pairs_of(kernel: Kernel, value: Value) -> list[tuple[int, ...]]:
    """The registers of neighbours in a row."""
    return [(r, r + 1) for r in range(0, kernel.count(value), 2)]


def lower_for(kernel: Kernel, op: Op) -> None:
    """A counted loop."""
    code, (body,) = kernel.code, op.regions
    index, carried = body.args[0], body.args[1:]
    left = {inner.operands[0] for inner in ops_in(body) if inner.name == "warpgroup_dot"}
    packing = Packing(kernel, op.operands[3:], [k for k, value in enumerate(carried) if value in left])
    narrow = index.type == I32
    lower, upper, step = (loop_bound(code, kernel.scalar(v), op.attrs["unsigned"]) for v in op.operands[:3])
    trips = trip_count(code, lower, upper, step, narrow=narrow)
    counter = LLVM_I32 if narrow else LLVM_I64      # 32-bit bounds are less than 2**32 steps apart
    start, by = (code.cast("trunc", v, counter) if v.type != counter else v for v in (lower, step))
    trips = code.cast("trunc", trips, counter) if narrow else trips
    zero, one = constant(counter, 0), constant(counter, 1)

    def run(values: tuple[LlvmValue, ...]) -> tuple[Sequence[LlvmValue], LlvmValue]:
        count, position, *rest = values
        kernel.bind(index, (position,))
        packing.bind(carried, rest)
        with kernel.region():
            kernel.run_block(body)
            following = packing.packed(body.terminator.operands)
        done = code.op("add", count, one)
        return (done, code.op("add", position, by), *following), code.icmp("ult", done, trips)

    initial = (zero, start, *packing.packed(op.operands[3:]))
    if any(inner.name == "async_copy" for inner in ops_in(body)):
        results = code.while_loop(initial, lambda values: code.icmp("ult", values[0], trips),
                                  lambda values: run(values)[0])
    else:
        results = code.tested_loop(initial, code.icmp("ugt", trips, zero), run)
    packing.bind(op.results, results[2:])


def lower_while(kernel: Kernel, op: Op) -> None:
    """A loop with a condition."""
    code, (before, body) = kernel.code, op.regions
    passed: list[LlvmValue] = []

    def condition(values: tuple[LlvmValue, ...]) -> LlvmValue:
        bind_all(kernel, before.args, values)
        with kernel.region():
            kernel.run_block(before)
            flag, *rest = before.terminator.operands
            passed.extend(flatten(kernel, rest))
            return kernel.scalar(flag)

    def run(values: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
        bind_all(kernel, body.args, passed)
        with kernel.region():
            kernel.run_block(body)
            return flatten(kernel, body.terminator.operands)

    code.while_loop(flatten(kernel, op.operands), condition, run)
    bind_all(kernel, op.results, passed)


def lower_if(kernel: Kernel, op: Op) -> None:
    """A branch; what it yields is joined as it goes round a loop."""
    packings: list[Packing] = []

    def way(index: int) -> Sequence[LlvmValue]:
        block = op.regions[index]
        with kernel.region():
            kernel.run_block(block)
            if not packings:
                packings.append(Packing(kernel, block.terminator.operands))
            return packings[0].packed(block.terminator.operands)

    joined = kernel.code.branch(kernel.scalar(op.operands[0]), lambda: way(0), lambda: way(1))
    packings[0].bind(op.results, joined)
