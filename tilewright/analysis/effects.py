"""What ops do beside computing: effects with all that is nested, and what a load may move across.

`row.effects` says what an op does itself; `Effects.of` adds its regions and its callee, so NESTED is gone from the
answer.  CONTROL is left out as well: a terminator does nothing by itself.
Tests: tests/analysis/test_effects.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.analysis.alias import Alias
from tilewright.ir.node import Block, Module, Op
from tilewright.ir.ops.table import Effect
from tilewright.ir.walk import ops_in

_OWN = ~(Effect.NESTED | Effect.CONTROL)


def is_volatile(op: Op) -> bool:
    """Whether every execution of a memory access counts."""
    return bool(op.attrs.get("volatile", False))


class Effects:
    """Effects of the ops of one module; answers are kept."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._ops: dict[Op, Effect] = {}
        self._functions: dict[str, Effect] = {}
        self._waits: dict[Op, bool] = {}

    def of(self, op: Op) -> Effect:
        """All effects of executing `op` once."""
        row = op.row
        if row.effects is Effect.NONE and not op.regions:
            return Effect.NONE
        if not op.regions and not row.effects & Effect.NESTED:
            return row.effects & _OWN
        known = self._ops.get(op)
        if known is None:
            known = row.effects & _OWN
            for region in op.regions:
                known |= self.of_block(region)
            if row.effects & Effect.NESTED and "callee" in op.attrs:
                known |= self.of_function(op.attrs["callee"])
            self._ops[op] = known
        return known

    def of_block(self, block: Block) -> Effect:
        """All effects of executing `block` once."""
        effects = Effect.NONE
        for op in block.ops:
            effects |= self.of(op)
        return effects

    def of_function(self, name: str) -> Effect:
        """All effects of calling a function."""
        known = self._functions.get(name)
        if known is None:
            known = self._functions[name] = self.of_block(self._module.functions[name].body)
        return known

    def is_pure(self, op: Op) -> bool:
        """No effect, and no dependence on memory."""
        return self.of(op) is Effect.NONE

    def accesses(self, op: Op, kind: Effect) -> Iterator[Op]:
        """`op` and the ops below it, callees included, that READ or WRITE themselves as `kind` asks."""
        if op.row.effects & kind:
            yield op
        if not op.row.effects & Effect.NESTED and not op.regions:
            return
        if "callee" in op.attrs:
            for nested in ops_in(self._module.functions[op.attrs["callee"]].body):
                yield from self._access(nested, kind)
        for region in op.regions:
            for nested in ops_in(region):
                yield from self._access(nested, kind)

    def _access(self, op: Op, kind: Effect) -> Iterator[Op]:
        if "callee" in op.attrs:
            yield from self.accesses(op, kind)
        elif op.row.effects & kind:
            yield op

    def waits(self, op: Op) -> bool:
        """Whether `op` contains a `while` that reads memory: it may wait until another program has written."""
        if op.name == "while":
            return bool(self.of(op) & Effect.READS)
        if not op.row.effects & Effect.NESTED:
            return False
        known = self._waits.get(op)
        if known is None:
            bodies = [*op.regions]
            if "callee" in op.attrs:
                bodies.append(self._module.functions[op.attrs["callee"]].body)
            known = self._waits[op] = any(self.waits(nested) for body in bodies for nested in body.ops)
        return known

    def may_change(self, op: Op, load: Op, alias: Alias) -> bool:
        """Whether executing `op` may change what `load` reads: by writing, ordering, or waiting for another program."""
        if self.waits(op) or self.of(op) & Effect.ORDERS:
            return True
        if not self.of(op) & Effect.WRITES:
            return False
        return any(alias.may_overlap(write, load) for write in self.accesses(op, Effect.WRITES))

    def may_cross(self, load: Op, ops: Iterable[Op], alias: Alias) -> bool:
        """Whether `load` reads the same before and after `ops`, so that it may move across them, in either direction.

        Moving it to where it is executed when it was not before is another question: a load may fault.
        """
        return not is_volatile(load) and not any(self.may_change(op, load, alias) for op in ops)
