"""The walk over a kernel: scalars are computed at once, tiles in the loop nest of the root that needs them.

`Walker.block` goes through a block in program order.  A virtual op is only bound (`plan`).  At a root, everything
that its operands are made from is computed in the root's own loop nest, but for tiles that the plan keeps in scratch
and that the root reads at another index than its own, which get a nest before.

Memory order (docs/design.md, Safer rules): a load is evaluated where it is used, and that may be after its place, as
long as no store in between may meet it.  So before a store, loads that are still needed and may meet it are read into
scratch; and in the nest of a store itself a load is fused only if it is disjoint from the store, or reads element by
element what the store writes.  Around loops and branches all stores inside count.

After: the code of every op of the block.  Tests: tests/targets/cpu/test_nests.py, test_memory_order.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tilewright.diagnostics import CompilationError
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Element, Pointer, Tile, element_of, shape_of
from tilewright.ir.walk import ops_in
from tilewright.targets.cpu import access, result_lines
from tilewright.targets.cpu.ahead import Ahead
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.bounds import is_certain
from tilewright.targets.cpu.evaluate import Evaluator, Facts, Index
from tilewright.targets.cpu.extents import Guards, is_access
from tilewright.targets.cpu.lanes import Lane, LaneMath
from tilewright.targets.cpu.narrow import narrow_element
from tilewright.targets.cpu.nest import Nest, iterate
from tilewright.targets.cpu.plan import Plan, is_virtual, unrolling, work
from tilewright.targets.cpu.result_lines import ResultLines
from tilewright.targets.cpu.state import Buffer, Kernel, Virtual
from tilewright.targets.cpu.streaming import Streaming
from tilewright.targets.cpu.transpose import Transposing
from tilewright.targets.cpu.versions import Streams, Versions
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.llvm.types import constant

_LONG = ("for", "while", "dot")
_KEEPS_INDEX = ("load", "hint")

Handler = Callable[["Walker", Op], None]


class Walker:
    """Generates the code of one kernel's body (see the module's docstring)."""

    def __init__(self, kernel: Kernel, plan: Plan, aliases: Aliases, handlers: Mapping[str, Handler],
                 streaming: Streaming, guards: Guards | None = None) -> None:
        self.kernel = kernel
        self.code = kernel.code
        self.plan = plan
        self.aliases = aliases
        self.handlers = handlers
        self.streaming = streaming
        self.guards = guards
        self.ahead = Ahead(kernel, kernel.module, plan)
        self._root: Op | None = None                        # the op that is being lowered
        self._loads: list[Value] = []                       # virtual loads that may still be needed
        self._waiting: list[Value] = []                     # kept tiles that no nest has computed yet
        self._results: ResultLines | None = None            # of the store after the nest that is being written
        self._early: set[Op] = set()                        # ops that were lowered before their place
        self._owned: list[dict[Value, Buffer]] = []         # per open block: buffers to free after their last use

    # --- blocks and ops

    def block(self, block: Block) -> None:
        """All ops of `block` but its terminator, which belongs to the op around it."""
        self._owned.append({})
        outer = self.code.mark
        for index, op in enumerate(block.ops[:-1]):
            self.code.mark = self.kernel.mark(op)
            if not self._is_early(op):
                self._op(op)
            self._release(block, index)
        self.code.mark = outer

    def end_block(self) -> None:
        """Forget the block's buffers; its terminator's operands have been used."""
        for buffer in self._owned.pop().values():
            self.kernel.free(buffer)

    def _op(self, op: Op) -> None:
        if is_virtual(op):
            self._bind_virtual(op)
            return
        outer, self._root = self._root, op
        self._lower(op)
        self._root = outer

    def _lower(self, op: Op) -> None:
        if self.guards is not None and is_access(op) and not shape_of(op.operands[0].type):
            self.guards.scalar(op)
        handler = self.handlers.get(op.name)
        if op.attrs.get("volatile", False):
            self._volatile_load(op)
        elif handler is not None:
            handler(self, op)
        elif not op.results:
            raise CompilationError(f"the CPU target has no rule for {op.name}", op.loc)
        else:
            self.scalar(op)

    def evaluate(self, op: Op) -> None:
        """A pure op before its place, as a scalar or as what nests compute; its binding is the caller's."""
        if is_virtual(op):
            self._bind_virtual(op)
        else:
            self.scalar(op)

    def _bind_virtual(self, op: Op) -> None:
        for index, value in enumerate(op.results):
            self.kernel.bindings[value] = Virtual(op, index)
            if value in self.plan.kept:
                self._waiting.append(value)
            if op.name == "load":
                self._loads.append(value)

    def scalar(self, op: Op) -> None:
        """An op whose results are scalars, computed now."""
        self.prepare(op.operands, None)
        self.test(self.virtual_ops(op.operands))
        with self.code.scope() as floor:
            e = Evaluator(self.kernel, 1, floor)
            lanes = [e.scalar_result(op, k) for k in range(len(op.results))]
        for value, lane in zip(op.results, lanes, strict=True):
            self.code.export(lane.value)
            self.kernel.bindings[value] = lane

    def _release(self, block: Block, index: int) -> None:
        owned = self._owned[-1]
        for value in [v for v in owned if self.plan.last_use(v, block) <= index]:
            self.kernel.free(owned.pop(value))
        if self._loads:
            number = self.plan.places[block.ops[index]].number
            self._loads = [v for v in self._loads if isinstance(self.kernel.bindings.get(v), Virtual)
                           and any(self.plan.places[r].number > number for r in self.plan.roots(v))]

    @contextmanager
    def region(self) -> Iterator[None]:
        """What is bound within a region of control flow is forgotten behind it."""
        bindings, loads, waiting = self.kernel.bindings, self._loads, self._waiting
        self.kernel.bindings = dict(bindings)
        self._loads, self._waiting = list(loads), list(waiting)
        tested = self.kernel.tested
        self.kernel.tested = set(tested)
        try:
            yield
        finally:
            self.kernel.tested = tested
            self.kernel.bindings, self._loads, self._waiting = bindings, loads, waiting

    def used_within(self, op: Op) -> list[set[Value]]:
        """The values that each region of `op` uses."""
        return [{v for inner in ops_in(region) for v in inner.operands} for region in op.regions]

    def scalar_value(self, value: Value) -> LlvmValue:
        """The LLVM value of a scalar."""
        lane = self.kernel.scalar(value)
        if lane.known is not None:
            return constant(lane.value.type, lane.known)
        return LaneMath(self.code, 1).scalar(lane)

    def export(self, lane: Lane) -> None:
        """Make a scalar of a level that was just closed one of this level."""
        self.code.export(lane.value)

    # --- buffers

    def own(self, value: Value, buffer: Buffer) -> None:
        """Bind `value` to `buffer`, which is freed after its last use in the open block."""
        self.kernel.bindings[value] = buffer
        self._owned[-1][value] = buffer

    def disown(self, value: Value) -> Buffer | None:
        """Take the buffer of `value` over, if the open block owns it."""
        return self._owned[-1].pop(value, None)

    # --- what a nest computes

    def reach(self, sources: Iterable[Value]) -> dict[Value, bool]:
        """The virtual tiles below `sources`, with whether each is read only at the nest's own index; in order."""
        found: dict[Value, bool] = {}
        work = [(v, True) for v in sources]
        while work:
            value, same = work.pop()
            binding = self.kernel.bindings.get(value)
            if not isinstance(binding, Virtual):
                continue
            before = found.get(value)
            if before is not None and (before is False or same):
                continue
            found[value] = same
            work += [(v, same and self.keeps_index(binding.op)) for v in binding.op.operands]
        return dict(sorted(found.items(), key=lambda item: self._number(item[0])))

    def _number(self, value: Value) -> int:
        binding = self.kernel.bindings[value]
        assert isinstance(binding, Virtual)
        return self.plan.places[binding.op].number

    def prepare(self, sources: Sequence[Value], shape: tuple[int, ...] | None,
                skip: Iterable[Value] = ()) -> list[Value]:
        """Compute kept tiles below `sources`, but those that a nest of `shape` can compute itself: returns these."""
        done = set(skip)
        while True:
            reached = self.reach(sources)
            kept = [v for v in reached if v in self.plan.kept and v not in done]
            apart = next((v for v in kept if v in self.plan.turned or not (
                reached[v] and shape_of(v.type) == shape)), None)
            if apart is None:
                return kept
            self.keep([apart])

    def keep(self, values: Sequence[Value], targets: Sequence[Buffer] | None = None,
             versions: bool = True) -> list[Buffer]:
        """Compute tiles of one shape into scratch (`targets`, else new buffers, which are bound and owned).

        A kept tile that is needed again gets its own buffer too: what it is made from may be gone by then.
        """
        if targets is not None:
            for value in values:
                if value in self.plan.kept and self._is_virtual(value) and len(self.plan.roots(value)) > 1:
                    self.keep([value])
        shape = shape_of(values[0].type)
        fused = self.prepare(values, shape if values[0] not in self.plan.turned else None, skip=values)
        buffers = list(targets) if targets is not None else [self.kernel.new_buffer(v.type) for v in values]

        axis = self.plan.turned.get(values[0]) if len(values) == 1 and self._is_virtual(values[0]) else None

        def emit(nest: Nest) -> Sequence[LlvmValue]:
            if axis is not None:
                nest.axis = axis
                Transposing(nest, buffers[0], lambda e, index: e.at(values[0], index)).emit()
                return ()

            def body(e: Evaluator, index: Index) -> None:
                results = [e.at(v, index) for v in values]
                for lane, buffer in zip(results, buffers, strict=True):
                    access.store_lane(e, e.buffer_pointer(buffer, index), lane, None)

            self.iterate(nest, body)
            return ()

        self.nest(values, shape, fused, emit, versions=versions, splits=axis is None)
        if targets is None:
            for value, buffer in zip(values, buffers, strict=True):
                self.own(value, buffer)
        return buffers

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Copy a tile in scratch."""
        def emit(nest: Nest) -> Sequence[LlvmValue]:
            def body(e: Evaluator, index: Index) -> None:
                lane = access.load_lane(e, e.buffer_pointer(source, index), source.element, None, None)
                access.store_lane(e, e.buffer_pointer(target, index), lane, None)

            iterate(nest, body)
            return ()

        self.nest((), source.shape, (), emit)

    @staticmethod
    def keeps_index(op: Op) -> bool:
        """Whether `op` reads its operands at the index of its result."""
        return op.row.elementwise or op.name in _KEEPS_INDEX

    def nest(self, sources: Sequence[Value], shape: tuple[int, ...], fused: Sequence[Value],
             emit: Callable[[Nest], Sequence[LlvmValue]], also: Sequence[Op] = (),
             versions: bool = True, narrow: Element | None = None, splits: bool = False,
             streams: Streams = lambda facts, by_heads: None, packs: bool = False) -> tuple[LlvmValue, ...]:
        """Write a nest of `shape` that reads `sources`, in versions if run-time tests make one of them simple.

        One that works on `narrow` elements alone takes a whole register of them at once.  One that `splits` follows
        `Nest.split`.  `streams` says when the stores of the simple version bypass the caches.  `packs`: for a product.

        `fused` tiles are computed in it and then live in scratch; `emit` must visit every element (`iterate`, or
        `visit` at each group).  Returns what `emit` returns.
        """
        self._fused = {v: self.kernel.new_buffer(v.type) for v in fused}
        self._results = self._result_lines(sources, shape)

        def write() -> Sequence[LlvmValue]:
            return self._tested_nest(sources, shape, emit, also, versions, narrow, splits, streams, packs)

        results = self.code.outline(write) if self.plan.is_large else write()
        for value, buffer in self._fused.items():
            self.own(value, buffer)
        self._fused, self._results = {}, None
        return tuple(self.code.export(r) for r in results)

    def _tested_nest(self, sources: Sequence[Value], shape: tuple[int, ...],
                     emit: Callable[[Nest], Sequence[LlvmValue]], also: Sequence[Op], versions: bool,
                     narrow: Element | None, splits: bool, streams: Streams, packs: bool) -> Sequence[LlvmValue]:
        """The tests of what a nest accesses, and the nest."""
        ops = self.virtual_ops(sources)
        self.test([*ops, *also])
        width = self.kernel.lanes_for(any(_is_wide(op) for op in ops) or any(_wide_type(v) for v in sources))

        if narrow is not None:
            width = max(width, self.kernel.vector_bits // (8 * narrow.bytes))
        streaming_width = width
        if narrow is None and self._moves(ops, also):
            width = self.kernel.lanes_for_moving(width)
        choice = Versions(self.kernel, self.aliases, sources, ops, also, shape, width, streaming_width,
                          1 if self.plan.is_large else unrolling(ops),
                          bool(self._fused), packs or self._stores_sums([*ops, *also]), emit, streams,
                          self.ahead.loads(ops, self._root))
        with self.code.scope():
            results = choice.write(splits) if versions else choice.plain()
        return tuple(self.code.export(r) for r in results)

    def _result_lines(self, sources: Sequence[Value], shape: tuple[int, ...]) -> ResultLines | None:
        """The lines that the nest asks for; what their addresses are made from is lowered now."""
        if self._root is None:
            return None
        found = result_lines.find(self.kernel, self.plan, self._root, self.virtual_ops(sources), shape)
        if found is None:
            return None
        store, addresses = found
        for op in addresses:
            if not self._is_early(op):
                self._op(op)
                self._early.add(op)
        return ResultLines(store, result_lines.is_worth(self.streaming, store))

    def _is_early(self, op: Op) -> bool:
        """Whether `op` was lowered before its place, and not in a region that has ended since."""
        return op in self._early and all(v in self.kernel.bindings for v in op.results)

    def _moves(self, ops: Sequence[Op], also: Sequence[Op]) -> bool:
        """Whether a nest for the stores `also` only reads, computes a little and writes, so that memory decides."""
        return not self._fused and bool(also) and all(op.name == "store" for op in also) and work(ops) == 0 and any(
            op.name == "load" for op in ops)

    def _stores_sums(self, ops: Sequence[Op]) -> bool:
        """Whether `ops` take a tile from scratch that a loop or a product has made."""
        return any(isinstance(self.kernel.bindings.get(v), Buffer) and maker is not None and maker.name in _LONG
                   for op in ops for v in op.operands for maker in [self.plan.maker(v)])

    def test(self, ops: Sequence[Op]) -> None:
        """Test the accesses among `ops` against the extents of their arguments."""
        if self.guards is not None:
            self.guards.tiles(ops)

    def virtual_ops(self, sources: Sequence[Value]) -> list[Op]:
        """The virtual ops below `sources`, in program order."""
        return list(dict.fromkeys(self._virtual_op(v) for v in self.reach(sources)))

    def _virtual_op(self, value: Value) -> Op:
        binding = self.kernel.bindings[value]
        assert isinstance(binding, Virtual)
        return binding.op

    @property
    def fuses(self) -> bool:
        """Whether the nest that is being written has fused tiles to store."""
        return bool(self._fused)

    def visit(self, e: Evaluator, index: Index) -> None:
        """Store the nest's fused tiles at `index`, and ask for the lines of a result."""
        if self._results is not None:
            self._results.ask(e, index)
        for value, buffer in self._fused.items():
            access.store_lane(e, e.buffer_pointer(buffer, index), e.at(value, index), None)

    def iterate(self, nest: Nest, body: Callable[[Evaluator, Index], None]) -> None:
        """`nest.iterate`, with the fused tiles stored."""
        def both(e: Evaluator, index: Index) -> None:
            self.visit(e, index)
            body(e, index)

        iterate(nest, both)

    # --- memory order

    def before_ordering(self, op: Op) -> None:
        """Read everything that is still needed after an op across which no load moves."""
        number = self.plan.places[op].number
        for value in list(self._loads):
            if self._is_virtual(value) and any(self.plan.places[r].number > number for r in self.plan.roots(value)):
                self.keep([value])

    def before_store(self, op: Op) -> None:
        """Read what a store might change and what is still needed after it."""
        number = self.plan.places[op].number
        for value in list(self._loads):
            if self._is_virtual(value) and any(self.plan.places[r].number > number for r in self.plan.roots(value)):
                self._read_if_met(value, op.operands[0])

    def _is_virtual(self, value: Value) -> bool:
        return isinstance(self.kernel.bindings.get(value), Virtual)

    def _read_if_met(self, load: Value, pointer: Value) -> None:
        if self.aliases.may_meet(self._virtual_op(load).operands[0], pointer):
            self.keep([load])

    def before_regions(self, op: Op) -> None:
        """What must be in scratch before a loop or branch: kept tiles needed inside, loads that stores inside meet."""
        inside = [o for region in op.regions for o in ops_in(region)]
        inside_set = set(inside)
        self._waiting = [v for v in self._waiting if self._is_virtual(v)]
        for value in list(self._waiting):
            if self._is_virtual(value) and not inside_set.isdisjoint(self.plan.roots(value)):
                self.keep([value])
        stores = [o for o in inside if o.row.effects & Effect.WRITES]
        if any(o.row.effects & Effect.ORDERS for o in inside) or self.waits(op) or any(map(self.waits, inside)):
            self.before_ordering(op)
        number = self.plan.places[op].number
        for value in list(self._loads):
            for store in stores:
                if self._is_virtual(value) and any(
                        self.plan.places[r].number > number for r in self.plan.roots(value)):
                    self._read_if_met(value, store.operands[0])

    @staticmethod
    def waits(op: Op) -> bool:
        """Whether `op` is a loop that may wait until another program has written."""
        return op.name == "while" and any(o.row.effects & Effect.READS for r in op.regions for o in ops_in(r))

    def _volatile_load(self, op: Op) -> None:
        """A load that counts each time: read here, once.  No earlier or later load of LLVM's stands for it."""
        self.code.do('fence syncscope("singlethread") seq_cst')
        if isinstance(op.result.type, Tile):
            self._bind_virtual(op)
            self.keep(op.results)
        else:
            self.scalar(op)

    def read_apart(self, sources: Iterable[Value], pointer: Value) -> None:
        """Read into scratch what a write through `pointer` may change before a nest of `sources` has read it."""
        for load, same in self.reach(sources).items():
            source = self._virtual_op(load) if self._is_virtual(load) else None
            if source is None or source.name != "load":
                continue
            if self.aliases.may_meet(source.operands[0], pointer) and not (
                    same and self.aliases.elementwise(source.operands[0], pointer)):
                self.keep([load])

    def store(self, op: Op) -> None:
        """A store: its nest computes all that it needs."""
        self.before_store(op)
        pointer, value, mask = op.operands[0], op.operands[1], op.operand("mask")
        self.read_apart(op.operands, pointer)
        shape = shape_of(pointer.type) or (1,)
        fused = self.prepare(op.operands, shape)

        def emit(nest: Nest) -> Sequence[LlvmValue]:
            def body(e: Evaluator, index: Index) -> None:
                on = e.gated(None if mask is None else e.at(mask, index))
                access.store_lane(e, e.at(pointer, index), e.at(value, index), on, streams=nest.streams > 0)

            self.iterate(nest, body)
            return ()

        def streams(facts: Facts, by_heads: LlvmValue | None) -> LlvmValue | None:
            certain = mask is None or is_certain(self.kernel, mask, facts)
            return self.streaming.condition(op, facts, by_heads) if certain else None

        self.nest(op.operands, shape, fused, emit, [op], splits=True, streams=streams,
                  narrow=None if fused else narrow_element(self.kernel, self.aliases, op))


def _wide_type(value: Value) -> bool:
    element = element_of(value.type)
    return not isinstance(element, Pointer) and element.bytes == 8 and isinstance(value.type, Tile)


def _is_wide(op: Op) -> bool:
    """Whether an op of a nest works on 8-byte elements that are no addresses."""
    element = element_of(op.results[0].type)
    if isinstance(element, Pointer):
        return False
    return element.bytes == 8 and (op.name == "load" or element.is_float)
