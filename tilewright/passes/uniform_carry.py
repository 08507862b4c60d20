"""Loop-carried tiles that advance by a scalar become an invariant tile and a carried scalar offset.

    p = p0                                       o = 0
    for ...:                                     for ...:              (and `while`)
        use(p)                             ->        use(p0 + splat(o))
        p = p + splat(s)                             o = o + s
    use(p)                                       use(p0 + splat(o))

for tiles of pointers (`ptr_add`, offsets in i64) and of integers (`add`, `sub`).  Steps may be several in a row, and
`s` may differ in each iteration.  So later stages see addresses that are an affine tile and a scalar, where a tile of
pointers that a loop carries would have to be kept in memory and every load through it be a gather.

Exact: addresses are counted modulo 2**64 and i64 offsets wrap there; integers wrap at their own width.  Carried
scalars stay as they are.  Inner loops go first; what an inner loop adds is then one more step of the outer one.
The old steps are left for `dce`.  Tests: tests/passes/golden/uniform_carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.analysis.uniform import Uniform
from tilewright.diagnostics import Location
from tilewright.ir.build import make_op
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.rewrite import Replacement, Rewriter, map_bodies, substitute
from tilewright.ir.types import I1, I64, Pointer, Scalar, Tile
from tilewright.passes.manager import Pass


@dataclass(frozen=True, slots=True)
class _Step:
    """One advance by a scalar: by `add`, `sub` or `ptr_add`."""

    name: str
    scalar: Value


@dataclass(frozen=True, slots=True)
class _Carry:
    """Carried value `index` of a loop, and how it advances in one iteration, first step first.

    `places`: the results that it becomes, which in a `while` are the positions where `condition` passes it on.
    """

    index: int
    type: Tile
    steps: tuple[_Step, ...]
    places: tuple[int, ...]

    @property
    def offset_type(self) -> Scalar:
        element = self.type.element
        return I64 if isinstance(element, Pointer) else element

    @property
    def advance(self) -> str:
        """The op that adds an offset tile."""
        return "ptr_add" if isinstance(self.type.element, Pointer) else "add"


class _Uniformer(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._facts = Uniform()

    def visit(self, op: Op) -> Replacement | None:
        if op.name in ("for", "while"):
            find = self._carry_of_for if op.name == "for" else self._carry_of_while
            carries = [c for c in (find(op, i) for i in range(len(op.regions[0].args))) if c is not None]
            if carries:
                replacement = _LoopSplitter(op, carries).replacement()
                for new in replacement.ops:
                    self._facts.note(new)
                return replacement
        self._facts.note(op)
        return None

    def _carry_of_for(self, loop: Op, position: int) -> _Carry | None:
        """Of argument `position` of the body, unless it is the loop's index."""
        body = loop.regions[0]
        if position == 0:
            return None
        index, arg = position - 1, body.args[position]
        return self._carry(index, arg, body.terminator.operands[index], (arg,), (index,))

    def _carry_of_while(self, loop: Op, index: int) -> _Carry | None:
        before, body = loop.regions
        passed = before.terminator.operands[1:]
        places = tuple(i for i, v in enumerate(passed) if v is before.args[index])
        starts = tuple(body.args[i] for i in places)
        return self._carry(index, before.args[index], body.terminator.operands[index], starts, places)

    def _carry(self, index: int, arg: Value, following: Value, starts: tuple[Value, ...],
               places: tuple[int, ...]) -> _Carry | None:
        """The carry, if `following`, the next value of `arg`, is one of `starts` advanced by scalars."""
        t = arg.type
        if not isinstance(t, Tile) or t.element == I1 or t.element.is_float:
            return None
        steps: list[_Step] = []
        while following not in starts:
            op = self._facts.op_of(following)
            step = None if op is None else self._step(op)
            if step is None:
                return None
            following, taken = step
            steps.append(taken)
        return _Carry(index, t, tuple(reversed(steps)), places) if steps else None

    def _step(self, op: Op) -> tuple[Value, _Step] | None:
        """What `op` advances, and how; None if it does no such thing."""
        if op.name not in ("ptr_add", "add", "sub"):
            return None
        lhs, rhs = op.operands
        scalar = self._facts.scalar_of(rhs)
        if scalar is not None:
            return lhs, _Step(op.name, scalar)
        scalar = self._facts.scalar_of(lhs)
        return (rhs, _Step(op.name, scalar)) if scalar is not None and op.name == "add" else None


class _LoopSplitter:
    """Rebuilds a loop with scalar offsets in place of carried tiles, and makes its results from them."""

    def __init__(self, loop: Op, carries: Sequence[_Carry]) -> None:
        self._loop = loop
        self._carries = carries
        self._first = 3 if loop.name == "for" else 0        # where initial values begin among the operands
        self._tiles = {c.index: loop.operands[self._first + c.index] for c in carries}

    def replacement(self) -> Replacement:
        loop = self._loop
        before: list[Op] = []
        after: list[Op] = []
        inits, results = list(loop.operands), list(loop.results)
        values = dict(zip(loop.results, loop.results, strict=True))
        for carry in self._carries:
            inits[self._first + carry.index] = _emit(
                before, "constant", (), {"value": 0, "type": carry.offset_type}, loop.loc)
            for place in carry.places:
                old = loop.results[place]
                results[place] = total = _offset_for(carry, old)
                values[old] = self._advanced(after, carry, total, old.hint)
        regions = [self._for_body()] if loop.name == "for" else [self._while_test(), self._while_body()]
        rebuilt = Op(loop.row, inits, results, loop.attrs, regions, loop.loc)
        return Replacement(tuple(values.values()), (*before, rebuilt, *after))

    def _for_body(self) -> Block:
        body = self._loop.regions[0]
        return self._region(body, {1 + c.index: c for c in self._carries}, {c.index: c for c in self._carries})

    def _while_body(self) -> Block:
        starts = {place: c for c in self._carries for place in c.places}
        return self._region(self._loop.regions[1], starts, {c.index: c for c in self._carries})

    def _while_test(self) -> Block:
        """The test advances nothing: it passes offsets on."""
        test = self._loop.regions[0]
        args, offsets, entry, tiles = self._arguments(test, {c.index: c for c in self._carries})
        passed = {1 + place: offsets[c.index] for c in self._carries for place in c.places}
        return self._rebuilt(test, args, entry, tiles, [], passed)

    def _region(self, block: Block, arguments: dict[int, _Carry], yielded: dict[int, _Carry]) -> Block:
        """A block that takes offsets at `arguments` and yields the next ones at `yielded`."""
        args, offsets, entry, tiles = self._arguments(block, arguments)
        exit: list[Op] = []
        given = {carry.index: offsets[position] for position, carry in arguments.items()}
        following = {position: _next_offset(exit, carry, given[carry.index], self._loop.loc)
                     for position, carry in yielded.items()}
        return self._rebuilt(block, args, entry, tiles, exit, following)

    def _arguments(self, block: Block, carries: dict[int, _Carry]) -> tuple[
            list[Value], dict[int, Value], list[Op], dict[Value, Value]]:
        """New arguments; the offsets among them by position; ops that make tiles of those; old argument -> tile."""
        args = list(block.args)
        offsets: dict[int, Value] = {}
        entry: list[Op] = []
        tiles: dict[Value, Value] = {}
        for position, carry in carries.items():
            old = args[position]
            args[position] = offsets[position] = _offset_for(carry, old)
            tiles[old] = self._advanced(entry, carry, offsets[position], old.hint)
        return args, offsets, entry, tiles

    @staticmethod
    def _rebuilt(block: Block, args: Sequence[Value], entry: Sequence[Op], tiles: dict[Value, Value],
                 exit: Sequence[Op], passed: dict[int, Value]) -> Block:
        body = substitute(block, tiles)
        last = body.terminator
        last = last.updated(operands=[passed.get(i, v) for i, v in enumerate(last.operands)])
        return Block(tuple(args), (*entry, *body.ops[:-1], *exit, last))

    def _advanced(self, ops: list[Op], carry: _Carry, offset: Value, hint: str) -> Value:
        """The initial tile advanced by `offset` everywhere."""
        loc = self._loop.loc
        spread = _emit(ops, "splat", (offset,), {"shape": carry.type.shape}, loc)
        return _emit(ops, carry.advance, (self._tiles[carry.index], spread), {}, loc, hint)


def _offset_for(carry: _Carry, old: Value) -> Value:
    return Value(carry.offset_type, f"{old.hint}_offset" if old.hint else "")


def _emit(ops: list[Op], name: str, operands: Sequence[Value], attrs: dict[str, object], loc: Location,
          hint: str = "") -> Value:
    ops.append(make_op(name, operands, attrs, (), loc, hint))
    return ops[-1].result


def _next_offset(ops: list[Op], carry: _Carry, offset: Value, loc: Location) -> Value:
    for step in carry.steps:
        scalar = step.scalar
        if scalar.type != carry.offset_type:        # an i32 offset of a pointer: it is taken as signed
            scalar = _emit(ops, "ext_s", (scalar,), {"to": carry.offset_type}, loc)
        offset = _emit(ops, "sub" if step.name == "sub" else "add", (offset, scalar), {}, loc, offset.hint)
    return offset


def run(module: Module) -> Module:
    """`module` with scalar offsets in place of the tiles that loops advance by scalars."""
    return map_bodies(module, lambda body: _Uniformer().block(body))


UNIFORM_CARRY = Pass("uniform_carry", run, after=("inline", "fold"),
                     why="folding turns broadcasts and casts of uniform tiles into splats, which it looks for")
