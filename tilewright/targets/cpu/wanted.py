"""What a product may ask for beforehand (`asking`): what is packed next, and where the sums of a loop will be stored.

Both come from far away: to pack a tile, and to write to lines that are in no near cache, takes as long as these come.
A step of a loop that packs its right operand, since it was not found as it was packed before, is mostly followed by
one that does.  (1024^3 of float32 in tiles of 128x128x64 and 64x64x32 with both, and A's next tile in the second cache:
1.05 and 1.04 times as fast, of which stores are 1.04 and 1.03; Emerald Rapids, 2026-12-01.  No difference on Zen 3.)
Before: the operands of the product are packed.  After: `Lines`.  Tests: tests/targets/cpu/test_wanted.py.
"""

from __future__ import annotations

from tilewright.ir.node import Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Pointer, element_of, shape_of
from tilewright.targets.cpu.asking import Lines
from tilewright.targets.cpu.evaluate import Facts
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.left import first_and_stride
from tilewright.targets.cpu.state import Virtual
from tilewright.targets.llvm.types import I8, I64, constant
from tilewright.targets.llvm.types import Value as LlvmValue

_STEPS = 4      # the last ones of a loop, which ask for where its result goes


def lines_to_pack(walker: Walker, op: Op, packs: LlvmValue) -> Lines | None:
    """The right operand of the next step, or program, if this one was packed now (`packs`, i1)."""
    b, code = op.operands[1], walker.code
    if not isinstance(walker.kernel.bindings[b], Virtual) or b in walker.plan.turned:
        return None
    loads = [inner for inner in walker.virtual_ops([b]) if inner.name == "load"]
    if len(loads) != 1 or not _is_matrix(walker, loads[0].operands[0], b):
        return None
    pointer = loads[0].operands[0]
    ahead = walker.ahead.distance(pointer, op)
    if ahead is None:
        return None
    first, stride = first_and_stride(walker, pointer, Facts())
    return Lines(packs, code.gep(first, ahead, I8), stride, shape_of(b.type)[0], _row_bytes(pointer))


def lines_to_store(walker: Walker, op: Op) -> Lines | None:
    """Where the sums that go round the loop of `op` are stored behind it, by the first store, for the last steps.

    Not where the store may bypass the caches.
    """
    plan, code = walker.plan, walker.code
    total = _sum_of_loop(walker, op)
    if total is None:
        return None
    loop = plan.places[op].around
    assert loop is not None
    home = plan.places[loop].block
    stores = [root for root in plan.roots(total) if root.name == "store" and plan.places[root].block is home]
    if not stores:
        return None
    pointer = min(stores, key=lambda root: plan.places[root].number).operands[0]
    between = _made_behind(walker, pointer, loop)
    if between is None or not _is_matrix(walker, pointer, total):
        return None
    rows, row_bytes = shape_of(total.type)[0], _row_bytes(pointer)
    with walker.region():
        for inner in between:
            walker.evaluate(inner)
        first, stride = first_and_stride(walker, pointer, Facts())
    here = walker.kernel.loops[-1]
    steps = _STEPS if here.trips is None else max(1, min(_STEPS, here.trips))
    left = code.fold("sub", code.fold("sub", here.total, here.count), constant(I64, 1))     # steps after this one
    is_due = code.fold("and", code.icmp("ult", left, constant(I64, steps)), code.fold_not(
        walker.streaming.leaves_caches(rows * row_bytes)))
    return Lines(is_due, first, stride, rows, row_bytes, code.fold("sub", constant(I64, steps - 1), left), steps)


def _sum_of_loop(walker: Walker, op: Op) -> Value | None:
    """The result of the `for` loop around `op` that the product becomes; None: there is no such thing."""
    place = walker.plan.places[op]
    loop = place.around
    if loop is None or loop.name != "for" or place.block is not loop.regions[0]:
        return None
    yields = place.block.terminator.operands
    return loop.results[yields.index(op.results[0])] if yields.count(op.results[0]) == 1 else None


def _made_behind(walker: Walker, value: Value, loop: Op) -> list[Op] | None:
    """The ops behind `loop` that make `value`, in program order; None if it is made from memory or by the loop."""
    found: set[Op] = set()
    work = [value]
    while work:
        value = work.pop()
        maker = walker.plan.maker(value)
        if value in walker.kernel.bindings or maker in found:
            continue
        if maker is None or maker is loop or maker.regions or maker.row.effects != Effect.NONE:
            return None
        found.add(maker)
        work += maker.operands
    return sorted(found, key=lambda maker: walker.plan.places[maker].number)


def _is_matrix(walker: Walker, pointer: Value, tile: Value) -> bool:
    """Whether `pointer` has the shape of `tile`, a matrix, and rows that lie in memory without gaps."""
    steps = walker.aliases.steps(pointer, remainders=True)
    return (len(shape_of(tile.type)) == 2 and shape_of(pointer.type) == shape_of(tile.type)
            and steps is not None and steps[1] == 1)


def _row_bytes(pointer: Value) -> int:
    """Bytes of a row of the matrix that `pointer` points to."""
    element = element_of(pointer.type)
    assert isinstance(element, Pointer)
    return shape_of(pointer.type)[1] * element.element.bytes
