"""Steps of a K loop whose products are made together, in *rounds*.

A product of tiles (AMX) is so fast that loading and storing its sums takes longer than making them, if a step of the
loop is short.  So where nobody looks at the sums within the loop, a step only brings its operands into memory, in a
slot of their own, and the last one of a round multiplies for all.  (bf16 products of 512^3 take 0.58 to 0.65 of
the time then, int8 in steps of 64 0.72; Emerald Rapids, 2026-11-30.)
A left operand that is read where it lies must stay as it is meanwhile: nothing of the kernel may write that memory.
Before: the loop's body is being written.  After: what `dot` needs for a step, and for a round.
Tests: tests/targets/cpu/test_tiles.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.ir.node import Op, Value
from tilewright.ir.types import Tile, element_of, shape_of
from tilewright.targets.cpu import panels
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.product import Matrix
from tilewright.targets.cpu.schemes import Scheme
from tilewright.targets.cpu.state import Buffer, Kernel, Loop, Virtual
from tilewright.targets.llvm.types import I8, I64, PTR, constant
from tilewright.targets.llvm.types import Value as LlvmValue

_ROW_BYTES = 1 << 10        # of the left operand in a round: 32 rows fit into the nearest cache (256: 3 to 10 % slower)
_MOST_BYTES = 1 << 17       # of a round's right operands, which share the second cache with the left ones


@dataclass(frozen=True, slots=True)
class Slots:
    """The operands of a round: how many steps (i64), where the table of left matrices is, and the first right one.

    The table has address and bytes from row to row of each (i64); right matrices are `right_bytes` apart.
    """

    steps: LlvmValue
    lefts: LlvmValue
    right: Matrix
    right_bytes: int


@dataclass(frozen=True, slots=True)
class Round:
    """A round of `steps` steps of a loop, of one product; the step at hand is one of them."""

    kernel: Kernel
    loop: Loop
    steps: int
    table: int      # offset in scratch

    @property
    def number(self) -> LlvmValue:
        """Of the step in its round."""
        return self.kernel.code.op("and", self.loop.count, constant(I64, self.steps - 1))

    @property
    def is_first(self) -> LlvmValue:
        """Whether no round has ended before this one (i1)."""
        return self.kernel.code.icmp("ult", self.loop.count, constant(I64, self.steps))

    @property
    def ends(self) -> LlvmValue:
        """Whether this step is the round's last one (i1)."""
        code = self.kernel.code
        full = code.icmp("eq", self.number, constant(I64, self.steps - 1))
        return code.op("or", full, code.icmp("eq", code.op("add", self.loop.count, constant(I64, 1)), self.loop.total))

    def buffer(self, t: Tile) -> Buffer:
        """Scratch for a tile of type `t` in each step, which stays until the loop ends; this step's."""
        kernel, code = self.kernel, self.kernel.code
        size = slot_bytes(Buffer(0, t.shape, t.element))
        offset = kernel.scratch.take_apart(self.steps * size)
        first = code.gep(kernel.scratch_base, offset, I8)
        return Buffer(offset, t.shape, t.element, code.gep(first, code.op("mul", self.number, constant(I64, size)), I8))

    def note(self, left: Matrix) -> None:
        """Enter this step's left matrix into the table."""
        code = self.kernel.code
        entry = code.gep(self._lefts(), code.op("mul", self.number, constant(I64, _ENTRY)), I8)
        code.store(left.address, entry, 8)
        code.store(left.stride, code.gep(entry, 8, I8), 8)

    def slots(self, right: Matrix, size: int) -> Slots:
        """All operands of the round that this step ends, whose right matrix, of `size` bytes, is `right`."""
        code = self.kernel.code
        before = code.op("mul", self.number, constant(I64, -size))
        return Slots(code.op("add", self.number, constant(I64, 1)), self._lefts(),
                     Matrix(code.gep(right.address, before, I8), right.stride), size)

    def _lefts(self) -> LlvmValue:
        return self.kernel.code.gep(self.kernel.scratch_base, self.table, I8)


_ENTRY = 16


def left_of(kernel: Kernel, slots: Slots, step: LlvmValue) -> Matrix:
    """The left matrix of a step of a round."""
    code = kernel.code
    entry = code.gep(slots.lefts, code.op("mul", step, constant(I64, _ENTRY)), I8)
    return Matrix(code.load(entry, PTR, 8), code.load(code.gep(entry, 8, I8), I64, 8))


def slot_bytes(buffer: Buffer) -> int:
    """From slot to slot of tiles like `buffer`."""
    return -(-buffer.bytes // 64) * 64


def round_of(walker: Walker, op: Op, scheme: Scheme) -> Round | None:
    """The round that a step of `op`, a `dot`, is part of; None if it has to multiply at once."""
    steps = _steps(op, scheme)
    if steps == 1 or not _is_only_summed(walker, op) or element_of(op.operands[2].type) != scheme.total:
        return None
    if not all(_is_made_here(walker, v) for v in op.operands[:2]):
        return None
    if not panels.reads_constant_memory(walker, walker.virtual_ops([op.operands[0]])):
        return None
    kernel = walker.kernel
    return Round(kernel, kernel.loops[-1], steps, kernel.scratch.take_apart(steps * _ENTRY))


def _steps(op: Op, scheme: Scheme) -> int:
    """How many steps a round may have; a power of two."""
    a, b = op.operands[:2]
    if scheme.tiles is None or len(shape_of(a.type)) != 2:
        return 1
    row = shape_of(a.type)[-1] * scheme.left.bytes
    right = math.prod(shape_of(b.type)) * scheme.right.bytes
    most = min(_ROW_BYTES // row, _MOST_BYTES // right)
    return 1 << (most.bit_length() - 1) if most else 1


def _is_only_summed(walker: Walker, op: Op) -> bool:
    """Whether the sum goes round a loop whose body does nothing else with it."""
    plan, (result,), acc = walker.plan, op.results, op.operands[2]
    place = plan.places[op]
    loop = place.around
    if loop is None or loop.name != "for" or place.block is not loop.regions[0] or acc not in place.block.args:
        return False
    ends = place.block.terminator
    return (plan.users(acc) == [op] and plan.users(result) == [ends] and op.operands.count(acc) == 1
            and [k for k, v in enumerate(ends.operands) if v is result] == [place.block.args.index(acc) - 1])


def _is_made_here(walker: Walker, value: Value) -> bool:
    """Whether an operand is computed, in each step, by the product's own packing."""
    plan = walker.plan
    return isinstance(walker.kernel.bindings[value], Virtual) and (value not in plan.kept or value in plan.turned)
