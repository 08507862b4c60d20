"""Rebuilding IR without changing it: a forward rewriter, substitution, and clones for inlining.

**Identity means unchanged**: what a rewrite leaves alone comes back as the same object (op, block, function, module),
so `after is not before` is the answer to "did it change", and unchanged subtrees are shared.  A rebuilt op keeps its
result values, so its users stay as they are; only where a value is replaced by another do users change.
Tests: tests/ir/test_rewrite.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.diagnostics import Location
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.walk import ops_in


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands for an op: `ops` in its place, and `values` for its results, one each."""

    values: tuple[Value, ...]
    ops: tuple[Op, ...] = ()


class Rewriter:
    """One walk in program order; a pass overrides `visit`.

    `visit` sees an op whose operands are replaced already and whose regions are rewritten.  It returns None to keep
    the op, an op with the same results to put in its place, or a `Replacement`.  Ops that it inserts are not visited.
    """

    def __init__(self) -> None:
        self._values: dict[Value, Value] = {}

    def visit(self, op: Op) -> Op | Replacement | None:
        """What becomes of `op`; the base class keeps all."""
        return None

    def enter_region(self, op: Op, region: Block) -> None:
        """Called before a region of `op` is rewritten."""

    def leave_region(self, op: Op, region: Block) -> None:
        """Called after a region of `op` was rewritten."""

    def value(self, value: Value) -> Value:
        """What stands for `value` now."""
        return self._values.get(value, value)

    def replace_value(self, old: Value, new: Value) -> None:
        """Uses of `old` that are still ahead take `new`."""
        self._values[old] = new

    def block(self, block: Block) -> Block:
        """The rewritten block; the same object if nothing in it changed."""
        ops: list[Op] = []
        changed = False
        for op in block.ops:
            rebuilt = self._rebuild(op)
            outcome = self.visit(rebuilt)
            if outcome is None:
                outcome = rebuilt
            if isinstance(outcome, Op):
                ops.append(outcome)
                changed = changed or outcome is not op
            else:
                changed = True
                ops.extend(outcome.ops)
                for old, new in zip(op.results, outcome.values, strict=True):
                    self._values[old] = new
        return Block(block.args, tuple(ops)) if changed else block

    def _rebuild(self, op: Op) -> Op:
        """`op` with operands replaced and regions rewritten."""
        values = self._values
        operands = None
        if values:
            for operand in op.operands:
                if operand in values:
                    operands = [values.get(v, v) for v in op.operands]
                    break
        regions = None
        if op.regions:
            rewritten = []
            for region in op.regions:
                self.enter_region(op, region)
                rewritten.append(self.block(region))
                self.leave_region(op, region)
            if any(a is not b for a, b in zip(rewritten, op.regions)):
                regions = rewritten
        return op if operands is None and regions is None else op.updated(operands=operands, regions=regions)


class _Substitution(Rewriter):
    def __init__(self, values: Mapping[Value, Value]) -> None:
        super().__init__()
        self._values.update(values)


def substitute(block: Block, values: Mapping[Value, Value]) -> Block:
    """`block` with every use of a key of `values` replaced by its value."""
    return _Substitution(values).block(block) if values else block


def with_operands(op: Op, operands: Sequence[Value]) -> Op:
    """`op` with `operands`; the same object if they are the ones that it has."""
    same = len(operands) == len(op.operands) and all(a is b for a, b in zip(operands, op.operands))
    return op if same else op.updated(operands=operands)


def with_ops(block: Block, ops: Sequence[Op]) -> Block:
    """`block` with `ops`; the same object if they are the ones that it has."""
    same = len(ops) == len(block.ops) and all(a is b for a, b in zip(ops, block.ops))
    return block if same else Block(block.args, tuple(ops))


def map_functions(module: Module, change: Callable[[Function], Function]) -> Module:
    """`module` with `change` applied to every function."""
    return module.with_functions({name: change(function) for name, function in module.functions.items()})


def map_bodies(module: Module, change: Callable[[Block], Block]) -> Module:
    """`module` with `change` applied to the body of every function."""
    return map_functions(module, lambda function: function.with_body(change(function.body)))


def without_unreachable(module: Module) -> Module:
    """`module` without the functions that the entry does not reach by calls."""
    reached: set[str] = set()
    waiting = [module.entry_name]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [op.attrs["callee"] for op in ops_in(module.functions[name].body) if op.name == "call"]
    return module.with_functions({n: f for n, f in module.functions.items() if n in reached})


class Cloner:
    """Copies with fresh values; every location gets `caller` at the end of its chain of call sites.

    `values` maps what is used in the copied code to what the copy uses; values that it does not name and that the
    copied code does not define stay as they are.
    """

    def __init__(self, values: Mapping[Value, Value], caller: Location | None = None) -> None:
        self.values: dict[Value, Value] = dict(values)
        self._caller = caller
        self._locations: dict[Location, Location] = {}

    def _location(self, location: Location) -> Location:
        if self._caller is None:
            return location
        known = self._locations.get(location)
        if known is None:
            known = self._locations[location] = location.called_from(self._caller)
        return known

    def _fresh(self, values: Sequence[Value]) -> list[Value]:
        fresh = [Value(v.type, v.hint) for v in values]
        self.values.update(zip(values, fresh, strict=True))
        return fresh

    def op(self, op: Op) -> Op:
        """A copy of `op` with fresh results."""
        operands = [self.values.get(v, v) for v in op.operands]
        regions = [self.block(region) for region in op.regions]
        return Op(op.row, operands, self._fresh(op.results), op.attrs, regions, self._location(op.loc))

    def block(self, block: Block) -> Block:
        """A copy of `block` with fresh arguments."""
        args = self._fresh(block.args)
        return Block(tuple(args), tuple(self.op(op) for op in block.ops))


def inlined(body: Block, arguments: Sequence[Value],
            caller: Location | None = None) -> tuple[tuple[Op, ...], tuple[Value, ...]]:
    """A copy of `body` on `arguments`, without its terminator: the ops, and what the terminator takes."""
    cloner = Cloner(dict(zip(body.args, arguments, strict=True)), caller)
    ops = tuple(cloner.op(op) for op in body.ops[:-1])
    return ops, tuple(cloner.values.get(v, v) for v in body.terminator.operands)
