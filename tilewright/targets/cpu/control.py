"""Loops and branches.

Scalars that go round a loop are phis.  Tiles that go round have one buffer each for the whole loop: the region's
argument, the next value and the loop's result are all that buffer.  At the end of the body the next values are
written as one parallel assignment: elementwise ones in place in a nest for each shape, since within a nest all is
read at an index before anything is written there; a tile that reads a carried tile elsewhere is computed aside first.

Before: `Walker.before_regions` has put into scratch what the regions need.  Tests: tests/targets/cpu/test_control.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import I64, Tile, shape_of
from tilewright.targets.cpu.dot import sets_first
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane
from tilewright.targets.cpu.polling import poll, poll_sometimes
from tilewright.targets.cpu.state import Binding, Buffer, Loop, Virtual
from tilewright.targets.llvm.counting import loop_bound, trip_count
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant


class Carried:
    """The values that go round one loop: scalars by position, and a buffer for each tile."""

    def __init__(self, walker: Walker, op: Op, inits: Sequence[Value]) -> None:
        self.walker = walker
        self.tiles = [k for k, v in enumerate(inits) if isinstance(v.type, Tile)]
        self.scalars = [k for k, v in enumerate(inits) if not isinstance(v.type, Tile)]
        self.unset = [k for k in self.tiles if sets_first(walker, op, k)]     # of no content before the first iteration
        self.buffers = {k: self._start(op, inits, k) for k in self.tiles}
        self.first = [walker.scalar_value(inits[k]) for k in self.scalars]

    def _start(self, op: Op, inits: Sequence[Value], k: int) -> Buffer:
        """The buffer of tile `k`, holding its first value: that value's own if nobody else needs it."""
        walker, value = self.walker, inits[k]
        if k in self.unset:
            return walker.kernel.new_buffer(value.type)
        place = walker.plan.places[op]
        if (isinstance(walker.kernel.bindings[value], Buffer) and inits.count(value) == 1
                and walker.plan.last_use(value, place.block) <= place.index
                and not any(value in region_values for region_values in walker.used_within(op))):
            taken = walker.disown(value)
            if taken is not None:
                return taken
        buffer = walker.kernel.new_buffer(value.type)
        walker.keep([value], [buffer])
        return buffer

    def set(self, inits: Sequence[Value]) -> None:
        """Give the unset tiles their first value, for a loop that does not run."""
        for k in self.unset:
            self.walker.keep([inits[k]], [self.buffers[k]])

    def bind(self, args: Sequence[Value], scalars: Sequence[LlvmValue]) -> None:
        """Give the region's arguments their meaning."""
        for k, value in zip(self.scalars, scalars, strict=True):
            self.walker.kernel.bind_scalar(args[k], value)
        for k, buffer in self.buffers.items():
            self.walker.kernel.bindings[args[k]] = buffer

    def next(self, values: Sequence[Value]) -> list[LlvmValue]:
        """Assign the next tiles; returns the next scalars."""
        scalars = [self.walker.scalar_value(values[k]) for k in self.scalars]
        assign(self.walker, [(values[k], self.buffers[k]) for k in self.tiles])
        return scalars


def assign(walker: Walker, pairs: Sequence[tuple[Value, Buffer]]) -> None:
    """Write each tile to its buffer, as if all were read before any is written."""
    bindings = walker.kernel.bindings
    pending = [(v, b) for v, b in pairs if bindings[v] != b]
    targets = {b.offset for _, b in pending}
    aside: list[tuple[Buffer, Buffer]] = []
    direct: dict[tuple[int, ...], list[tuple[Value, Buffer]]] = {}
    for value, _ in pending:
        walker.prepare([value], shape_of(value.type))
    for value, buffer in pending:
        if _reads_elsewhere(walker, value, targets):
            copy = walker.kernel.new_buffer(value.type)
            walker.keep([value], [copy])
            aside.append((copy, buffer))
        else:
            direct.setdefault(shape_of(value.type), []).append((value, buffer))
    for group in direct.values():
        walker.keep([v for v, _ in group], [b for _, b in group])
    for copy, buffer in aside:
        walker.copy(copy, buffer)
        walker.kernel.free(copy)


def _reads_elsewhere(walker: Walker, value: Value, targets: set[int]) -> bool:
    """Whether computing `value` reads one of the target buffers at another index than its own."""
    bindings, shape = walker.kernel.bindings, shape_of(value.type)
    direct = bindings[value]
    if isinstance(direct, Buffer):
        return False
    for inner, same in walker.reach([value]).items():
        binding = bindings[inner]
        assert isinstance(binding, Virtual)
        here = same and walker.keeps_index(binding.op)
        for operand in binding.op.operands:
            read = bindings[operand]
            if isinstance(read, Buffer) and read.offset in targets and not (here and read.shape == shape):
                return True
    return False


def lower_for(walker: Walker, op: Op) -> None:
    """A counted loop.  It counts iterations, so that no bound or step makes the index wrap into another one."""
    walker.before_regions(op)
    kernel, code = walker.kernel, walker.code
    lower, upper, step = (loop_bound(code, walker.scalar_value(v), op.attrs["unsigned"]) for v in op.operands[:3])
    carried = Carried(walker, op, op.operands[3:])
    trips = trip_count(code, lower, upper, step)
    if carried.unset:
        _branch_if_none(walker, trips, lambda: carried.set(op.operands[3:]))
    (body,) = op.regions
    index = body.args[0]

    def condition(values: tuple[LlvmValue, ...]) -> LlvmValue:
        return code.icmp("ult", values[0], trips)

    def run(values: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
        count, position, *scalars = values
        poll_sometimes(walker, op, count, trips)
        kernel.bind_scalar(index, position if index.type == I64 else code.cast("trunc", position, LLVM_I64.of("i32")))
        carried.bind(body.args[1:], scalars)
        kernel.loops.append(Loop(count, trips))
        walker.block(body)
        following = carried.next(body.terminator.operands)
        walker.end_block()
        kernel.loops.pop()
        one = constant(LLVM_I64, 1)
        return (code.op("add", count, one), code.op("add", position, step), *following)

    with walker.region():
        results = code.while_loop((constant(LLVM_I64, 0), lower, *carried.first), condition, run)
    _bind_results(walker, op, carried, results[2:])


def _branch_if_none(walker: Walker, trips: LlvmValue, run: Callable[[], None]) -> None:
    """Call `run` for what is done where `trips` is zero."""
    def way() -> tuple[LlvmValue, ...]:
        run()
        return ()

    walker.code.branch(walker.code.fold_icmp("eq", trips, constant(LLVM_I64, 0)), way, unlikely=True)


def _bind_results(walker: Walker, op: Op, carried: Carried, scalars: Sequence[LlvmValue]) -> None:
    for k, value in zip(carried.scalars, scalars, strict=True):
        walker.kernel.bind_scalar(op.results[k], value)
    for k, buffer in carried.buffers.items():
        walker.own(op.results[k], buffer)


def lower_while(walker: Walker, op: Op) -> None:
    """A loop with a condition; its head polls, so that every loop can be stopped."""
    walker.before_regions(op)
    code = walker.code
    carried = Carried(walker, op, op.operands)
    before, body = op.regions
    passed: list[Binding] = []
    made: list[Buffer] = []

    def condition(values: tuple[LlvmValue, ...]) -> LlvmValue:
        poll(walker, op)
        carried.bind(before.args, values)
        walker.block(before)
        flag, *rest = before.terminator.operands
        for value in rest:
            passed.append(_pass_on(walker, value, made))
        result = walker.scalar_value(flag)
        walker.end_block()
        return result

    def run(values: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
        for arg, binding in zip(body.args, passed, strict=True):
            walker.kernel.bindings[arg] = binding
        walker.block(body)
        following = carried.next(body.terminator.operands)
        walker.end_block()
        return following

    with walker.region():
        code.while_loop(tuple(carried.first), condition, run)
    _bind_passed(walker, op, carried, passed, made)


def _pass_on(walker: Walker, value: Value, made: list[Buffer]) -> Binding:
    """What `condition` passes on: a scalar, a carried buffer, or a tile computed into a buffer of its own."""
    if not isinstance(value.type, Tile):
        return walker.kernel.scalar(value)
    buffer = walker.kernel.new_buffer(value.type)
    made.append(buffer)
    walker.keep([value], [buffer])
    return buffer


def _bind_passed(walker: Walker, op: Op, carried: Carried, passed: Sequence[Binding], made: list[Buffer]) -> None:
    for buffer in carried.buffers.values():
        walker.kernel.free(buffer)
    for result, binding in zip(op.results, passed, strict=True):
        if isinstance(binding, Buffer):
            walker.own(result, binding)
        elif isinstance(binding, Lane):
            walker.export(binding)
            walker.kernel.bindings[result] = binding


def lower_if(walker: Walker, op: Op) -> None:
    """A branch; tiles that it yields get a buffer each, scalars are joined."""
    walker.before_regions(op)
    code, kernel = walker.code, walker.kernel
    flag = walker.scalar_value(op.operands[0])
    buffers = {k: kernel.new_buffer(r.type) for k, r in enumerate(op.results) if isinstance(r.type, Tile)}
    scalars = [k for k, r in enumerate(op.results) if not isinstance(r.type, Tile)]

    def way(block: Block) -> Sequence[LlvmValue]:
        with walker.region():
            walker.block(block)
            values = block.terminator.operands
            assign(walker, [(values[k], b) for k, b in buffers.items()])
            results = [walker.scalar_value(values[k]) for k in scalars]
            walker.end_block()
        return results

    joined = code.branch(flag, lambda: way(op.regions[0]), lambda: way(op.regions[1]))
    for k, value in zip(scalars, joined, strict=True):
        kernel.bind_scalar(op.results[k], code.export(value))
    for k, buffer in buffers.items():
        walker.own(op.results[k], buffer)
