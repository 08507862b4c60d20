"""Which registers of a thread go to memory in one access: runs of neighbours.

The facts of the axis analysis say which addresses follow one another, are aligned, and have one mask bit.  What holds
only if no dividend is negative is tested by each thread, in registers: the access then has a branch for runs, and one
for what is sure.  The dividends are tested where they are at hand (affine + relu, whose columns are a remainder: 90
instructions instead of 273; ptxas 13.0, 2026-11-30), else the addresses.  Most of a test folds away: a part that is
sure needs none, and one that a loop does not change is made before it.

Nothing is tested of an argument that is no multiple of 16 as far as the launch says.  Rows of such a length would be
vectors where it is a multiple of 4 or 8, but in a layout in which single elements, of all other rows, take up to 8
times the sectors: 0.31 to 0.64 of triton's speed for softmax, layer norm and copies of rows of 781 to 8193 elements,
0.86 to 1.8 without (H200, 2026-11-30; rows of 1000 float32 were 1.00 to 1.04 and are 1.0).  Products of 1000 by 1000
lose by it (bf16: 105 and 55 TFLOP/s), those of 1001 gain (31 and 55; triton 34).
Before: an access of laid-out IR.  Tests: tests/targets/nvidia/test_access.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from math import gcd

from tilewright.analysis.axis import Axis
from tilewright.analysis.axis_info import power_of_two_in
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import Tile, shape_of
from tilewright.ir.walk import definitions
from tilewright.layout import Layout
from tilewright.layout.linear import REGISTER, log2
from tilewright.targets.llvm.types import I64, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.passes.coalesce import VECTOR_BYTES, element_bytes, order_of, vector_length
from tilewright.targets.nvidia.state import Kernel
from tilewright.targets.nvidia.turns import in_turns

Group = tuple[int, ...]


Access = Callable[[Op, Sequence[Group]], Sequence[LlvmValue]]
_TURNING_BITS = 2   # of register numbers: a loop of fewer turns is no shorter than what it does
_AT_ONCE = 8        # elements on their way before the first one is waited for, where no runs may be usual


def in_runs(kernel: Kernel, op: Op, access: Access) -> Sequence[LlvmValue]:
    """What `access` gives for the registers of each access of `op`; a branch of its own where they are only likely."""
    sure = list(groups(kernel, op, kernel.axis))
    if _are_whole(op, sure):
        return access(op, sure)
    likely = list(groups(kernel, op, kernel.likely_axis)) if kernel.divides else sure
    if len(likely) >= len(sure):
        return access(op, sure)
    condition, at_once = _not_negative(kernel, op), 1
    if condition is None:
        condition, at_once = _are_runs(kernel, op, likely), _AT_ONCE
    return kernel.code.branch(condition, lambda: access(op, likely),
                              lambda: _one_by_one(kernel, op, likely[0], at_once, access))


def _are_whole(op: Op, runs: Sequence[Group]) -> bool:
    """Whether no facts could make the runs longer."""
    return len(runs) == 1 or len(runs[0]) * element_bytes(op.operands[0].type) >= VECTOR_BYTES


def _one_by_one(kernel: Kernel, op: Op, run: Group, at_once: int, access: Access) -> Sequence[LlvmValue]:
    """The access in the runs that are sure, `at_once` registers or more at a time, those of a likely run first."""
    first = [log2(run[1 << k] ^ run[0]) for k in range(log2(len(run)))]
    order = [*first, *(p for p in range(log2(kernel.count(op.operands[0]))) if p not in first)]
    held = order[:log2(max(at_once, len(next(groups(kernel, op, kernel.axis)))))]
    if len(order) - len(held) >= _TURNING_BITS:
        return in_turns(kernel, op, held, at_once == 1,
                        lambda part: access(part, list(groups(kernel, part, kernel.axis))))
    with kernel.afresh(op.operands):
        return access(op, list(groups(kernel, op, kernel.axis)))


def groups(kernel: Kernel, op: Op, axis: Axis, masked: bool = True) -> Iterator[Group]:
    """The registers of each access of a tile op, in the order of their addresses, by the facts of `axis`; those of one
    have one mask bit, unless `masked` is false."""
    layout, (dim, length) = layout_of(op.operands[0]), _longest(op, axis, masked)
    places = _register_bits(layout, dim, length)
    taken = sum(1 << p for p in places)
    for base in range(layout.size(REGISTER)):
        if base & taken == 0:
            yield tuple(base | sum(1 << p for i, p in enumerate(places) if j >> i & 1) for j in range(1 << len(places)))


def _longest(op: Op, axis: Axis, masked: bool = True) -> tuple[int, int]:
    """The dimension along which accesses run, and how many elements one may take."""
    pointer, mask = op.operands[0], op.operand("mask") if masked else None
    fact, shape = axis.fact(pointer), shape_of(pointer.type)
    dim = order_of(fact)[0]
    length = vector_length(fact, dim, shape[dim], element_bytes(pointer.type))
    if mask is not None:
        length = gcd(length, power_of_two_in(axis.fact(mask).constancy[dim]) or length)
    return dim, length


def _register_bits(layout: Layout, dim: int, length: int) -> list[int]:
    """The register bits that move by 1, 2, 4, ... along `dim`, up to `length` elements."""
    along = layout.coordinate(dim)
    stride = 1
    for size in layout.shape[dim + 1:]:
        stride *= size
    places: list[int] = []
    bases = layout.bases(REGISTER)
    while 1 << len(places) < length and stride << len(places) in bases:
        places.append(bases.index(stride << len(places)))
    moved = [b for name, bs in along.inputs for i, b in enumerate(bs) if not (name == REGISTER and i in places)]
    while places and any(b & ((1 << len(places)) - 1) for b in moved):
        places.pop()        # other inputs share these bits: not a run of its own
    return places


def _not_negative(kernel: Kernel, op: Op) -> LlvmValue | None:
    """Whether no number is negative that `likely_axis` supposes not to be, among those that the access is made of.

    None if some of them are not at hand: of an earlier iteration, or of a branch or a `while`.
    """
    assumed = _assumed(kernel, op)
    if assumed is None:
        return None
    code, result = kernel.code, None
    for value in assumed:
        registers = list(dict.fromkeys(kernel.registers(value)[r] for r in _signs_of(kernel, value)))
        together = reduce(lambda a, b: code.op("or", a, b), registers)
        result = code.both(result, code.icmp("sge", together, constant(together.type, 0)))
    return result


def _signs_of(kernel: Kernel, value: Value) -> list[int]:
    """Registers of an integer that have all signs of a thread: neighbours differ in low bits only, where a run of a
    power of two begins at a multiple of it."""
    if not isinstance(value.type, Tile):
        return [0]
    fact, layout = kernel.likely_axis.fact(value), layout_of(value)
    taken = 0
    for dim, run in enumerate(fact.contiguity):
        length = power_of_two_in(run)
        length = gcd(length, power_of_two_in(fact.first_divisor(dim, length)) or length)
        taken = max(taken, sum(1 << p for p in _register_bits(layout, dim, length)))
    return [r for r in range(layout.size(REGISTER)) if not r & taken]


def _assumed(kernel: Kernel, op: Op) -> list[Value] | None:
    found: dict[Value, None] = {}
    earlier: set[Value] = set()         # made in an iteration before this one
    work, seen = [v for v in (op.operands[0], op.operand("mask")) if v is not None], set[Value]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in kernel.likely_axis.assumed:
            found[value] = None
        made, loop = kernel.ops.get(value), kernel.loops.get(value)
        if loop is not None:
            work += _flows_into(loop, value)
            earlier |= definitions(loop.regions[0]).keys()
        elif (made is None and value not in kernel.module.entry.params) or (made is not None and made.regions and (
                made.row.effects)):
            return None
        elif made is not None:
            work += made.operands
    return None if earlier & found.keys() else list(found)


def _flows_into(loop: Op, value: Value) -> list[Value]:
    """What the index, a carried value or a result of a `for` is made of."""
    (body,) = loop.regions
    if value == body.args[0]:
        return [loop.operands[0], loop.operands[2]]
    place = (loop.results if value in loop.results else body.args[1:]).index(value)
    return [loop.operands[3 + place], body.terminator.operands[place]]


def _are_runs(kernel: Kernel, op: Op, likely: Sequence[Group]) -> LlvmValue:
    """Whether this thread's groups are what the likely facts say: neighbours, aligned as a whole, masked alike."""
    code, pointer, mask = kernel.code, op.operands[0], op.operand("mask")
    size, count = element_bytes(pointer.type), len(likely[0])
    fact, dim = kernel.axis.fact(pointer), _longest(op, kernel.likely_axis)[0]
    neighbours = fact.contiguity[dim] % count == 0
    aligned = neighbours and fact.first_divisor(dim, count) % (count * size) == 0
    alike = mask is None or kernel.axis.fact(mask).constancy[dim] % count == 0
    result: LlvmValue | None = None
    wrong: list[LlvmValue] = []         # numbers that are 0 if all is well; one comparison is less than one for each
    for group in likely:
        first, *others = (code.cast("ptrtoint", kernel.registers(pointer)[r], I64) for r in group)
        if not aligned:
            wrong.append(code.op("and", first, constant(I64, size * count - 1)))
        for k, address in enumerate(others, 1):
            if not neighbours:
                # as a difference, in which what a loop changes cancels
                wrong.append(code.op("xor", code.op("sub", address, first), constant(I64, k * size)))
            if mask is not None and not alike:
                a, b = (kernel.registers(mask)[r] for r in (group[0], group[k]))
                result = code.both(result, code.icmp("eq", a, b))
    if wrong:
        together = reduce(lambda a, b: code.op("or", a, b), wrong)
        result = code.both(result, code.icmp("eq", together, constant(I64, 0)))
    assert result is not None
    return result
