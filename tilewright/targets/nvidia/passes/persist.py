"""Programs that a block of threads runs one after another: while it works on one, the next one's tiles are loaded.

    before                          after
    x = load p(program_id)          x0 = load p(block_id)
    m = reduce x                    for i = block_id to num_programs step num_blocks, x = x0:
    store q(program_id), f(x, m)        next = load p(i + num_blocks) where there is such a program
                                        m = reduce x
                                        store q(i), f(x, m)
                                        yield next

Where an SM has room for one program only, nothing else uses the memory while that one's threads wait for one another
in its reductions: softmax of 4096 x 32768 bf16 then moves 3038 GB/s of the 4200 that a copy does (H200, 2026-11-30).

A load goes that way if its address and mask are made of the program's index along x by arithmetic alone, and nothing
in the kernel writes what it reads (which needs `disjoint`).  The programs must be such as may run in any order: no
atomic operation, nothing that waits, prints, asserts or is the user's assembly.  It pays where one program fills an
SM, is large, and reduces; and it needs registers for two programs' tiles, those of the next one as they are loaded.
The launch has fewer blocks then than programs (`num_programs` comes as a hidden parameter).

Before: laid-out IR, no barriers yet.  After: the same stage.  Tests: tests/targets/nvidia/test_persist.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tilewright.analysis.alias import Alias, written_bases
from tilewright.analysis.effects import is_volatile
from tilewright.ir.build import Builder
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops import Effect
from tilewright.ir.rewrite import Cloner
from tilewright.ir.types import I32, Pointer, Tile, element_of
from tilewright.ir.walk import defining_ops, ops_in
from tilewright.passes.dce import DCE
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.pressure import WAITS, fits, programs_per_sm

_LEAST_BYTES = 32 << 10     # of the tiles that are loaded ahead; smaller programs wait less than the loop costs
# Programs that an SM has room for otherwise, at most.  GB/s on an H200, 2026-11-30, otherwise and looped: one program,
# rows of 32768 bf16, 32, 16 and 8 warps: 2963 -> 3656, 2865 -> 3708, 2926 -> 3695; two, rows of 16384 bf16: 3630 ->
# 3686, 3471 -> 3742, 3461 -> 3679, but of 16384 fp32: 3962 -> 3784, 3997 -> 3830; four, 8192 bf16: 3768 -> 3589.
_MOST_PROGRAMS, _MOST_NARROW = 1, 2
FEW_BYTES = 32      # that a thread may spill for the loop; more cost more than it gains
_MEMORY = frozenset({"load", "store"})
_BARRED = frozenset({"for", "while", "call", "inline_asm", "inline_asm_ordered"})
_USUAL = Effect.READS | Effect.WRITES | Effect.CONTROL | Effect.NESTED


def persist(module: Module, num_warps: int, capability: Capability) -> Module:
    """`module` with a loop over programs, if that is allowed and pays."""
    body = module.entry.body
    if not module.disjoint or not any(op.name in WAITS for op in body.ops) or not _any_order(body):
        return module
    loads = _made_ahead(module)
    narrow = all(element_of(load.result.type).bytes < 4 for load in loads)
    most = _MOST_NARROW if narrow else _MOST_PROGRAMS
    if sum(_bytes(load) for load in loads) < _LEAST_BYTES or programs_per_sm(module, num_warps, capability) > most:
        return module
    entry = module.entry
    looped = DCE.run(replace(module, functions={entry.name: entry.with_body(_Loop(body, loads).rebuilt())}))
    return looped if fits(looped, num_warps) else module


def is_persistent(module: Module) -> bool:
    """Whether a block runs more than one program."""
    return any(op.name == "block_id" for op in module.entry.body.ops)


def _any_order(body: Block) -> bool:
    """Whether a program does nothing that others, or a person, could tell the order of programs by."""
    return not any(op.name in _BARRED or op.row.effects & ~_USUAL or is_volatile(op)
                   or (op.row.effects & (Effect.READS | Effect.WRITES) and op.name not in _MEMORY)
                   for op in ops_in(body))


def _bytes(load: Op) -> int:
    tile = load.result.type
    assert isinstance(tile, Tile)
    return tile.numel * element_of(tile).bytes


def _made_ahead(module: Module) -> list[Op]:
    """The loads of tiles that can be made before the program before has ended."""
    body = module.entry.body
    ops, alias = defining_ops(body), Alias(module)
    written = written_bases(module, alias)
    found = []
    for op in body.ops:
        if op.name != "load" or not isinstance(op.result.type, Tile) or isinstance(op.result.type.element, Pointer):
            continue
        bases = alias.bases(op.operands[0])
        above = above_of(op, ops)
        if (bases is not None and bases.isdisjoint(written) and all(o.row.is_pure for o in above)
                and any(_is_index(o) for o in above)):
            found.append(op)
    return found


def above_of(load: Op, ops: Mapping[Value, Op]) -> set[Op]:
    """The ops that the operands of `load` are made of."""
    found: set[Op] = set()
    work = list(load.operands)
    while work:
        op = ops.get(work.pop())
        if op is not None and op not in found:
            found.add(op)
            work += op.operands
    return found


def _is_index(op: Op) -> bool:
    """Whether this is the program's index along x."""
    return op.name == "program_id" and op.attrs["axis"] == 0


class _Loop:
    """The body of a kernel being rebuilt."""

    def __init__(self, body: Block, loads: Sequence[Op]) -> None:
        self._body, self._loads = body, loads
        ops = defining_ops(body)
        above = {o for load in loads for o in above_of(load, ops)}
        self._index = {op.result for op in body.ops if _is_index(op)}
        changing = _changing(body, self._index)
        self._addresses = [op for op in body.ops if op in above and op in changing]
        self._invariant = {op for op in above if op not in changing and op.result not in self._index}
        self._build = Builder()

    def rebuilt(self) -> Block:
        build = self._build
        with build.block() as ops:
            first, count = (build.create(name, (), {"axis": 0})[0] for name in ("block_id", "num_blocks"))
            programs = build.create("num_programs", (), {"axis": 0})[0]
            for op in self._body.ops:
                if op in self._invariant:
                    build.append(op)
            inits = self._load(first)

            def program(index: Value, *tiles: Value) -> Sequence[Value]:
                following = build.create("add", (index, count))[0]
                left = build.create("sub", (programs, index))[0]
                ahead = self._load_where(build.create("cmp_lt_s", (count, left))[0], following, tiles)
                self._program(index, tiles)
                return ahead

            region = build.region([I32, *(v.type for v in inits)], program, hints=["program"])
            build.create("for", (first, programs, count, *inits), {"unsigned": False, "stages": 1}, [region])
            build.append(self._body.terminator)
        return Block(self._body.args, tuple(ops))

    def _load(self, index: Value) -> list[Value]:
        """The tiles of program `index`."""
        cloner = Cloner(dict.fromkeys(self._index, index))
        for op in self._addresses:
            self._build.append(cloner.op(op))
        return [self._build.append(cloner.op(load))[0] for load in self._loads]

    def _load_where(self, exists: Value, index: Value, otherwise: Sequence[Value]) -> Sequence[Value]:
        """The same if there is such a program, else `otherwise`, which nobody looks at.

        A branch, not a mask: what stands in a block of its own is begun there, before the program at hand waits for
        its tiles; ptxas would let loads with predicates wait until they are needed.
        """
        ways = [self._build.region((), lambda: self._load(index)), self._build.region((), lambda: otherwise)]
        return self._build.create("if", (exists,), {}, ways)

    def _program(self, index: Value, tiles: Sequence[Value]) -> None:
        """What a program does beside its loads."""
        values = dict.fromkeys(self._index, index)
        values.update(zip((load.result for load in self._loads), tiles, strict=True))
        cloner = Cloner(values)
        for op in self._body.ops[:-1]:
            if op not in self._loads and op not in self._invariant and not _is_index(op):
                self._build.append(cloner.op(op))


def _changing(body: Block, index: Collection[Value]) -> set[Op]:
    """The ops of `body` that give other results for other programs, as far as arithmetic says."""
    found: set[Op] = set()
    values = set(index)
    for op in body.ops:
        if not values.isdisjoint(op.operands):
            found.add(op)
            values.update(op.results)
    return found
