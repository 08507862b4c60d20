"""Atomic read-modify-write and compare-and-swap.

Each element's owner does it, once; a scalar is the first thread's.  What the hardware has is one `atom` instruction;
the rest is a loop of compare-and-swap on the word of 16, 32 or 64 bits that holds the element.  Old values go to the
places that replicate an element through shared memory.  The order among a program's accesses is kept by barriers
(`passes.order`); `sem` and `scope` are the instruction's.  Source: PTX ISA 9.7.13.5 atom.
Tests: tests/lang and tests/conform, on the engine ptx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.build import make_op
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.ops.attributes import Rmw
from tilewright.ir.types import BF16, F16, F32, F64, Element, Scalar, Tile, element_of
from tilewright.layout.linear import REGISTER
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I32, I64, Type, constant, zero
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import as_bits, from_bits, from_first_thread, shared_address, shared_read
from tilewright.targets.nvidia.elementwise import apply
from tilewright.targets.nvidia.rearrange import index_in, write_owned
from tilewright.targets.nvidia.state import Kernel, inside

_INTEGER = {Rmw.ADD: ("add", "u"), Rmw.MAX_S: ("max", "s"), Rmw.MIN_S: ("min", "s"), Rmw.MAX_U: ("max", "u"),
            Rmw.MIN_U: ("min", "u"), Rmw.AND: ("and", "b"), Rmw.OR: ("or", "b"), Rmw.XOR: ("xor", "b")}
_CONSTRAINED = {32: I32, 64: I64}


def atomic(kernel: Kernel, op: Op) -> None:
    """An `atomic_rmw` or `atomic_cas` of a tile or a scalar."""
    if isinstance(op.result.type, Tile):
        _tile(kernel, op, op.result.type)
    else:
        _scalar(kernel, op)


def _operands(op: Op) -> Sequence[Value]:
    return op.operands[:-1] if op.attrs["has_mask"] else op.operands


def _scalar(kernel: Kernel, op: Op) -> None:
    """By the first thread; all others read what it found from scratch, if it is used."""
    code, mask, element = kernel.code, op.operand("mask"), element_of(op.result.type)
    guard = code.both(code.is_first_thread(), None if mask is None else kernel.scalar(mask))
    pointer, *values = (kernel.scalar(v) for v in _operands(op))
    old = _guarded(kernel, guard, element, lambda: access(kernel, op, pointer, values))
    kernel.bind(op.result, (from_first_thread(kernel, op, old, element) if kernel.shared.serves(op) else old,))


def _tile(kernel: Kernel, op: Op, t: Tile) -> None:
    code, mask, layout = kernel.code, op.operand("mask"), layout_of(op.result)
    free = layout.free()
    owner = code.thread_flag(dict(free))
    nothing = zero(convert.register_type(t.element))
    found = []
    for r in range(layout.size(REGISTER)):
        flag = inside(kernel, t, layout, r)
        if r & free[REGISTER] or flag is False:
            found.append(nothing)
            continue
        guard = code.both(owner, None if flag is True else flag)
        if mask is not None:
            guard = code.both(guard, kernel.registers(mask)[r])
        pointer, *values = (kernel.registers(v)[r] for v in _operands(op))
        found.append(_guarded(kernel, guard, t.element, _access_of(kernel, op, pointer, values)))
    kernel.bind(op.result, found)
    if kernel.shared.serves(op):
        _spread(kernel, op, t)


def _access_of(kernel: Kernel, op: Op, pointer: LlvmValue, values: Sequence[LlvmValue]) -> Callable[[], LlvmValue]:
    return lambda: access(kernel, op, pointer, values)


def _spread(kernel: Kernel, op: Op, t: Tile) -> None:
    """Give what the owners hold to all places."""
    value, layout, code = op.result, layout_of(op.result), kernel.code
    base = kernel.shared.begin(op).address
    write_owned(kernel, value, base, lambda r: index_in(kernel, t.shape, layout, r))
    kernel.shared.meet()
    limit = constant(I32, t.numel - 1)
    places = [code.binary_intrinsic("umin", index_in(kernel, t.shape, layout, r), limit)
              for r in range(layout.size(REGISTER))]
    kernel.bind(value, [shared_read(kernel, shared_address(kernel, base, p, t.element.bytes), t.element)
                        for p in places])


def _guarded(kernel: Kernel, guard: LlvmValue | None, element: Element, run: Callable[[], LlvmValue]) -> LlvmValue:
    """What `run` gives where `guard`, zero elsewhere; the other threads go round it."""
    if guard is None:
        return run()
    nothing = zero(convert.register_type(element))
    (result,) = kernel.code.branch(guard, lambda: (run(),), lambda: (nothing,))
    return result


# --- one element


def access(kernel: Kernel, op: Op, pointer: LlvmValue, values: Sequence[LlvmValue]) -> LlvmValue:
    """Do it to one element; the old one."""
    element = element_of(op.result.type)
    assert isinstance(element, Scalar)
    if op.name == "atomic_cas":
        return _compare_and_swap(kernel, op, pointer, values, element)
    kind = op.attrs["kind"]
    what, ptx_type = native(kernel, kind, element) or ("", "")
    if what:
        bits = as_bits(kernel, values[0], convert.memory_type(element))
        given = bits if ptx_type[0] in "bus" or element.bits == 16 else values[0]
        (old,) = kernel.code.machine("atom", [given.type], [pointer, given], how=_how(op), what=what, kind=ptx_type)
        return from_bits(kernel, old, element) if old.type != convert.register_type(element) else old
    update = make_op(kind.value, [Value(element), Value(element)]) if kind is not Rmw.XCHG else None

    def new(old: LlvmValue) -> LlvmValue:
        return values[0] if update is None else apply(kernel.code, update, [old, values[0]])

    return _loop(kernel, op, pointer, element, new)


def native(kernel: Kernel, kind: Rmw, element: Scalar) -> tuple[str, str] | None:
    """The operation and type of the `atom` that does it, if there is one with the row's meaning."""
    if kind is Rmw.XCHG:
        return ("exch", f"b{element.bits}") if element.bits in _CONSTRAINED else None
    if kind in _INTEGER and element.bits in _CONSTRAINED:
        name, letter = _INTEGER[kind]
        return name, f"{letter}{element.bits}"
    if kind is Rmw.FADD:
        if element in (F32, F64):
            return "add", str(element)
        if element == F16:
            return "add.noftz", "f16"
        if element == BF16 and kernel.capability.bf16_atomics:
            return "add.noftz", "bf16"
    return None


def _how(op: Op) -> str:
    return f".{op.attrs['sem'].value}.{op.attrs['scope'].value}"


def _swap(kernel: Kernel, op: Op, pointer: LlvmValue, expected: LlvmValue, value: LlvmValue) -> LlvmValue:
    """A compare-and-swap of integers of 16, 32 or 64 bits; the old bits."""
    kind = f"b{expected.type.bits}"
    (old,) = kernel.code.machine("atom.cas", [expected.type], [pointer, expected, value], how=_how(op), kind=kind)
    return old


def _compare_and_swap(kernel: Kernel, op: Op, pointer: LlvmValue, values: Sequence[LlvmValue],
                      element: Scalar) -> LlvmValue:
    memory = convert.memory_type(element)
    expected, value = (as_bits(kernel, v, memory) for v in values)
    if element.bits >= 16:
        return from_bits(kernel, _swap(kernel, op, pointer, expected, value), element)
    code = kernel.code
    return _loop(kernel, op, pointer, element, lambda old: code.select(
        code.icmp("eq", as_bits(kernel, old, memory), expected), values[1], old))


def _loop(kernel: Kernel, op: Op, pointer: LlvmValue, element: Scalar,
          update: Callable[[LlvmValue], LlvmValue]) -> LlvmValue:
    """Swap `update(old)` in until no other thread comes between; the old element.

    A byte is changed within its word of 32 bits, whose other bytes stay; memory is allocated in whole words.
    """
    code = kernel.code
    word = Type(f"i{max(32, element.bits)}") if element.bits != 16 else Type("i16")
    bits = Type(f"i{element.bits}")
    address, shift = pointer, None
    if element.bits == 8:
        kernel.whole_words = True
        number = code.cast("ptrtoint", pointer, I64)
        byte = code.cast("trunc", code.op("and", number, constant(I64, 3)), I32)
        shift = code.op("shl", byte, constant(I32, 3))
        address = code.cast("inttoptr", code.op("and", number, constant(I64, -4)), pointer.type)
    (first,) = code.machine("ld", [word], [address], how=".relaxed." + op.attrs["scope"].value, space=".global",
                            hints="", vector="", kind=f"b{word.bits}")

    def part(whole: LlvmValue) -> LlvmValue:
        moved = whole if shift is None else code.op("lshr", whole, shift)
        return from_bits(kernel, code.cast("trunc", moved, bits), element)

    def replaced(whole: LlvmValue, value: LlvmValue) -> LlvmValue:
        new = as_bits(kernel, value, convert.memory_type(element))
        if shift is None:
            return new
        hole = code.not_(code.op("shl", constant(I32, 0xFF), shift))
        return code.op("or", code.op("and", whole, hole), code.op("shl", code.cast("zext", new, I32), shift))

    seen: list[LlvmValue] = []

    def again(values: tuple[LlvmValue, ...]) -> LlvmValue:
        old = _swap(kernel, op, address, values[0], replaced(values[0], update(part(values[0]))))
        seen[:] = [old]
        return code.icmp("ne", old, values[0])

    (whole,) = code.while_loop([first], again, lambda values: seen)
    return part(whole)

