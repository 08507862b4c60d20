"""What the batched interpreter must know of a module before it runs it.

* `spins`: whether some `while` loop's condition depends on memory that the loop itself reads.  Such a loop may wait
  for what another program stores, so the launch runs one program at a time, in ascending order (docs/design.md,
  Forward progress).
* `foreign_accesses`: the loads and stores whose pointer may have come out of memory (loaded, or made of an integer),
  not from an argument.  Every other access must stay within the arguments' extents.
* `reached`: the values into which results of some ops may have found their way.
* `bytes_per_program`: an estimate of the memory that one program's values take, for the size of a batch.

The module need not be inlined.  Tests: tests/interpret/test_dataflow.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.ops import Effect
from tilewright.ir.types import Pointer, Tile, Type, element_of, storage_dtype


def _all_ops(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _all_ops(region)


def _passed_values(op: Op, module: Module) -> Iterator[tuple[Value, Value]]:
    """(from, to) pairs of values that control flow passes on: into block arguments, callees, and out again."""
    if op.name == "for":
        (body,) = op.regions
        inits, next_ = op.operands[3:], body.terminator.operands
        for targets in (body.args[1:], op.results):
            yield from zip(inits, targets, strict=True)
            yield from zip(next_, targets, strict=True)
    elif op.name == "while":
        before, body = op.regions
        yield from zip(op.operands, before.args, strict=True)
        yield from zip(body.terminator.operands, before.args, strict=True)
        for targets in (body.args, op.results):
            yield from zip(before.terminator.operands[1:], targets, strict=True)
    elif op.name == "if":
        for region in op.regions:
            yield from zip(region.terminator.operands, op.results, strict=True)
    elif op.name == "call":
        callee = module.functions[op.attrs["callee"]]
        yield from zip(op.operands, callee.params, strict=True)
        yield from zip(callee.body.terminator.operands, op.results, strict=True)


# -- pointers out of memory ----------------------------------------------------------------------------------

def _is_pointer(value: Value) -> bool:
    return isinstance(element_of(value.type), Pointer)


def foreign_accesses(module: Module) -> frozenset[int]:
    """The ids (`id`) of the ops with a memory effect whose pointer may have come out of memory."""
    ops = [op for function in module.functions.values() for op in _all_ops(function.body)]
    foreign: set[Value] = set()
    grew = True
    while grew:
        before = len(foreign)
        for op in ops:
            foreign |= _foreign_results(op, foreign)
            foreign |= {to for origin, to in _passed_values(op, module) if origin in foreign}
        grew = len(foreign) > before
    touches = Effect.READS | Effect.WRITES
    return frozenset(id(op) for op in ops if op.row.effects & touches and any(v in foreign for v in op.operands[:1]))


def _foreign_results(op: Op, foreign: set[Value]) -> set[Value]:
    """Pointer results of an op without control flow that are foreign."""
    if op.row.ref is None:
        return set()
    sources = [v for v in op.operands if _is_pointer(v)]
    made = bool(op.row.effects & Effect.READS) or not sources      # loaded, or an integer or a constant made a pointer
    if made or any(v in foreign for v in sources):
        return {r for r in op.results if _is_pointer(r)}
    return set()


# -- values made of others ------------------------------------------------------------------------------------

def reached(module: Module, starts: Callable[[Op], bool]) -> set[Value]:
    """The results of the ops that `starts` names, and every value that is computed of them outside of memory."""
    ops = [op for function in module.functions.values() for op in _all_ops(function.body)]
    found = {v for op in ops if starts(op) for v in op.results}
    grew = bool(found)
    while grew:
        before = len(found)
        for op in ops:
            if op.row.ref is None:
                found |= {to for origin, to in _passed_values(op, module) if origin in found}
            elif not found.isdisjoint(op.operands):
                found.update(op.results)
        grew = len(found) > before
    return found


# -- loops that wait -----------------------------------------------------------------------------------------

def spins(module: Module) -> bool:
    """Whether a `while` condition anywhere depends on a read that its own loop does."""
    reads = _functions_that_read(module)
    return any(_spins(op, module, reads) for function in module.functions.values() for op in _all_ops(function.body)
               if op.name == "while")


def _functions_that_read(module: Module) -> frozenset[str]:
    found: set[str] = set()
    grew = True
    while grew:
        before = len(found)
        found |= {name for name, function in module.functions.items()
                  if any(_reads(op, found) for op in _all_ops(function.body))}
        grew = len(found) > before
    return frozenset(found)


def _reads(op: Op, readers: Sequence[str] | set[str] | frozenset[str]) -> bool:
    return bool(op.row.effects & Effect.READS) or (op.name == "call" and op.attrs["callee"] in readers)


def _spins(loop: Op, module: Module, readers: frozenset[str]) -> bool:
    tainted: set[Value] = set()
    ops = [loop, *(op for region in loop.regions for op in _all_ops(region))]
    grew = True
    while grew:
        before = len(tainted)
        for op in ops:
            _taint(op, module, readers, tainted)
        grew = len(tainted) > before
    return loop.regions[0].terminator.operands[0] in tainted


def _taint(op: Op, module: Module, readers: frozenset[str], tainted: set[Value]) -> None:
    """Add to `tainted` what `op` computes from a read or from a tainted value, by data or by control."""
    if _reads(op, readers) or (op.row.ref is not None and any(v in tainted for v in op.operands)):
        tainted.update(op.results)
    if op.row.ref is not None:
        for region in op.regions:                       # reduce: its region sees elements of its operands
            if any(v in tainted for v in op.operands):
                tainted.update(region.args)
            if any(v in tainted for v in region.terminator.operands):
                tainted.update(op.results)
        return
    if op.name == "call" and any(v in tainted for v in op.operands):
        tainted.update(op.results)
    decides = {"for": op.operands[:3], "if": op.operands[:1]}.get(op.name, ())
    if op.name == "while" and op.regions[0].terminator.operands[0] in tainted:
        tainted.update(op.results)
    if any(v in tainted for v in decides):
        tainted.update(op.results)
        for region in op.regions:
            tainted.update(region.args)
    if op.name != "call":
        tainted.update(to for origin, to in _passed_values(op, module) if origin in tainted)


# -- memory --------------------------------------------------------------------------------------------------

_TEMPORARIES = 6            # float64 arrays of the op's size that a meaning may hold at once


def _numel(t: Type) -> int:
    return t.numel if isinstance(t, Tile) else 1


def _function_bytes(function: Function) -> tuple[int, int]:
    held = working = 0
    for op in _all_ops(function.body):
        held += sum(_numel(r.type) * storage_dtype(r.type).itemsize for r in op.results)
        working = max([working, *(_numel(v.type) * 8 for v in (*op.operands, *op.results))])
    return held, working


def bytes_per_program(module: Module) -> int:
    """Bytes that one program needs at most, loops counted once."""
    sizes = [_function_bytes(function) for function in module.functions.values()]
    return sum(held for held, _ in sizes) + _TEMPORARIES * max(working for _, working in sizes) + 64
