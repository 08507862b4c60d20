"""Atomic read-modify-write and compare-and-swap.

Each lane is one LLVM atomic instruction; what LLVM has none for (floats: our rows' own rounding, NaN and -0 rules) is
a loop around a compare-and-swap of the bits.  A launch that nobody else disturbs does without (`host.lone_code`).
Loads that are needed later are read before, those of later ops after.
Before: see `fuse`.  After: the old values, a scalar or a tile in scratch.  Tests: tests/conform/test_atomic.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.build import make_op
from tilewright.ir.node import Op, Value
from tilewright.ir.ops.attributes import Rmw, Scope, Sem
from tilewright.ir.types import I1, Element, Tile, element_of, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.host.records import WORD, Frame
from tilewright.targets.cpu.lanes import Lane, vector
from tilewright.targets.cpu.nest import Nest
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.elementwise import rule_of
from tilewright.targets.llvm.types import I1 as LLVM_I1
from tilewright.targets.llvm.types import I64, Type, constant, zero
from tilewright.targets.llvm.types import Value as LlvmValue

_NATIVE = {Rmw.ADD: "add", Rmw.MAX_S: "max", Rmw.MIN_S: "min", Rmw.MAX_U: "umax", Rmw.MIN_U: "umin", Rmw.AND: "and",
           Rmw.OR: "or", Rmw.XOR: "xor", Rmw.XCHG: "xchg"}
_ORDER = {Sem.RELAXED: "monotonic", Sem.ACQUIRE: "acquire", Sem.RELEASE: "release", Sem.ACQ_REL: "acq_rel"}
_FAILURE = {Sem.RELAXED: "monotonic", Sem.ACQUIRE: "acquire", Sem.RELEASE: "monotonic", Sem.ACQ_REL: "acquire"}

# pointer, values -> the old element, all scalars
Access = Callable[[LlvmValue, Sequence[LlvmValue]], LlvmValue]


def lower(walker: Walker, op: Op) -> None:
    """An atomic op on a pointer or a tile of pointers."""
    walker.before_ordering(op)
    access = _access(walker.code, op)
    if isinstance(op.result.type, Tile):
        _on_tile(walker, op, access)
    else:
        _on_scalar(walker, op, access)


def _on_scalar(walker: Walker, op: Op, access: Access) -> None:
    code, mask = walker.code, op.operand("mask")
    pointer, *values = (walker.scalar_value(v) for v in _without_mask(op))
    on = None if mask is None else walker.scalar_value(mask)
    old = _guarded(code, on, lambda: access(pointer, values), _compute_type(op))
    walker.kernel.bind_scalar(op.result, code.export(old))


def _on_tile(walker: Walker, op: Op, access: Access) -> None:
    pointer, shape = op.operands[0], shape_of(op.result.type)
    walker.read_apart(op.operands, pointer)
    fused = walker.prepare(op.operands, shape)
    result = walker.kernel.new_buffer(op.result.type) if walker.plan.roots(op.result) else None
    alone = _is_alone(walker, op)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        nest.unroll = 1
        walker.iterate(nest, lambda e, index: _Group(walker, op, e, index, result).emit(access, alone))
        return ()

    walker.nest(op.operands, shape, fused, emit, [op])
    if result is not None:
        walker.own(op.result, result)


def _is_alone(walker: Walker, op: Op) -> LlvmValue:
    """Whether nobody else among those of the op's scope works on the same memory (`host.lone_code`)."""
    scope = op.attrs["scope"]
    if op.name != "atomic_rmw" or scope is Scope.SYS:
        return constant(LLVM_I1, 0)
    if scope is Scope.CTA:      # a program is one thread
        return constant(LLVM_I1, 1)
    walker.kernel.atomics = True
    return walker.code.icmp("ne", walker.kernel.context_word(Frame.ALONE // WORD, I64), constant(I64, 0))


class _Group:
    """A group of lanes, one after the other; their old values go to `result`."""

    def __init__(self, walker: Walker, op: Op, e: Evaluator, index: Index, result: Buffer | None) -> None:
        self.code, self.op, self.e, self.index, self.result = walker.code, op, e, index, result
        mask = op.operand("mask")
        self.operands = [e.at(v, index) for v in _without_mask(op)]
        self.mask = None if mask is None else e.at(mask, index)
        self.full = {lane: e.full(lane) for lane in [*self.operands, self.mask] if lane is not None}
        self.type = _compute_type(op)
        self.old = self._slot(zero(Type(self.type.element, e.llvm_lanes))) if result is not None else None

    def emit(self, access_lane: Access, alone: LlvmValue) -> None:
        self.code.branch(alone, self._plainly, lambda: self._in_turn(access_lane))
        if self.result is not None and self.old is not None:
            t = Type(self.type.element, self.e.llvm_lanes)
            old = vector(self.result.element, self.code.load(self.old, t, self.type.bits // 8 or 1))
            access.store_lane(self.e, self.e.buffer_pointer(self.result, self.index), old, None)

    def _plainly(self) -> Sequence[LlvmValue]:
        """Without locks; what other threads must not see reordered is fenced, which on x86 takes no instruction."""
        order = _ORDER[self.op.attrs["sem"]]
        fence = f"fence {order}" if self.op.attrs["sem"] is not Sem.RELAXED else ""
        if fence:
            self.code.do(fence)
        access_lane = _plain(self.code, self.op)
        for k in range(self.e.width):
            self._one(access_lane, constant(I64, k), self._extracted)
        if fence:
            self.code.do(fence)
        return ()

    def _in_turn(self, access_lane: Access) -> Sequence[LlvmValue]:
        """In a loop, since what a locked lane takes is long; the lanes are in memory for that."""
        slots = {lane: self._slot(self._stored(lane)) for lane in self.full if not lane.is_uniform}

        def read(lane: Lane, k: LlvmValue) -> LlvmValue:
            if lane.is_uniform:
                return self.e.scalar(lane)
            t = self._stored(lane).type.scalar
            value = self.code.here(t, f"load {t}, {self.code.gep(slots[lane], k, t)}, align 1")
            return self.code.icmp("ne", value, zero(t)) if lane.element == I1 else value

        def one(k: LlvmValue, _: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
            self._one(access_lane, k, read)
            return ()

        if self.e.width > 1:
            self.code.counted(self.e.width, 1, one)
        else:
            one(constant(I64, 0), ())
        return ()

    def _one(self, access_lane: Access, k: LlvmValue, read: Callable[[Lane, LlvmValue], LlvmValue]) -> None:
        pointer, *values = (read(lane, k) for lane in self.operands)
        on = None if self.mask is None or self.mask.known == 1 else read(self.mask, k)
        old = _guarded(self.code, on, lambda: access_lane(pointer, values), self.type)
        if self.old is not None:
            self.code.store(old, self.code.gep(self.old, k, self.type), 1)

    def _extracted(self, lane: Lane, k: LlvmValue) -> LlvmValue:
        full = self.full[lane]
        return self.e.scalar(lane) if lane.is_uniform or not full.type.lanes else self.code.extract(full, k)

    def _stored(self, lane: Lane) -> LlvmValue:
        full = self.full[lane]
        return self.code.cast("zext", full, full.type.of("i8")) if lane.element == I1 else full

    def _slot(self, value: LlvmValue) -> LlvmValue:
        slot = self.code.alloca(value.type)
        self.code.store(value, slot, 1)
        return slot


def _without_mask(op: Op) -> Sequence[Value]:
    return op.operands[:-1] if op.attrs["has_mask"] else op.operands


def _compute_type(op: Op) -> Type:
    return convert.register_type(element_of(op.result.type))


def _guarded(code: Code, on: LlvmValue | None, run: Callable[[], LlvmValue], t: Type) -> LlvmValue:
    """What `run` gives where `on`; else zero."""
    if on is None:
        return run()
    (result,) = code.branch(on, lambda: (run(),), lambda: (zero(t),))
    return result


def _access(code: Code, op: Op) -> Access:
    """What one lane of `op` does."""
    element, sem = element_of(op.result.type), op.attrs["sem"]
    if op.name == "atomic_cas":
        return lambda pointer, values: _swap(code, pointer, values[0], values[1], element, sem)[0]
    kind = op.attrs["kind"]
    if kind in _NATIVE:
        return lambda pointer, values: code.here(values[0].type, (
            f"atomicrmw {_NATIVE[kind]} {pointer}, {values[0]} {_ORDER[sem]}, align {element.bytes}"))
    update = make_op(kind.value, [Value(element), Value(element)])

    def new_value(old: LlvmValue, value: LlvmValue) -> LlvmValue:
        return rule_of(update)(code, update, [old, value])

    return lambda pointer, values: _loop(code, pointer, lambda old: new_value(old, values[0]), element, sem)


def _plain(code: Code, op: Op) -> Access:
    """What one lane of a read-modify-write does while nobody else works on its memory."""
    element, kind = element_of(op.result.type), op.attrs["kind"]
    t = _compute_type(op)
    update = None if kind is Rmw.XCHG else make_op(kind.value, [Value(element), Value(element)])

    def access(pointer: LlvmValue, values: Sequence[LlvmValue]) -> LlvmValue:
        bits = t.as_int
        old = code.bitcast(code.here(bits, f"load atomic {bits}, {pointer} monotonic, align {element.bytes}"), t)
        new = values[0] if update is None else rule_of(update)(code, update, [old, values[0]])
        code.do(f"store atomic {code.bitcast(new, bits)}, {pointer} monotonic, align {element.bytes}")
        return old

    return access


def _swap(code: Code, pointer: LlvmValue, expected: LlvmValue, value: LlvmValue, element: Element,
          sem: Sem) -> tuple[LlvmValue, LlvmValue]:
    """A compare-and-swap of the bits: (the old value, whether it was the expected one)."""
    t = expected.type
    bits = t.as_int
    pair = code.here(bits, f"cmpxchg {pointer}, {code.bitcast(expected, bits)}, {code.bitcast(value, bits)} "
                           f"{_ORDER[sem]} {_FAILURE[sem]}, align {element.bytes}")
    both = f"{{ {bits}, i1 }} {pair.name}"
    old = code.here(bits, f"extractvalue {both}, 0")
    return code.bitcast(old, t), code.here(Type("i1"), f"extractvalue {both}, 1")


def _loop(code: Code, pointer: LlvmValue, update: Callable[[LlvmValue], LlvmValue], element: Element,
          sem: Sem) -> LlvmValue:
    """Swaps `update(old)` in until no other thread comes between; gives the old value."""
    t = convert.register_type(element)
    bits = t.as_int
    start = code.here(bits, f"load atomic {bits}, {pointer} monotonic, align {element.bytes}")
    seen: list[LlvmValue] = []

    def again(values: tuple[LlvmValue, ...]) -> LlvmValue:
        old, won = _swap(code, pointer, values[0], update(values[0]), element, sem)
        seen[:] = [old]
        return code.not_(won)

    (old,) = code.while_loop([code.bitcast(start, t)], again, lambda values: seen)
    return old
