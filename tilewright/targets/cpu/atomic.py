"""Atomic read-modify-write and compare-and-swap.

Each lane is one LLVM atomic instruction; what LLVM has none for (floats: our rows' own rounding, NaN and -0 rules) is
a loop around a compare-and-swap of the bits.  Loads that are needed later are read before, those of later ops after.
Before: see `fuse`.  After: the old values, a scalar or a tile in scratch.  Tests: tests/conform/test_atomic.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.build import make_op
from tilewright.ir.node import Op, Value
from tilewright.ir.ops.attributes import Rmw, Sem
from tilewright.ir.types import I1, Element, Tile, element_of, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Lane, vector
from tilewright.targets.cpu.nest import Nest
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.elementwise import rule_of
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

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        nest.unroll = 1
        walker.iterate(nest, lambda e, index: _lanes(walker, op, e, index, access, result))
        return ()

    walker.nest(op.operands, shape, fused, emit, [op])
    if result is not None:
        walker.own(op.result, result)


def _lanes(walker: Walker, op: Op, e: Evaluator, index: Index, access_lane: Access, result: Buffer | None) -> None:
    """The lanes of one group, one after the other; their old values go to `result`."""
    code, mask = walker.code, op.operand("mask")
    operands = [e.at(v, index) for v in _without_mask(op)]
    on = None if mask is None else e.at(mask, index)
    spread = [lane if lane.is_uniform else vector(lane.element, e.full(lane)) for lane in operands]
    if on is not None and not on.is_uniform:
        on = vector(I1, e.full(on))
    t = _compute_type(op)

    def one(k: LlvmValue, carried: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
        pointer, *values = (_pick(e, lane, k) for lane in spread)
        flag = None if on is None or on.known == 1 else _pick(e, on, k)
        old = _guarded(code, flag, lambda: access_lane(pointer, values), t)
        return [code.insert(v, old, k) if v.type.lanes else old for v in carried]

    found = [zero(Type(t.element, e.llvm_lanes))] if result is not None else []
    found = list(code.counted(e.width, 1, one, found)) if e.width > 1 else list(one(constant(I64, 0), tuple(found)))
    if result is not None:
        access.store_lane(e, e.buffer_pointer(result, index), vector(result.element, found[0]), None)


def _pick(e: Evaluator, lane: Lane, k: LlvmValue) -> LlvmValue:
    return e.scalar(lane) if lane.is_uniform else e.code.extract(lane.value, k)


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
