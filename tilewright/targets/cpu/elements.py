"""Functions of elements, the regions of `reduce`, `scan` and `map`, on the lanes of a group at once.

An `if` computes both ways and chooses lane by lane.  A loop goes on as long as one lane is in it; a lane that has left
keeps what it left with, whatever the others still compute in its place, and a lane that would not have come to the
loop does not keep it going.  Nothing in these regions touches memory or traps, so what is computed too much is only
thrown away.
Before: a region without memory accesses, and a lane for each argument.  After: a lane for each result.
Tests: tests/lang/test_values_loops_of_elements.py, tests/targets/cpu/test_elements.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.diagnostics import CompilationError
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import I1, I64, element_of
from tilewright.ir.walk import ops_in
from tilewright.targets.cpu.elementwise import Elementwise
from tilewright.targets.cpu.evaluate import constant_lane
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane, uniform, vector
from tilewright.targets.cpu.polling import poll, poll_sometimes
from tilewright.targets.llvm import convert, intdiv
from tilewright.targets.llvm.counting import loop_bound, trip_count
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant, zero

Lanes = list[Lane]
Values = Mapping[Value, Lane]
_LOOPS = ("for", "while")


def combine(walker: Walker, e: Elementwise, region: Block, args: Sequence[Lane]) -> Lanes:
    """The results of `region` for `args`."""
    return _Function(walker, e).block(region, dict(zip(region.args, args, strict=True)), None)


@dataclass(frozen=True, slots=True)
class _Function:
    """A region being written for groups of `e.width` lanes; masks are vectors of i1, None where all lanes are on."""

    walker: Walker
    e: Elementwise

    def block(self, block: Block, values: Values, mask: LlvmValue | None) -> Lanes:
        """All ops of `block`, in the lanes of `mask`; what its terminator passes on."""
        known = dict(values)
        for op in block.ops[:-1]:
            if op.name == "constant":
                results = [constant_lane(self.e.code, op)]
            elif op.name == "if":
                results = self._if(op, known, mask)
            elif op.name == "while":
                results = self._while(op, known, mask)
            elif op.name == "for":
                results = self._for(op, known, mask)
            elif op.row.elementwise and op.name != "ptr_add":
                results = [self.e.apply(op, [known[v] for v in op.operands])]
            else:
                raise CompilationError(f"on the CPU a function of elements cannot use {op.name}", op.loc)
            known.update(zip(op.results, results, strict=True))
        return [known[v] for v in block.terminator.operands]

    def _if(self, op: Op, values: Values, mask: LlvmValue | None) -> Lanes:
        condition = values[op.operands[0]]
        masks: tuple[LlvmValue | None, LlvmValue | None] = mask, mask
        if any(inner.name in _LOOPS for region in op.regions for inner in ops_in(region)):
            on = self.e.full(condition)
            masks = self._both(mask, on), self._both(mask, self.e.code.not_(on))
        ways = [self.block(way, values, m) for way, m in zip(op.regions, masks, strict=True)]
        return [self.e.select(condition, a, b) for a, b in zip(*ways, strict=True)]

    # --- loops

    def _while(self, op: Op, values: Values, mask: LlvmValue | None) -> Lanes:
        """The state is what goes round, what lanes have left with, and the lanes that have not left."""
        code, e = self.e.code, self.e
        before, body = op.regions
        start = [e.full(values[v]) for v in op.operands]
        left = [zero(convert.register_type(element_of(r.type), e.llvm_lanes)) for r in op.results]
        count = len(start)
        passed: Lanes = []
        results: list[LlvmValue] = []
        on: list[LlvmValue] = []

        def condition(state: tuple[LlvmValue, ...]) -> LlvmValue:
            poll(self.walker, op)
            inside, old = state[-1], state[count:-1]
            flag, *passed[:] = self.block(before, {**values, **self._named(before.args, state[:count])}, inside)
            results[:] = [code.select(inside, e.full(new), was) for new, was in zip(passed, old, strict=True)]
            on[:] = [code.op("and", inside, e.full(flag))]
            return self._any(on[0])

        def run(state: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            following = self.block(body, {**values, **dict(zip(body.args, passed, strict=True))}, on[0])
            return [*map(e.full, following), *results, on[0]]

        code.while_loop((*start, *left, self._lanes_of(mask)), condition, run)
        return [vector(element_of(r.type), code.export(v)) for r, v in zip(op.results, results, strict=True)]

    def _for(self, op: Op, values: Values, mask: LlvmValue | None) -> Lanes:
        """Iterations are counted for all lanes together; a lane is in the loop for as many as it has."""
        code, e = self.e.code, self.e
        bounds = [values[v] for v in op.operands[:3]]
        together = all(b.is_uniform for b in bounds)
        # one number for all lanes if that is so for every bound
        lower, upper, step = (loop_bound(code, e.scalar(b) if together else e.full(b), op.attrs["unsigned"])
                              for b in bounds)
        trips = trip_count(code, lower, upper, step, divide=lambda a, b: intdiv.emit(code, "div_u", a, b))
        (body,) = op.regions
        index, *args = body.args
        element = element_of(index.type)
        on: list[LlvmValue] = []

        def condition(state: tuple[LlvmValue, ...]) -> LlvmValue:
            if together:
                return code.icmp("ult", state[0], trips)
            on[:] = [self._both(mask, code.icmp("ult", self._spread(state[0]), trips))]
            return self._any(on[0])

        def run(state: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            count, *old = state
            poll_sometimes(self.walker, op, count, trips if together else count)
            place = code.op("add", lower, code.op("mul", count if together else self._spread(count), step))
            place = place if element == I64 else code.cast("trunc", place, convert.register_type(
                element, place.type.lanes))
            at = uniform(element, place) if together else vector(element, place)
            new = self.block(body, {**values, **self._named(args, old), index: at}, mask if together else on[0])
            following = [e.full(lane) for lane in new]
            if not together:
                following = [code.select(on[0], a, b) for a, b in zip(following, old, strict=True)]
            return [code.op("add", count, constant(LLVM_I64, 1)), *following]

        start = [e.full(values[v]) for v in op.operands[3:]]
        _, *last = code.while_loop((constant(LLVM_I64, 0), *start), condition, run)
        return [vector(element_of(r.type), v) for r, v in zip(op.results, last, strict=True)]

    # --- masks and lanes

    def _named(self, args: Sequence[Value], state: Sequence[LlvmValue]) -> dict[Value, Lane]:
        return {arg: vector(element_of(arg.type), v) for arg, v in zip(args, state, strict=True)}

    def _spread(self, number: LlvmValue) -> LlvmValue:
        return self.e.code.splat(number, self.e.width) if self.e.llvm_lanes else number

    def _both(self, mask: LlvmValue | None, on: LlvmValue) -> LlvmValue:
        return on if mask is None else self.e.code.op("and", mask, on)

    def _lanes_of(self, mask: LlvmValue | None) -> LlvmValue:
        if mask is not None:
            return mask
        lanes = self.e.llvm_lanes
        return constant(convert.register_type(I1, lanes), -1 if lanes else 1)

    def _any(self, on: LlvmValue) -> LlvmValue:
        return self.e.code.any_lane(on) if on.type.lanes else on
