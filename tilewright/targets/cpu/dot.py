"""`dot`: brings the operands of a matrix product into memory in a good form, and its accumulator into a buffer.

The operands are packed into scratch as the machine's `Scheme` for the product wants them, but a left operand of its
type that is an affine, unmasked load is read where it lies (`left`).  The accumulator is the buffer of the loop-carried
value if nobody else needs its old content, so that a K loop copies nothing, and one that starts at zero is not cleared:
the first product overwrites it (`sets_first`).  `product` and `tiled` do the rest, for several steps of a loop at once
where that pays (`rounds`), and ask for what will be `wanted`.  The attribute `precision` asks for less than IEEE and is
met by it.
Before: see `fuse`.  After: the result is bound to a buffer.  Tests: tests/targets/cpu/test_dot.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.ir.node import Op, Value
from tilewright.ir.types import Scalar, Tile, element_of, shape_of
from tilewright.targets.cpu import access, panels
from tilewright.targets.cpu.asking import Lines
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import vector
from tilewright.targets.cpu.left import is_in_place, rows_in_place
from tilewright.targets.cpu.nest import Nest, iterate
from tilewright.targets.cpu.packing import grouped_type, pack, pack_groups, packed_type, spread_type
from tilewright.targets.cpu.product import Matrix, Product
from tilewright.targets.cpu.rounds import Round, round_of, slot_bytes
from tilewright.targets.cpu.schemes import Scheme, choose
from tilewright.targets.cpu.state import Buffer, Virtual
from tilewright.targets.cpu.tiled import TiledProduct
from tilewright.targets.cpu.wanted import lines_to_pack, lines_to_store
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I1, Type, constant
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import Value as LlvmValue


def lower(walker: Walker, op: Op) -> None:
    """A `dot` op."""
    a, b, acc = op.operands
    scheme = choose(walker.code.isa, op)
    steps = round_of(walker, op, scheme)
    left = _left(walker, op, scheme, steps)
    right, packs = _right(walker, op, scheme, steps)
    wanted = [] if scheme.tiles is not None else [
        lines for lines in (lines_to_pack(walker, op, packs), lines_to_store(walker, op)) if lines is not None]
    direct = element_of(acc.type) == scheme.total
    reads = {buffer.offset for buffer in (left, right) if buffer is not None}
    total, owned = _accumulator(walker, op, acc, reads) if direct else (pack(walker, acc, scheme.total), True)
    if steps is None:
        _multiply(walker, op, left, right, total, scheme, _unset(walker, op), wanted)
    else:
        _multiply_round(walker, op, left, right, total, scheme, steps)
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


def _left(walker: Walker, op: Op, scheme: Scheme, steps: Round | None) -> Buffer | None:
    """The left operand packed; None if it is read where it lies."""
    a = op.operands[0]
    if is_in_place(walker, a, scheme):
        walker.prepare([a], None)
        if isinstance(walker.kernel.bindings[a], Virtual):
            return None
    buffer, _ = _packed(walker, op, a, packed_type(a, scheme.left),
                        lambda target: pack(walker, a, scheme.left, scheme.bias, target), scheme.bias == 0, steps)
    return buffer


def _right(walker: Walker, op: Op, scheme: Scheme, steps: Round | None) -> tuple[Buffer, LlvmValue]:
    """The right operand packed, and whether that was done now (i1)."""
    b = op.operands[1]
    if scheme.group == 1:
        return _packed(walker, op, b, spread_type(packed_type(b, scheme.right), walker.kernel.vector_bits),
                       lambda target: pack(walker, b, scheme.right, target=target), True, steps)
    return _packed(walker, op, b, grouped_type(b, scheme),
                   lambda target: pack_groups(walker, b, scheme, target), False, steps)


def _packed(walker: Walker, op: Op, value: Value, t: Tile, write: Callable[[Buffer | None], Buffer],
            is_copy: bool, steps: Round | None) -> tuple[Buffer, LlvmValue]:
    """`value` packed by `write`, which only copies if the type stays and `is_copy`; for a round, in a slot of its own.

    As it was packed before if it can be kept (`panels`); where it is already if a copy would do.  And whether it was
    packed now (i1).
    """
    kernel, now = walker.kernel, constant(I1, 1)
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

    panel = panels.kept(walker, op, value, t, fill, 1 if steps is None else steps.steps)
    if panel is not None:
        return panel
    if steps is not None:
        slot = steps.buffer(t)
        fill(slot)
        return slot, now
    walker.prepare([value], None)
    binding = kernel.bindings[value]
    if isinstance(binding, Buffer) and is_copy:
        return binding, constant(I1, 0)
    return write(None if t.shape == shape_of(value.type) else kernel.new_buffer(t)), now


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
    if not isinstance(buffer, Buffer):
        return None
    held = {value for value, binding in kernel.bindings.items()         # a product may have taken it over from `arg`
            if isinstance(binding, Buffer) and binding.offset == buffer.offset}
    if any(plan.last_use(value, place.block) > place.index for value in held):
        return None
    for value, same in walker.reach([acc]).items():
        binding = kernel.bindings[value]
        assert isinstance(binding, Virtual)
        if not held.isdisjoint(binding.op.operands) and not (same and walker.keeps_index(binding.op)):
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
              unset: LlvmValue | None, wanted: Sequence[Lines]) -> None:
    """total += a @ b, for each batch; where `unset`, total = a @ b.  Meanwhile, what is `wanted` is asked for."""
    a = op.operands[0]
    *batch, rows, depth = shape_of(a.type)
    columns = total.shape[-1]
    code = walker.code

    def matrix(buffer: Buffer, number: LlvmValue | None) -> Matrix:
        whole = _matrix(walker, buffer)
        if number is None:
            return whole
        offset = code.op("mul", number, constant(LLVM_I64, math.prod(buffer.shape[-2:]) * buffer.element.bytes))
        return Matrix(code.gep(whole.address, offset, Type("i8")), whole.stride)

    def product(number: LlvmValue | None) -> None:
        first = _left_matrix(walker, op, scheme) if left is None else matrix(left, number)
        with code.scope():
            sizes, operands = (rows, columns, depth), (first, matrix(right, number), matrix(total, number))
            if scheme.tiles is None:
                Product(walker.kernel, scheme, sizes, *operands, unset, wanted).emit()
            else:
                TiledProduct(walker.kernel, scheme, sizes, *operands, unset).emit()

    if math.prod(batch) == 1:
        product(None)
        return

    def run(i: LlvmValue, _: tuple[LlvmValue, ...]) -> tuple[LlvmValue, ...]:
        product(i)
        return ()

    code.counted(math.prod(batch), 1, run)


def _multiply_round(walker: Walker, op: Op, left: Buffer | None, right: Buffer, total: Buffer, scheme: Scheme,
                    steps: Round) -> None:
    """Remember a step of a round; the last one multiplies for all."""
    a = op.operands[0]
    rows, depth = shape_of(a.type)
    first = _matrix(walker, left) if left is not None else (
        rows_in_place(walker, op, scheme, steps.buffer(packed_type(a, scheme.left))))
    steps.note(first)
    unset = None if _unset(walker, op) is None else steps.is_first

    def multiply() -> Sequence[LlvmValue]:
        slots = steps.slots(_matrix(walker, right), slot_bytes(right))
        TiledProduct(walker.kernel, scheme, (rows, total.shape[-1], depth), first, slots.right, _matrix(walker, total),
                     unset, slots).emit()
        return ()

    walker.code.branch(steps.ends, multiply)


def _matrix(walker: Walker, buffer: Buffer) -> Matrix:
    """The matrix in a buffer, or the first of several."""
    return Matrix(walker.kernel.start_of(buffer), constant(LLVM_I64, buffer.shape[-1] * buffer.element.bytes))


def _left_matrix(walker: Walker, op: Op, scheme: Scheme) -> Matrix:
    """The left operand where it lies, or a copy for this product."""
    copy = walker.kernel.new_buffer(op.operands[0].type)
    matrix = rows_in_place(walker, op, scheme, copy)
    walker.kernel.free(copy)
    return matrix
