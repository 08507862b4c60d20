"""Loads and stores of blocks of described arrays become copies by hardware, where it takes them (`described`).

    before                                  after
    x = load box(p, ...)                    b = mbarrier_alloc [count = 1], at the head of the kernel
    y = load box(q, ...)                    a = shared_alloc; c = shared_alloc
    z = x + y                               proxy_fence; barrier
    store box(r, ...), z                    box_copy p -> a at b; box_copy q -> c at b; mbarrier_arrive b
                                            mbarrier_wait b
                                            x = shared_load a; y = shared_load c
                                            shared_free c; shared_free a
                                            z = x + y
                                            if r starts where it may { box_store r, z } else { store r, z }

Loads between which nothing else happens are begun together, so that they wait once.  The barrier in front lets the
hardware write where threads have read, and the fence shows it what they wrote, to shared memory as to global memory.
Each such place has an mbarrier of its own, which is used once, since what is in a loop stays with the threads: a copy
that is waited for where it begins takes longer than their accesses do (loads 5 to 31 % an iteration, stores 8 to 23 %,
blocks of 1 to 32 KiB, H200, 2026-11-30).

Loads may start anywhere.  The hardware stores no block that starts within 16 bytes of a row (it ends the kernel with
"an illegal instruction": H200, 2026-11-30) or at a negative place (CUDA C++ Programming Guide, Using TMA, Negative
indices and out of bounds): where such a one may reach into the array the threads stand ready.

Before: laid-out IR, behind `pipeline`.  After: the same stage, without `box`.
Tests: tests/targets/nvidia/test_boxes.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from tilewright.analysis.alias import Alias
from tilewright.analysis.ranges import Ranges
from tilewright.ir.build import Builder, make_op
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops.boxes import Places
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import I32, I64, Type
from tilewright.ir.walk import defining_ops, ops_in, uses
from tilewright.passes.boxes import FORGET_BOXES
from tilewright.targets.nvidia.passes.described import MOST_TOGETHER, Described, Kept, kept, tile_of
from tilewright.targets.nvidia.scratch import MBARRIER_BYTES
from tilewright.targets.nvidia.tensor_maps import ALIGNMENT, MAP_BYTES, box_bytes

_PARAMETER_BYTES = 4000     # of a kernel, at most, less what is hidden (PTX ISA 5.1.6: 4096)
_POINTER_BYTES = 8


def copy_boxes(module: Module) -> Module:
    """`module` with its blocks copied by hardware where that can be done."""
    entry = module.entry
    if not any(op.name == "box" for op in ops_in(entry.body)):
        return module
    body = _without_dead(_Copying(module).body())
    return FORGET_BOXES.run(replace(module, functions={entry.name: entry.with_body(body)}))


@dataclass
class _Loads:
    """Loads that begin together, in order, and what takes the place of each one's result."""

    ops: list[Op] = field(default_factory=list)
    results: dict[Value, Value] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(box_bytes(tile_of(op.result)) for op in self.ops)


class _Copying:
    def __init__(self, module: Module) -> None:
        self._body = body = module.entry.body
        self._ops, self._uses, self._alias = defining_ops(body), uses(body), Alias(module)
        self._accesses = [op for op in ops_in(body) if op.row.effects & (Effect.READS | Effect.WRITES)]
        self._waits_for_others = any(op.row.effects & Effect.ORDERS for op in self._accesses)
        in_loops = {inner for op in ops_in(body) if op.name in ("for", "while")
                    for region in op.regions for inner in ops_in(region)}
        described = Described(module)
        self._has_nan = described.has_nan
        most = (_PARAMETER_BYTES - _POINTER_BYTES * len(module.entry.params)) // MAP_BYTES
        self._ranges = Ranges(module.entry, module.most_programs)
        self._boxes: dict[Op, Op] = {}      # of the accesses that the hardware does
        # Of stored blocks the starts that may be wrong, by how much each of them is to be divided: see the module.
        self._doubtful: dict[Op, list[tuple[Value, int]]] = {}
        for op in self._accesses:
            box = described.box(op)
            if box is None or op in in_loops or len(self._boxes) >= most:
                continue
            if op.name == "store":
                doubtful = self._doubts(op, box, described)
                if doubtful is None:
                    continue
                self._doubtful[op] = doubtful
            self._boxes[op] = box
        self._absorbed: set[Op] = set()     # conversions of what is read in the layout wanted at once
        self._places = 0                    # at which loads are waited for
        self._build = Builder()
        self._mbarriers = Value(I32)        # one for each

    def _doubts(self, store: Op, box: Op, described: Described) -> list[tuple[Value, int]] | None:
        """`_doubtful` of a store; None if it certainly starts where none may."""
        found, tile = [], tile_of(store.operands[1])
        starts = Places.of(box.operands[2:]).starts
        for dim, (start, size) in enumerate(zip(starts, tile.shape, strict=True)):
            step = max(1, ALIGNMENT // tile.element.bytes) if dim == len(starts) - 1 else 1
            range_, divisor = self._ranges.fact(start), described.divisor(start)
            if range_.high < 0 or (range_.low == range_.high and range_.low % step):
                return None
            if divisor % (size if range_.low < 0 else step):
                found.append((start, step))
        return found

    def body(self) -> Block:
        """The kernel's body rewritten."""
        block = self._block(self._body)
        if not self._places:
            return block
        made = make_op("mbarrier_alloc", (), {"count": self._places})
        return Block(block.args, (Op(made.row, (), [self._mbarriers], made.attrs, (), made.loc), *block.ops))

    def _block(self, block: Block) -> Block:
        with self._build.block() as ops:
            waiting = _Loads()
            for op in block.ops:
                box = self._boxes.get(op)
                if self._ends(waiting, op, box):
                    self._begin(waiting)
                    waiting = _Loads()
                if op.name == "load" and box is not None:
                    waiting.ops.append(op)
                    waiting.results[op.result] = op.result
                elif op.name == "convert" and op.operands[0] in waiting.results:
                    waiting.results[op.operands[0]] = op.result
                    self._absorbed.add(op)
                elif box is not None:
                    self._store(op, box)
                elif op.regions:
                    self._build.append(op.updated(regions=[self._block(r) for r in op.regions]))
                else:
                    self._build.append(op)
        return Block(block.args, tuple(ops))

    def _ends(self, waiting: _Loads, op: Op, box: Op | None) -> bool:
        """Whether the loads that wait have to be done before `op`."""
        if not waiting.ops:
            return False
        if op.name == "load" and box is not None:
            return waiting.bytes + box_bytes(tile_of(op.result)) > MOST_TOGETHER
        if op.name == "convert" and op.operands[0] in waiting.results:
            return len(self._uses[op.operands[0]]) > 1      # a single one takes the place of the load's layout
        return not op.row.is_pure or bool(op.regions) or op.row.terminator or any(
            v in waiting.results or v in waiting.results.values() for v in op.operands)

    # -- what becomes of them

    def _begin(self, loads: _Loads) -> None:
        """All of `loads`, one after the other begun, and waited for."""
        build = self._build
        build.location = loads.ops[0].loc
        ways = [kept(tile_of(loads.results[op.result])) for op in loads.ops]
        buffers = [build.create("shared_alloc", (), {"memory": way.memory, "count": 1, "align": way.align})[0]
                   for way in ways]
        build.create("proxy_fence", (), {"everywhere": any(map(self._may_be_written, loads.ops))})
        build.create("barrier")
        mbarrier = self._mbarrier()
        for op, way, buffer in zip(loads.ops, ways, buffers, strict=True):
            base, *places = self._boxes[op].operands[1:]
            attrs = {"memory": way.memory, "swizzle": way.swizzle, "nan": self._has_nan(op)}
            build.location = op.loc
            build.create("box_copy", (base, buffer, mbarrier, *places), attrs)
        build.create("mbarrier_arrive", (mbarrier,))
        build.create("mbarrier_wait", (mbarrier, self._constant(0)))
        for op, way, buffer in zip(loads.ops, ways, buffers, strict=True):
            self._read(op, way, buffer, loads.results[op.result])
        for buffer in reversed(buffers):
            build.create("shared_free", (buffer,))

    def _mbarrier(self) -> Value:
        """One that nobody uses yet."""
        offset = MBARRIER_BYTES * self._places
        self._places += 1
        return self._build.create("add", (self._mbarriers, self._constant(offset)))[0] if offset else self._mbarriers

    def _constant(self, value: int, type: Type = I32) -> Value:
        return self._build.create("constant", (), {"type": type, "value": value})[0]

    def _read(self, op: Op, way: Kept, buffer: Value, result: Value) -> None:
        attrs = {"memory": way.memory, "to": result.type, "now": True}
        read = make_op("shared_load", (buffer,), attrs, loc=op.loc)
        self._build.append(Op(read.row, read.operands, [result], read.attrs, (), read.loc))     # users stay as they are

    def _store(self, op: Op, box: Op) -> None:
        self._build.location = op.loc
        starts = self._doubtful[op]
        if not starts:
            self._store_by_hardware(op, box)
            return
        can = self._all(starts)

        def ways() -> Iterator[Block]:
            yield self._build.region((), lambda: self._store_by_hardware(op, box))
            yield self._build.region((), lambda: self._build.append(op))

        self._build.create("if", (can,), {}, tuple(ways()))

    def _all(self, starts: Sequence[tuple[Value, int]]) -> Value:
        """Whether all of these numbers are multiples of a power of two, and none is negative."""
        zero, build = self._constant(0, I64), self._build
        flags = []
        for start, step in starts:
            flags.append(build.create("cmp_ge_s", (start, zero))[0])
            if step > 1:
                (rest,) = build.create("and", (start, self._constant(step - 1, I64)))
                flags.append(build.create("cmp_eq", (rest, zero))[0])
        return reduce(lambda a, b: build.create("and", (a, b))[0], flags)

    def _store_by_hardware(self, op: Op, box: Op) -> tuple[()]:
        value = op.operands[1]
        source = self._ops.get(value)
        if source is not None and source.name == "convert" and source not in self._absorbed:
            value = source.operands[0]      # shared memory takes any layout
        way = kept(tile_of(value), store=True)
        attrs = {"memory": way.memory, "swizzle": way.swizzle, "shared": self._is_shared(op),
                 "again": self._is_again(op)}
        base, *places = box.operands[1:]
        self._build.create("box_store", (base, value, *places), attrs)
        return ()

    # -- what else touches the same memory

    def _is_box_store(self, op: Op) -> bool:
        """Whether `op` is a store that never comes to the threads."""
        return op.name == "store" and op in self._boxes and not self._doubtful[op]

    def _may_be_written(self, load: Op) -> bool:
        """Whether threads of this program or of others may write what `load` reads, while the kernel runs.

        What the hardware writes for this program, it has waited for.
        """
        return any(op.row.effects & Effect.WRITES and self._alias.may_overlap(load, op) for op in self._accesses
                   if self._waits_for_others or not self._is_box_store(op))

    def _is_shared(self, store: Op) -> bool:
        """Whether some other access of the kernel may touch what `store` writes, or tells others that it is there."""
        return self._waits_for_others or any(self._alias.may_overlap(store, op) for op in self._accesses
                                             if op is not store and not self._is_box_store(op))

    def _is_again(self, store: Op) -> bool:
        """Whether a block that was stored before may be written again."""
        return any(self._alias.may_overlap(store, op) for op in self._boxes
                   if op is not store and op.name == "store")


def _without_dead(block: Block) -> Block:
    """`block` without pure ops whose results nobody takes."""
    live: set[Value] = set()

    def swept(block: Block) -> Block:
        ops: list[Op] = []
        for op in reversed(block.ops):
            if op.row.is_pure and not op.row.terminator and not any(r in live for r in op.results):
                continue
            live.update(op.operands)
            ops.append(op.updated(regions=[swept(r) for r in reversed(op.regions)][::-1]) if op.regions else op)
        return Block(block.args, tuple(reversed(ops)))

    return swept(block)
