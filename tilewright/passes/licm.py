"""Loop-invariant code motion: pure ops whose operands come from outside of a loop move in front of it.

A loop may run no iteration, so what moves may execute when it did not before.  That is sound because no op of the
table traps: division by zero, overflow and shifts by too much give some value (docs/design.md, Numbers), and a pure op
touches no memory.  A load does: it moves only where it would have been executed anyhow, first thing.  So it must stand
in the body of a `for` that is known to run, not below an `if` and not behind an assertion, nothing in the loop may
change what it reads, and it must not be volatile.  From a `while` no load moves: it may wait for another program.

A `for` that does not move itself still lets its content move out step by step: inner loops are done first.
Tests: tests/passes/golden/licm.
"""

from __future__ import annotations

from tilewright.analysis.alias import Alias
from tilewright.analysis.effects import Effects, is_volatile
from tilewright.analysis.uniform import Uniform
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.rewrite import map_functions, with_ops
from tilewright.ir.walk import is_isolated
from tilewright.passes.manager import Pass


class _Hoister:
    def __init__(self, module: Module, function: Function, effects: Effects) -> None:
        self._effects = effects
        self._alias = Alias(module, function)
        self._facts = Uniform.of(function.body)

    def block(self, block: Block) -> Block:
        """`block` with what can leave its loops in front of them."""
        ops: list[Op] = []
        for op in block.ops:
            if op.regions and not is_isolated(op):
                ops.extend(self._control(op))
            else:
                ops.append(op)
        return with_ops(block, ops)

    def _control(self, op: Op) -> list[Op]:
        """What moves out of `op`, then `op`."""
        regions = [self.block(region) for region in op.regions]
        hoisted: list[Op] = []
        if op.name in ("for", "while"):
            inside: set[Value] = set()
            regions = [self._split(op, region, inside, hoisted) for region in regions]
        same = all(a is b for a, b in zip(regions, op.regions))
        return [*hoisted, op if same else op.updated(regions=regions)]

    def _split(self, loop: Op, region: Block, inside: set[Value], hoisted: list[Op]) -> Block:
        """`region` without its invariant ops, which go to `hoisted`; `inside` collects values that stay in it."""
        inside.update(region.args)
        runs = loop.name == "for" and runs_surely(self._facts, loop)
        kept = []
        for op in region.ops:
            if self._may_leave(op, loop, runs) and inside.isdisjoint(op.operands):
                hoisted.append(op)
                continue
            kept.append(op)
            inside.update(op.results)
        return with_ops(region, kept)

    def _may_leave(self, op: Op, loop: Op, runs: bool) -> bool:
        if op.row.terminator or (op.regions and not is_isolated(op)):
            return False
        if op.name != "load":
            return not op.row.effects & Effect.NESTED and self._effects.is_pure(op)
        return (runs and not is_volatile(op) and not self._effects.of(loop) & Effect.ASSERTS
                and not self._effects.may_change(loop, op, self._alias))


def runs_surely(facts: Uniform, loop: Op) -> bool:
    """Whether the constant bounds of a `for` give it at least one iteration."""
    lower, upper, step = (facts.integer_of(v) for v in loop.operands[:3])
    if lower is None or upper is None or step is None or step == 0:
        return False
    if loop.attrs["unsigned"] and (lower < 0 or upper < 0):
        return False        # large unsigned bounds: not worth a rule
    return lower < upper if step > 0 else lower > upper


def run(module: Module) -> Module:
    """`module` with invariant code in front of its loops."""
    effects = Effects(module)

    def change(function: Function) -> Function:
        return function.with_body(_Hoister(module, function, effects).block(function.body))

    return map_functions(module, change)


LICM = Pass("licm", run, after=("inline", "cse"), why="a value that the outside has already need not move there")
