"""Common subexpressions: an op that computes what a visible earlier op has computed is replaced by its results.

Pure ops: equal row, operands (in any order where the row commutes), attributes and combine region.  A value is visible
in its block behind its op and in regions below, but not in combine regions, which see their arguments only.

Loads: equal pointer, mask, other and hints, if nothing between the two may change what they read.  A loop may have run
its body before: what it changes is forgotten on entry already.  A `while` that reads memory may change anything: it
may be waiting for another program to write.  A volatile load is never touched.
Tests: tests/passes/golden/cse.
"""

from __future__ import annotations

from collections.abc import Hashable

from tilewright.analysis.alias import Alias
from tilewright.analysis.effects import Effects, is_volatile
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.ops.table import Algebra, Effect
from tilewright.ir.rewrite import Replacement, Rewriter, map_functions
from tilewright.ir.walk import is_isolated
from tilewright.passes.folding import constant_key
from tilewright.passes.manager import Pass

_Key = tuple[Hashable, ...]

# Loads that are remembered: each write looks through them, so without a limit a long body would take quadratic time.
_MOST_LOADS = 64


def _attribute_key(value: object) -> Hashable:
    """A hashable that tells True from 1 and -0.0 from 0.0, which compare equal."""
    if isinstance(value, float):
        return ("float", constant_key(value))
    if isinstance(value, tuple):
        return tuple(_attribute_key(v) for v in value)
    return (type(value).__name__, value)


def _op_key(op: Op, numbers: dict[Value, int]) -> _Key:
    """What `op` computes; `numbers` gives the values of a combine region names that do not depend on identity."""
    operands: list[Hashable] = [numbers.get(v, v) for v in op.operands]
    if op.row.algebra & Algebra.COMMUTATIVE:
        operands.sort(key=hash)         # the order within a key is all that it decides
    attrs = tuple([(name, _attribute_key(value)) for name, value in op.attrs.items()]) if op.attrs else ()
    regions = tuple([_region_key(region, numbers) for region in op.regions]) if op.regions else ()
    return (op.name, tuple(operands), attrs, regions)


def _region_key(block: Block, numbers: dict[Value, int]) -> _Key:
    for arg in block.args:
        numbers[arg] = len(numbers)
    keys: list[Hashable] = [tuple(a.type for a in block.args)]
    for op in block.ops:
        keys.append(_op_key(op, numbers))
        for result in op.results:
            numbers[result] = len(numbers)
    return tuple(keys)


class _Scope:
    """What is available in one block and, through `outer`, around it."""

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.results: dict[_Key, tuple[Value, ...]] = {}
        self.loads: dict[_Key, Op] = {} if outer is None else dict(outer.loads)

    def find(self, key: _Key) -> tuple[Value, ...] | None:
        scope: _Scope | None = self
        while scope is not None:
            found = scope.results.get(key)
            if found is not None:
                return found
            scope = scope.outer
        return None


class _Eliminator(Rewriter):
    def __init__(self, module: Module, function: Function, effects: Effects) -> None:
        super().__init__()
        self._effects = effects
        self._alias = Alias(module, function)
        self._scope = _Scope(None)
        self._outer: list[_Scope] = []

    def enter_region(self, op: Op, region: Block) -> None:
        if op.name in ("for", "while"):
            self._forget_changed(op)
        self._outer.append(self._scope)
        self._scope = _Scope(None if is_isolated(op) else self._scope)

    def leave_region(self, op: Op, region: Block) -> None:
        self._scope = self._outer.pop()

    def _forget_changed(self, op: Op) -> None:
        loads = self._scope.loads
        for key in [k for k, load in loads.items() if self._effects.may_change(op, load, self._alias)]:
            del loads[key]

    def visit(self, op: Op) -> Replacement | None:
        effect = self._effects.of(op)
        if effect is Effect.NONE and not op.row.terminator and (not op.regions or is_isolated(op)):
            return self._reuse(op)
        if op.name == "load" and not is_volatile(op):
            return self._reuse_load(op)
        if effect & Effect.WRITES or op.row.effects & Effect.NESTED:
            self._forget_changed(op)
        return None

    def _reuse(self, op: Op) -> Replacement | None:
        if op.row.effects & Effect.NESTED:
            return None
        key = _op_key(op, {})
        found = self._scope.find(key)
        if found is not None:
            return Replacement(found)
        self._scope.results[key] = op.results
        return None

    def _reuse_load(self, op: Op) -> Replacement | None:
        key = _op_key(op, {})
        found = self._scope.loads.get(key)
        if found is not None:
            return Replacement(found.results)
        loads = self._scope.loads
        loads[key] = op
        if len(loads) > _MOST_LOADS:
            del loads[next(iter(loads))]
        return None


def run(module: Module) -> Module:
    """`module` with each visible value computed once."""
    effects = Effects(module)

    def change(function: Function) -> Function:
        return function.with_body(_Eliminator(module, function, effects).block(function.body))

    return map_functions(module, change)


CSE = Pass("cse", run, after=("fold",), why="folding makes equal constants and brings ops into one form")
