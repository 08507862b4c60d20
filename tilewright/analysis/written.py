"""Which parameters of a kernel may be read and written through.

Every pointer value has a set of bases: the parameters that it may be derived from, or "somewhere else" for a pointer
that was loaded or made from an integer.  A parameter is written if a store or an atomic op may have it as base.
Before: a module without calls (after `passes.inline`).  Tests: tests/analysis/test_written.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.diagnostics import InternalError
from tilewright.ir.node import Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Pointer, element_of
from tilewright.ir.walk import ops_in

_ELSEWHERE = -1
_TOUCHES = Effect.READS | Effect.WRITES


@dataclass(frozen=True, slots=True)
class Written:
    """Indices of the entry's parameters that a kernel may write through; `anything`: also memory of other origin."""

    params: frozenset[int] = frozenset()
    anything: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """An op that reads or writes memory through its first operand, and whose memory it may be, as in `Written`."""

    op: Op
    params: frozenset[int]
    anything: bool


def written_params(module: Module) -> Written:
    """What the entry of `module` may write."""
    writes = [a for a in accesses(module) if a.op.row.effects & Effect.WRITES]
    return Written(frozenset(p for a in writes for p in a.params), any(a.anything for a in writes))


def accesses(module: Module) -> list[Access]:
    """Every access to memory of the entry of `module`, in program order."""
    ops = list(ops_in(module.entry.body))
    bases: dict[Value, frozenset[int]] = {
        v: frozenset({i}) for i, v in enumerate(module.entry.params) if _is_pointer(v)}
    edges = [edge for op in ops if op.regions or any(_is_pointer(r) for r in op.results) or op.name == "call"
             for edge in _edges(op) if _is_pointer(edge[1])]
    for op in ops:
        for value in _origins(op):
            bases[value] = frozenset({_ELSEWHERE})
    _spread(bases, edges)
    found = [(op, bases.get(op.operands[0], frozenset({_ELSEWHERE}))) for op in ops
             if op.row.effects & _TOUCHES]
    return [Access(op, base - {_ELSEWHERE}, _ELSEWHERE in base) for op, base in found]


def _is_pointer(value: Value) -> bool:
    return isinstance(element_of(value.type), Pointer)


def _origins(op: Op) -> Iterator[Value]:
    """Pointer results of `op` that come from nowhere we know."""
    pointers = [r for r in op.results if _is_pointer(r)]
    if pointers and not op.row.effects & Effect.NESTED and (
            op.row.effects & _TOUCHES or not any(_is_pointer(v) for v in op.operands)):
        yield from pointers


def _edges(op: Op) -> Iterator[tuple[Value, Value]]:
    """(from, to) for all values that `op` may pass on unchanged or moved."""
    if op.name == "call":
        raise InternalError(f"{op.loc}: a call is left; inline before asking what is written")
    if op.name == "for":
        yield from _loop_edges(op.operands[3:], op.regions[0].args[1:], op.regions[0].terminator.operands, op.results)
    elif op.name == "while":
        before, body = op.regions
        passed = before.terminator.operands[1:]
        yield from zip(op.operands, before.args, strict=True)
        yield from zip(passed, body.args, strict=True)
        yield from zip(passed, op.results, strict=True)
        yield from zip(body.terminator.operands, before.args, strict=True)
    elif op.name == "if":
        for region in op.regions:
            yield from zip(region.terminator.operands, op.results, strict=True)
    else:
        targets = [*op.results, *(arg for region in op.regions for arg in region.args)]
        sources = [*op.operands, *(v for region in op.regions for v in region.terminator.operands)]
        yield from ((s, t) for s in sources for t in targets)


def _loop_edges(inits: Sequence[Value], args: Sequence[Value], yielded: Sequence[Value],
                results: Sequence[Value]) -> Iterator[tuple[Value, Value]]:
    for incoming in (inits, yielded):
        yield from zip(incoming, args, strict=True)
        yield from zip(incoming, results, strict=True)


def _spread(bases: dict[Value, frozenset[int]], edges: Sequence[tuple[Value, Value]]) -> None:
    """Union along `edges` until nothing changes."""
    changed = True
    while changed:
        changed = False
        for source, target in edges:
            if source in bases:
                grown = bases.get(target, frozenset()) | bases[source]
                if grown != bases.get(target):
                    bases[target] = grown
                    changed = True
