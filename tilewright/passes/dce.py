"""Dead code: ops whose results no one needs and that have no effect; carried values and results of the same kind.

Needed is what an effect needs: operands of stores, prints and assertions, and what decides whether they execute
(flags, loop bounds).  From there `_Marker` goes backwards, through loops and branches one position at a time, so that a
carried value which only feeds itself is dead.  `_Sweeper` then rebuilds without what was not marked.

A `for` without effects goes: it ends.  A `while` goes if it has no effect and reads no memory: one that reads may be
waiting for another program.  A dead load goes unless it is volatile.  Functions that are not called go.
Tests: tests/passes/golden/dce.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.effects import Effects, is_volatile
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.rewrite import map_functions, with_ops, without_unreachable
from tilewright.ir.walk import Definition, definitions
from tilewright.passes.manager import Pass

_KEEPS = Effect.WRITES | Effect.PRINTS | Effect.ASSERTS


class _Marker:
    """The needed ops and values of a function."""

    def __init__(self, body: Block, effects: Effects) -> None:
        self.ops: set[Op] = set()
        self.values: set[Value] = set()
        self._effects = effects
        self._definitions: dict[Value, Definition] = definitions(body)
        self._owner: dict[Op, Op] = {}
        self._waiting: list[Value] = []
        self._find_roots(body, None)
        self._need(body.terminator.operands)
        while self._waiting:
            self._follow(self._waiting.pop())

    def _find_roots(self, block: Block, owner: Op | None) -> None:
        for op in block.ops:
            if owner is not None:
                self._owner[op] = owner
            if self._acts(op):
                self._need_op(op)
            for region in op.regions:
                self._find_roots(region, op)

    def _acts(self, op: Op) -> bool:
        """Whether `op` must stay for what it does itself."""
        if op.name == "while":
            return bool(self._effects.of(op) & (_KEEPS | Effect.READS))
        if "callee" in op.attrs:
            return bool(self._effects.of(op) & _KEEPS)
        return bool(op.row.effects & _KEEPS) or is_volatile(op)

    def _need(self, values: Sequence[Value]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self._waiting.append(value)

    def _need_op(self, op: Op | None) -> None:
        """`op` executes: so do the ops around it, on what decides that they do."""
        while op is not None and op not in self.ops:
            self.ops.add(op)
            if op.name == "for":
                self._need(op.operands[:3])
            elif op.name == "while":
                self._need(op.regions[0].terminator.operands[:1])
            else:
                self._need(op.operands)
                if op.name != "if":
                    for region in op.regions:       # a combine region as a whole
                        self._need(region.terminator.operands)
            op = self._owner.get(op)

    def _follow(self, value: Value) -> None:
        """`value` is needed: so is what it comes from."""
        definition = self._definitions[value]
        op, index = definition.op, definition.index
        self._need_op(op)
        if op is None:
            return
        if op.name == "for":
            position = index - 1 if definition.is_argument else index
            if position >= 0:       # not the loop's index
                self._need((op.operands[3 + position], op.regions[0].terminator.operands[position],
                            op.regions[0].args[1 + position]))
        elif op.name == "if":
            self._need([region.terminator.operands[index] for region in op.regions])
        elif op.name == "while":
            self._follow_while(op, definition)

    def _follow_while(self, op: Op, definition: Definition) -> None:
        before, body = op.regions
        index = definition.index
        if definition.block is before:
            self._need((op.operands[index], body.terminator.operands[index]))
        else:       # an argument of the body, or a result: what the condition passes
            self._need((before.terminator.operands[1 + index],))


class _Sweeper:
    """Rebuilds blocks without what is not needed; what stays whole stays the same object."""

    def __init__(self, marker: _Marker) -> None:
        self._ops = marker.ops
        self._values = marker.values

    def block(self, block: Block) -> Block:
        """`block` with its needed ops and its terminator."""
        ops = [self._op(op) for op in block.ops[:-1] if op in self._ops]
        return with_ops(block, [*ops, block.terminator])

    def _op(self, op: Op) -> Op:
        if not op.regions:
            return op
        regions = [self.block(region) for region in op.regions]
        if op.name == "for":
            return self._for(op, regions[0])
        if op.name == "if":
            return self._if(op, regions)
        if op.name == "while":
            return self._while(op, regions)
        same = all(a is b for a, b in zip(regions, op.regions))
        return op if same else op.updated(regions=regions)

    def _live(self, *columns: Sequence[Value]) -> list[int]:
        """Positions at which a value of any column is needed."""
        return [i for i, row in enumerate(zip(*columns, strict=True)) if any(v in self._values for v in row)]

    def _for(self, op: Op, body: Block) -> Op:
        keep = self._live(op.results, body.args[1:])
        body = _narrowed(body, [0, *(i + 1 for i in keep)], keep)
        return _rebuilt(op, [*op.operands[:3], *_pick(op.operands[3:], keep)], _pick(op.results, keep), [body])

    def _if(self, op: Op, regions: Sequence[Block]) -> Op:
        keep = self._live(op.results)
        return _rebuilt(op, op.operands, _pick(op.results, keep), [_narrowed(r, [], keep) for r in regions])

    def _while(self, op: Op, regions: Sequence[Block]) -> Op:
        before, body = regions
        carried = self._live(before.args)
        passed = self._live(op.results, body.args)
        before = _narrowed(before, carried, [0, *(i + 1 for i in passed)])
        body = _narrowed(body, passed, carried)
        return _rebuilt(op, _pick(op.operands, carried), _pick(op.results, passed), [before, body])


def _pick(values: Sequence[Value], positions: Sequence[int]) -> tuple[Value, ...]:
    return tuple(values[i] for i in positions)


def _narrowed(block: Block, args: Sequence[int], yielded: Sequence[int]) -> Block:
    """`block` with some of its arguments and of what its terminator takes."""
    last = block.terminator
    if len(yielded) != len(last.operands):
        block = Block(block.args, (*block.ops[:-1], last.updated(operands=_pick(last.operands, yielded))))
    return block if len(args) == len(block.args) else Block(_pick(block.args, args), block.ops)


def _rebuilt(op: Op, operands: Sequence[Value], results: Sequence[Value], regions: Sequence[Block]) -> Op:
    same = (len(operands) == len(op.operands) and len(results) == len(op.results)
            and all(a is b for a, b in zip(regions, op.regions)))
    return op if same else Op(op.row, operands, results, op.attrs, regions, op.loc)


def run(module: Module) -> Module:
    """`module` without code that no one needs."""
    module = without_unreachable(module)
    effects = Effects(module)

    def change(function: Function) -> Function:
        return function.with_body(_Sweeper(_Marker(function.body, effects)).block(function.body))

    return map_functions(module, change)


DCE = Pass("dce", run, after=("inline", "fold", "cse", "uniform_carry"), why="they leave unused ops behind")
