"""Packed operands of matrix products that are kept from step to step of the K loop, and from program to program.

Packing the right operand of a `dot` costs 10 to 40 % of a product of small tiles, most of it waiting for memory, and
neighbouring programs often pack the same tiles again.  So scratch has a *panel* for such an operand: a slot for each
step of the loop around, with the scalars that the tile was made from as its key.  A tile is a pure function of these
and of memory; where no op of the kernel may write that memory, equal keys mean equal tiles, and a hit is neither
packed nor tested again.

Only slot 0 is used (or those of steps that are multiplied together, see `rounds`) while neighbours do not share their
tiles, since it stays in the nearest cache: a run of the loop
uses all slots if its first tile is that of the run before, or if the last two runs with equal first tiles did so.
(Measured on 2026-11-30, Xeon of 2 MiB L2, one thread, fp32 1024^3 in tiles of 64x64x32: 126 Gflop/s without, 147 with.)

What scratch remembers is of one launch: `forget` clears the panels' states when a thread enters a launch, which a word
of the context tells it (`host.portable`).
Before: see `fuse`.  After: a buffer that holds the packed tile.  Tests: tests/targets/cpu/test_panels.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.ir.node import Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Tile
from tilewright.ir.walk import ops_in
from tilewright.targets.cpu.code import COLD, Code
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.host.records import WORD, Frame
from tilewright.targets.cpu.nest import LINE
from tilewright.targets.cpu.state import Buffer, Kernel, Virtual
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import I1, I64, PTR, Type, constant, zero
from tilewright.targets.llvm.types import Value as LlvmValue

_PANEL_BYTES = 1 << 19      # half of the second cache of today's processors
_MOST_SLOTS = 128
_MOST_WORDS = 8             # of a key
FORGET = "forget_panels"
_CLEARED = Type("i64", LINE // WORD)


def kept(walker: Walker, op: Op, value: Value, t: Tile, write: Callable[[Buffer], None],
         together: int = 1) -> tuple[Buffer, LlvmValue] | None:
    """`value` packed as a tile of type `t` by `write`, or as it was packed before; None if it cannot be kept.

    Also whether it was packed now (i1).
    `together`: so many steps of the loop, a power of two, have slots of their own in any case, one behind the other.
    The buffer belongs to the panel: it is not to be freed.
    """
    key = _key(walker, op, value)
    if key is None:
        return None
    bytes_ = Buffer(0, t.shape, t.element).bytes
    loop = walker.kernel.loops[-1] if walker.kernel.loops else None
    slots = 1 if loop is None else min(_MOST_SLOTS, _PANEL_BYTES // bytes_, loop.trips or _MOST_SLOTS)
    panel = _Panel.make(walker.kernel, max(1, slots // together) * together, bytes_, key)
    index = constant(I64, 0) if loop is None or panel.slots == 1 else panel.slot(loop.count, together)
    address = walker.code.gep(walker.kernel.scratch_base, walker.code.fold(
        "add", walker.code.fold("mul", index, constant(I64, panel.stride)), constant(I64, panel.tiles)), Type("i8"))
    buffer = Buffer(panel.tiles, t.shape, t.element, address)

    def pack() -> tuple[LlvmValue, ...]:
        walker.test(walker.virtual_ops([value]))    # of what was packed before it was tested then
        write(buffer)
        panel.label(index)
        return ()

    misses = walker.code.not_(panel.holds(index))
    walker.code.branch(misses, pack)
    return buffer, misses


# --- what a tile depends on


def _key(walker: Walker, op: Op, value: Value) -> list[LlvmValue] | None:
    """The scalars that decide what `value` is, but those that a launch does not change; None if more decides it."""
    plan = walker.plan
    if not isinstance(walker.kernel.bindings[value], Virtual) or plan.roots(value) != {op} or (
            value in plan.kept and value not in plan.turned):
        return None
    ops, words = walker.virtual_ops([value]), dict[str, LlvmValue]()
    if not reads_constant_memory(walker, ops):
        return None
    for inner in ops:
        for operand in inner.operands:
            if isinstance(operand.type, Tile):
                if operand in plan.kept or not isinstance(walker.kernel.bindings[operand], Virtual):
                    return None
                continue
            scalar = walker.scalar_value(operand)
            if not walker.code.is_outermost(scalar):
                words[scalar.name] = as_word(walker.code, scalar)
    return list(words.values()) if len(words) <= _MOST_WORDS else None


def reads_constant_memory(walker: Walker, ops: Sequence[Op]) -> bool:
    """Whether what the loads among `ops` read stays during a launch.

    A kernel that waits for a flag may be told by it that another launch has written its operands.
    """
    everything = list(ops_in(walker.kernel.module.entry.body))
    if any(map(walker.waits, everything)):
        return False
    writes = [o.operands[0] for o in everything if o.row.effects & Effect.WRITES]
    return not any(walker.aliases.may_meet(o.operands[0], w) for o in ops if o.name == "load" for w in writes)


def as_word(code: Code, scalar: LlvmValue) -> LlvmValue:
    """The bits of a scalar as i64."""
    if scalar.type == PTR:
        return code.cast("ptrtoint", scalar, I64)
    bits = code.bitcast(scalar, scalar.type.as_int) if scalar.type.is_float else scalar
    return bits if bits.type == I64 else code.cast("zext", bits, I64)


# --- the panel


@dataclass(frozen=True, slots=True)
class _Panel:
    """`slots` tiles of `stride` bytes in scratch from `tiles` on, and the state at `head`, in i64 words.

    The state: which slots hold a tile; whether the first key of a run is known, whether all slots are in use, whether
    the last runs shared their first tile; the keys of the slots, and the first key of the last run.
    """

    kernel: Kernel
    slots: int
    stride: int
    tiles: int
    head: int
    key: Sequence[LlvmValue]

    @staticmethod
    def make(kernel: Kernel, slots: int, size: int, key: Sequence[LlvmValue]) -> _Panel:
        """A new panel in scratch that is never given back."""
        stride = -(-size // 64) * 64
        flags = slots + 3
        head = kernel.scratch.take_apart(8 * (flags + (slots + 1) * len(key)))
        kernel.panels.append((head, flags))
        return _Panel(kernel, slots, stride, kernel.scratch.take_apart(slots * stride), head, key)

    def _word(self, index: LlvmValue | int) -> LlvmValue:
        code = self.kernel.code
        start = code.gep(self.kernel.scratch_base, self.head, Type("i8"))
        return code.gep(start, index, I64)

    def _get(self, index: LlvmValue | int) -> LlvmValue:
        return self.kernel.code.load(self._word(index), I64, 8)

    def _put(self, index: LlvmValue | int, value: LlvmValue) -> None:
        self.kernel.code.store(value, self._word(index), 8)

    def _key_word(self, slot: LlvmValue | int, part: int) -> LlvmValue | int:
        first = self.slots + 3 + part
        if isinstance(slot, int):
            return first + slot * len(self.key)
        code = self.kernel.code
        return code.fold("add", code.fold("mul", slot, constant(I64, len(self.key))), constant(I64, first))

    def _equals(self, slot: LlvmValue | int, flag: LlvmValue | int) -> LlvmValue:
        """Whether word `flag` is set and the key of `slot` is the one at hand."""
        code = self.kernel.code
        equal = code.icmp("ne", self._get(flag), constant(I64, 0))
        for part, word in enumerate(self.key):
            equal = code.op("and", equal, code.icmp("eq", self._get(self._key_word(slot, part)), word))
        return equal

    def _note(self, slot: LlvmValue | int, flag: LlvmValue | int) -> None:
        for part, word in enumerate(self.key):
            self._put(self._key_word(slot, part), word)
        self._put(flag, constant(I64, 1))

    def holds(self, index: LlvmValue) -> LlvmValue:
        """Whether slot `index` holds the tile with the key at hand (i1)."""
        return self._equals(index, index)

    def label(self, index: LlvmValue) -> None:
        """Slot `index` holds that tile from now on."""
        self._note(index, index)

    def slot(self, step: LlvmValue, together: int) -> LlvmValue:
        """The slot for a step of the loop; the first step of a run decides whether the run uses all of them.

        Otherwise it uses those of `together` steps.
        """
        code = self.kernel.code
        known, all_in_use, shared = range(self.slots, self.slots + 3)

        def decide() -> tuple[LlvmValue, ...]:
            same = self._equals(self.slots, known)
            before = code.icmp("ne", self._get(shared), constant(I64, 0))
            self._put(all_in_use, code.cast("zext", code.op("or", same, before), I64))
            self._put(shared, code.cast("zext", same, I64))
            self._note(self.slots, known)
            return ()

        code.branch(code.icmp("eq", step, constant(I64, 0)), decide)
        within = code.fold("and", step, constant(I64, together - 1))
        last = code.binary_intrinsic("umin", code.fold("sub", step, within), constant(I64, self.slots - together))
        first = code.select(code.icmp("ne", self._get(all_in_use), constant(I64, 0)), last, constant(I64, 0))
        return code.fold("add", first, within)


def write_forget(writer: ModuleWriter, kernel: Kernel) -> None:
    """The function `FORGET(ptr context)`, which clears the panels' states once a thread and launch."""
    f = writer.function(FORGET, [("context", PTR)], linkage="internal", attributes=COLD)
    (context,) = f.params
    entered = f.gep(context, Frame.ENTERED // WORD, I64)

    def clear() -> tuple[LlvmValue, ...]:
        f.store(constant(I64, 1), entered, 8)
        scratch = f.load(f.gep(context, Frame.SCRATCH // WORD, PTR), PTR, 8)
        for head, count in kernel.panels:       # whole lines: what is behind the state in its last one are keys
            for line in range(-(-count * WORD // LINE)):
                f.store(zero(_CLEARED), f.gep(scratch, head + line * LINE, Type("i8")), WORD)
        return ()

    first: LlvmValue = f.icmp("eq", f.load(entered, I64, 8), constant(I64, 0))
    assert first.type == I1
    f.branch(first, clear)
    f.ret()
