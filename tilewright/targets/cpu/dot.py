"""`dot`: brings the operands of a matrix product into memory in a good form, and its accumulator into a buffer.

The operands are packed into scratch as the machine's `Scheme` for the product wants them, but a left operand of its
type that is an affine, unmasked load is read where it lies.  The accumulator is the buffer of the loop-carried value if
nobody else needs its old content, so that a K loop copies nothing, and one that starts at zero is not cleared: the
first product overwrites it (`sets_first`).  `product` does the rest.  The attribute `precision` asks for less than IEEE
and is met by it.
Before: see `fuse`.  After: the result is bound to a buffer.  Tests: tests/targets/cpu/test_dot.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.ir.node import Op, Value
from tilewright.ir.types import Scalar, Tile, element_of, shape_of
from tilewright.targets.cpu import access, panels
from tilewright.targets.cpu.bounds import assume, is_certain
from tilewright.targets.cpu.evaluate import Evaluator, Facts, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import vector
from tilewright.targets.cpu.nest import Nest, fixed, iterate
from tilewright.targets.cpu.packing import grouped_type, pack, pack_groups, packed_type
from tilewright.targets.cpu.product import Matrix, Product
from tilewright.targets.cpu.schemes import Scheme, choose
from tilewright.targets.cpu.state import Buffer, Virtual
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue


def lower(walker: Walker, op: Op) -> None:
    """A `dot` op."""
    a, b, acc = op.operands
    scheme = choose(walker.code.isa, op)
    left = _left(walker, op, scheme)
    right = _right(walker, op, scheme)
    direct = element_of(acc.type) == scheme.total
    reads = {buffer.offset for buffer in (left, right) if buffer is not None}
    total, owned = _accumulator(walker, op, acc, reads) if direct else (pack(walker, acc, scheme.total), True)
    _multiply(walker, op, left, right, total, scheme, _unset(walker, op))
    for value, buffer in ((a, left), (b, right)):
        if buffer is not None and buffer.start is None and buffer is not walker.kernel.bindings[value]:
            walker.kernel.free(buffer)
    result = op.results[0]
    if direct:
        walker.kernel.bindings[result] = total
        if owned:
            walker.own(result, total)
    else:
        _round(walker, total, result)
        walker.kernel.free(total)


# --- operands


def _left(walker: Walker, op: Op, scheme: Scheme) -> Buffer | None:
    """The left operand packed; None if it is read where it lies."""
    a = op.operands[0]
    if _in_place(walker, a, scheme):
        walker.prepare([a], None)
        if isinstance(walker.kernel.bindings[a], Virtual):
            return None
    return _packed(walker, op, a, packed_type(a, scheme.left),
                   lambda target: pack(walker, a, scheme.left, scheme.bias, target), scheme.bias == 0)


def _right(walker: Walker, op: Op, scheme: Scheme) -> Buffer:
    """The right operand packed."""
    b = op.operands[1]
    if scheme.group == 1:
        return _packed(walker, op, b, packed_type(b, scheme.right),
                       lambda target: pack(walker, b, scheme.right, target=target), True)
    return _packed(walker, op, b, grouped_type(b, scheme),
                   lambda target: pack_groups(walker, b, scheme, target), False)


def _packed(walker: Walker, op: Op, value: Value, t: Tile, write: Callable[[Buffer | None], Buffer],
            is_copy: bool) -> Buffer:
    """`value` packed by `write`, which only copies if the type stays and `is_copy`.

    As it was packed before if it can be kept (`panels`); where it is already if a copy would do.
    """
    kernel = walker.kernel
    is_copy = is_copy and t.element == element_of(value.type)

    def fill(target: Buffer) -> None:
        if value not in walker.plan.turned:
            write(target)
        elif is_copy:
            walker.keep([value], [target])
        else:
            with walker.region():
                straight = kernel.new_buffer(value.type)
                walker.keep([value], [straight])
                kernel.bindings[value] = straight
                write(target)
                kernel.free(straight)

    panel = panels.kept(walker, op, value, t, fill)
    if panel is not None:
        return panel
    walker.prepare([value], None)
    binding = kernel.bindings[value]
    if isinstance(binding, Buffer) and is_copy:
        return binding
    return write(None)


def _round(walker: Walker, total: Buffer, result: Value) -> None:
    """The sums rounded to the result's narrower type."""
    element = element_of(result.type)
    assert isinstance(element, Scalar)
    buffer = walker.kernel.new_buffer(result.type)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        def body(e: Evaluator, index: Index) -> None:
            lane = access.load_lane(e, e.buffer_pointer(total, index), total.element, None, None)
            narrow = vector(element, convert.narrow(e.code, e.full(lane), element))
            access.store_lane(e, e.buffer_pointer(buffer, index), narrow, None)

        iterate(nest, body)
        return ()

    walker.nest((), total.shape, (), emit)
    walker.own(result, buffer)


def _in_place(walker: Walker, a: Value, scheme: Scheme) -> bool:
    """Whether the left operand may be read where it lies: an affine load of the right type, rows of neighbours."""
    binding = walker.kernel.bindings[a]
    if isinstance(binding, Buffer) or element_of(a.type) != scheme.left or scheme.bias or len(shape_of(a.type)) != 2:
        return False
    assert isinstance(binding, Virtual)
    if binding.op.name != "load":
        return False
    steps = walker.aliases.steps(binding.op.operands[0], remainders=True)
    return steps is not None and steps[1] == 1


def _accumulator(walker: Walker, op: Op, acc: Value, reads: set[int]) -> tuple[Buffer, bool]:
    """A buffer that holds `acc` and may be overwritten, and whether the result will own it.

    `reads` are the offsets of the buffers that the product reads meanwhile.
    """
    kernel, plan = walker.kernel, walker.plan
    place = plan.places[op]
    binding = kernel.bindings[acc]
    last = plan.last_use(acc, place.block) <= place.index and acc not in op.operands[:2]
    if isinstance(binding, Buffer) and last and binding.offset not in reads:
        taken = walker.disown(acc)
        if taken is not None:
            return taken, True
        if acc in place.block.args:
            return binding, False
    target = _destination(walker, op)
    if target is not None and target.offset not in reads:
        walker.keep([acc], [target])
        return target, False
    buffer = kernel.new_buffer(acc.type)
    walker.keep([acc], [buffer])
    return buffer, True


def _destination(walker: Walker, op: Op) -> Buffer | None:
    """The buffer of the loop-carried tile that the result becomes, if its old content may go now."""
    plan, kernel = walker.plan, walker.kernel
    place = plan.places[op]
    loop = place.around
    result, acc = op.results[0], op.operands[2]
    if loop is None or loop.name != "for":
        return None
    yields = place.block.terminator.operands
    if yields.count(result) != 1:
        return None
    arg = place.block.args[1 + yields.index(result)]
    buffer = kernel.bindings[arg]
    if not isinstance(buffer, Buffer) or plan.last_use(arg, place.block) > place.index:
        return None
    for value, same in walker.reach([acc]).items():
        binding = kernel.bindings[value]
        assert isinstance(binding, Virtual)
        if arg in binding.op.operands and not (same and walker.keeps_index(binding.op)):
            return None
    return buffer


def sets_first(walker: Walker, loop: Op, k: int) -> bool:
    """Whether the tile that goes `k`-th round a `for` loop starts at zero and only adds up products.

    Its buffer may hold anything then when the loop begins.
    """
    if loop.name != "for":
        return False
    plan, (body,) = walker.plan, loop.regions
    arg = body.args[1 + k]
    users = plan.users(arg)
    if len(users) != 1 or users[0].name != "dot" or plan.places[users[0]].block is not body:
        return False
    (op,) = users
    if arg in op.operands[:2] or element_of(arg.type) != choose(walker.code.isa, op).total:
        return False
    return plan.is_zero(loop.operands[3 + k])


def _unset(walker: Walker, op: Op) -> LlvmValue | None:
    """Whether the accumulator's buffer still has to be taken for zero (i1); None: never."""
    loop, acc = walker.plan.places[op].around, op.operands[2]
    if loop is None or loop.name != "for" or acc not in loop.regions[0].args:
        return None
    if not sets_first(walker, loop, loop.regions[0].args.index(acc) - 1):
        return None
    return walker.code.icmp("eq", walker.kernel.loops[-1].count, constant(LLVM_I64, 0))


# --- the product


def _multiply(walker: Walker, op: Op, left: Buffer | None, right: Buffer, total: Buffer, scheme: Scheme,
              unset: LlvmValue | None) -> None:
    """total += a @ b, for each batch; where `unset`, total = a @ b."""
    a = op.operands[0]
    *batch, rows, depth = shape_of(a.type)
    columns = total.shape[-1]
    code = walker.code

    def matrix(buffer: Buffer, number: LlvmValue | None) -> Matrix:
        height, width = buffer.shape[-2:]
        size = buffer.element.bytes
        address = walker.kernel.start_of(buffer)
        if number is not None:
            address = code.gep(address, code.op("mul", number, constant(LLVM_I64, height * width * size)), Type("i8"))
        return Matrix(address, constant(LLVM_I64, width * size))

    def product(number: LlvmValue | None) -> None:
        first = _left_rows(walker, op) if left is None else matrix(left, number)
        with code.scope():
            Product(walker.kernel, scheme, (rows, columns, depth), first, matrix(right, number),
                    matrix(total, number), unset).emit()

    if math.prod(batch) == 1:
        product(None)
        return

    def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
        product(i)
        return ()

    code.counted(math.prod(batch), 1, run)


def _left_rows(walker: Walker, op: Op) -> Matrix:
    """The left operand where it lies, or a packed copy when a run-time test finds a mask or a wrap."""
    kernel, code, a = walker.kernel, walker.code, op.operands[0]
    binding = kernel.bindings[a]
    assert isinstance(binding, Virtual)
    pointer, mask = binding.op.operands[0], binding.op.operand("mask")
    ops = walker.virtual_ops([a])
    walker.test(ops)
    copy = kernel.new_buffer(a.type)

    def packed() -> tuple[LlvmValue, ...]:
        walker.keep([a], [copy], versions=not simple)
        start = code.gep(kernel.scratch_base, copy.offset, Type("i8"))
        return start, constant(LLVM_I64, copy.shape[-1] * copy.element.bytes), nowhere

    def in_place() -> tuple[LlvmValue, ...]:
        return *_first_and_stride(walker, pointer, facts), ahead or nowhere

    nowhere = constant(LLVM_I64, 0)
    ahead = walker.ahead.distance(pointer, op)
    with code.scope():
        facts, condition = assume(kernel, ops)
        simple = (mask is None or is_certain(kernel, mask, facts)) and all(
            op.results[0] in facts.quotients for op in ops if op.name in ("rem_s", "rem_u", "div_s", "div_u"))
        if not simple:
            first, stride, distance = packed()
        elif condition is None:
            first, stride, distance = in_place()
        else:
            first, stride, distance = code.branch(condition, in_place, packed)
    kernel.free(copy)
    return Matrix(code.export(first), code.export(stride), code.export(distance) if ahead and simple else None)


def _first_and_stride(walker: Walker, pointer: Value, facts: Facts) -> tuple[LlvmValue, LlvmValue]:
    """Address of element (0, 0), and the bytes between rows."""
    code = walker.code
    with code.scope() as floor:
        e = Evaluator(walker.kernel, 1, floor, facts)
        first = e.scalar(e.at(pointer, (fixed(0), fixed(0))))
        if shape_of(pointer.type)[0] == 1:
            return code.export(first), constant(LLVM_I64, 0)
        second = e.scalar(e.at(pointer, (fixed(1), fixed(0))))
        stride = code.op("sub", code.cast("ptrtoint", second, LLVM_I64), code.cast("ptrtoint", first, LLVM_I64))
    return code.export(first), code.export(stride)
