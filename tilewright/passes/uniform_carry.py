"""Loop-carried tiles that advance by a scalar become an invariant tile and a carried scalar offset.

    p = p0                                       o = 0
    for ...:                                     for ...:
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
    """Carried value `index` of a loop, and how it advances in one iteration, first step first."""

    index: int
    type: Tile
    steps: tuple[_Step, ...]

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
        if op.name == "for":
            carries = [c for c in map(self._carry, [op] * len(op.results), range(len(op.results))) if c is not None]
            if carries:
                replacement = _split_off(op, carries)
                for new in replacement.ops:
                    self._facts.note(new)
                return replacement
        self._facts.note(op)
        return None

    def _carry(self, loop: Op, index: int) -> _Carry | None:
        body = loop.regions[0]
        arg = body.args[1 + index]
        t = arg.type
        if not isinstance(t, Tile) or t.element == I1 or t.element.is_float:
            return None
        steps: list[_Step] = []
        value = body.terminator.operands[index]
        while value is not arg:
            op = self._facts.op_of(value)
            step = None if op is None else self._step(op)
            if step is None:
                return None
            value, taken = step
            steps.append(taken)
        return _Carry(index, t, tuple(reversed(steps))) if steps else None

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


def _split_off(loop: Op, carries: Sequence[_Carry]) -> Replacement:
    """The loop with scalar offsets in place of the carried tiles, and its results from them."""
    before: list[Op] = []
    inits, results, args = list(loop.operands), list(loop.results), list(loop.regions[0].args)
    entry: list[Op] = []        # at the start of the body
    exit: list[Op] = []         # at its end
    after: list[Op] = []
    tiles: dict[Value, Value] = {}
    offsets: dict[int, Value] = {}
    for carry in carries:
        t, index, loc = carry.offset_type, carry.index, loop.loc
        tile = loop.operands[3 + index]
        inits[3 + index] = _emit(before, "constant", (), {"value": 0, "type": t}, loc)
        old = args[1 + index]
        args[1 + index] = offset = Value(t, f"{old.hint}_offset" if old.hint else "")
        tiles[old] = _advanced(entry, carry, tile, offset, loc, old.hint)
        offsets[index] = _next_offset(exit, carry, offset, loc)
        results[index] = total = Value(t, offset.hint)
        tiles[loop.results[index]] = _advanced(after, carry, tile, total, loc, loop.results[index].hint)
    body = substitute(loop.regions[0], tiles)
    last = body.terminator
    last = last.updated(operands=[offsets.get(i, v) for i, v in enumerate(last.operands)])
    body = Block(tuple(args), (*entry, *body.ops[:-1], *exit, last))
    rebuilt = Op(loop.row, inits, results, loop.attrs, (body,), loop.loc)
    values = tuple(tiles.get(r, r) for r in loop.results)
    return Replacement(values, (*before, rebuilt, *after))


def _emit(ops: list[Op], name: str, operands: Sequence[Value], attrs: dict[str, object], loc: Location,
          hint: str = "") -> Value:
    ops.append(make_op(name, operands, attrs, (), loc, hint))
    return ops[-1].result


def _advanced(ops: list[Op], carry: _Carry, tile: Value, offset: Value, loc: Location, hint: str) -> Value:
    """`tile` advanced by `offset` everywhere."""
    spread = _emit(ops, "splat", (offset,), {"shape": carry.type.shape}, loc)
    return _emit(ops, carry.advance, (tile, spread), {}, loc, hint)


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
