"""Partial results of reductions and scans: values that may be absent, and how two are combined.

A `Part` has one value for each operand and a flag that says whether it counts: True, False, or an i1 of each thread
(padding is no part of a tile, and the first lane has nothing before it).  A region is never asked for an absent value's
meaning: where one side is absent the other is the result.
Tests: tests/lang and tests/conform, on the engine ptx.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.ir.node import Value
from tilewright.ir.ops.table import Algebra
from tilewright.ir.types import F32
from tilewright.targets.llvm.types import FLOAT, I1, I32, I64, Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import as_bits
from tilewright.targets.nvidia.emit.together import Together
from tilewright.targets.nvidia.picks import Region
from tilewright.targets.nvidia.state import Kernel

Flag = LlvmValue | bool
_IDEMPOTENT = frozenset({"and", "or", "max_s", "max_u", "min_s", "min_u"})
_INSTRUCTIONS = frozenset({"add_f", "max_f", "min_f", "max_nan_f", "min_nan_f"})       # ops and machine instructions


@dataclass(frozen=True, slots=True)
class Part:
    """Values, one an operand, that count where `flag`; no values where it is False."""

    values: tuple[LlvmValue, ...]
    flag: Flag = True


NOTHING = Part((), False)


def merge(kernel: Kernel, region: Region, left: Part, right: Part) -> Part:
    """Both combined; the one that counts where only one does."""
    if left.flag is False or right.flag is False:
        return right if left.flag is False else left
    both = region.combine(left.values, right.values)
    code = kernel.code
    if left.flag is True and right.flag is True:
        return Part(tuple(both))
    if left.flag is True:
        return Part(_select(kernel, right.flag, both, left.values))
    if right.flag is True:
        return Part(_select(kernel, left.flag, both, right.values))
    assert not isinstance(left.flag, bool) and not isinstance(right.flag, bool)
    one = _select(kernel, left.flag, left.values, right.values)
    values = _select(kernel, code.op("and", left.flag, right.flag), both, one)
    return Part(values, code.op("or", left.flag, right.flag))


def merge_all(kernel: Kernel, region: Region, parts: Sequence[Part]) -> Part:
    """A balanced tree over neighbours, which keep their order."""
    parts = list(parts)
    name = instruction_of(region)
    if name is not None and len(parts) > 1 and all(p.flag is True for p in parts):
        return Part((_tree(kernel, name, [p.values[0] for p in parts]),))
    while len(parts) > 1:
        pairs = [merge(kernel, region, a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2:]
    return parts[0]


# --- regions that are one instruction


def commutes(region: Region) -> bool:
    """Whether exchanging the sides gives the same bits: one op of a commutative row on the two elements."""
    block = region.block
    if len(block.ops) != 2 or len(block.args) != 2:
        return False
    op, end = block.ops
    return (bool(op.row.algebra & Algebra.COMMUTATIVE) and set(op.operands) == set(block.args)
            and end.operands == op.results)


def instruction_of(region: Region) -> str | None:
    """The machine instruction on two f32 that a region is, and nothing else."""
    block = region.block
    if not commutes(region) or block.args[0].type != F32 or block.ops[0].name not in _INSTRUCTIONS:
        return None
    return block.ops[0].name


def is_idempotent(region: Region) -> bool:
    """Whether two equal sides give themselves, the same bits: each result is one of the two, or an op of such a row."""
    block = region.block
    count = len(block.args) // 2
    made = {op.result: op for op in block.ops if len(op.results) == 1}

    def picks(value: Value, sides: set[Value]) -> bool:
        op = made.get(value)
        if value in sides:
            return True
        return op is not None and ((op.name in _IDEMPOTENT and set(op.operands) <= sides) or
                                   (op.name == "select" and all(picks(v, sides) for v in op.operands[1:])))

    return all(picks(value, {block.args[k], block.args[count + k]})
               for k, value in enumerate(block.terminator.operands))


def _tree(kernel: Kernel, name: str, values: Sequence[LlvmValue]) -> LlvmValue:
    together = Together(kernel.code, values)
    names = together.inputs
    while len(names) > 1:
        pairs = [together.add(name, a, b) for a, b in zip(names[::2], names[1::2], strict=False)]
        names = pairs + names[len(pairs) * 2:]
    return _number(kernel, name, together)


def across_lanes(kernel: Kernel, name: str, value: LlvmValue, bits: Sequence[int]) -> LlvmValue:
    """What `instruction_of` a region makes of the numbers of the lanes that differ in `bits`, in each of them."""
    together = Together(kernel.code, [value])
    (total,) = together.inputs
    for bit in bits:
        total = together.add(name, total, together.add("shuffle_xor.bits", total, lane=str(1 << bit)))
    return _number(kernel, name, together)


def _number(kernel: Kernel, name: str, together: Together) -> LlvmValue:
    result = together.result(FLOAT)
    return kernel.code.note_quiet(result) if name == "add_f" else result


# --- what counts where


def choose(kernel: Kernel, condition: LlvmValue, a: Part, b: Part) -> Part:
    """`a` where the condition holds, else `b`."""
    if not a.values or not b.values:
        flag = condition if a.values else kernel.code.not_(condition)
        some = a if a.values else b
        return Part(some.values, _and(kernel, flag, some.flag))
    values = _select(kernel, condition, a.values, b.values)
    if a.flag is True and b.flag is True:
        return Part(values)
    return Part(values, kernel.code.select(condition, as_value(a.flag), as_value(b.flag)))


def only_where(kernel: Kernel, condition: LlvmValue, part: Part) -> Part:
    """`part` where the condition holds, nothing elsewhere."""
    return Part(part.values, _and(kernel, condition, part.flag)) if part.values else part


def _and(kernel: Kernel, condition: LlvmValue, flag: Flag) -> Flag:
    if isinstance(flag, bool):
        return condition if flag else False
    return kernel.code.op("and", condition, flag)


def as_value(flag: Flag) -> LlvmValue:
    return constant(I1, int(flag)) if isinstance(flag, bool) else flag


def _select(kernel: Kernel, flag: LlvmValue | bool, a: Sequence[LlvmValue],
            b: Sequence[LlvmValue]) -> tuple[LlvmValue, ...]:
    assert not isinstance(flag, bool)
    return tuple(kernel.code.select(flag, x, y) for x, y in zip(a, b, strict=True))


# --- from other lanes


_WHOLE_WARP = 31        # how far a shuffle may reach: what PTX calls c


def shuffled(kernel: Kernel, instruction: str, part: Part, lane: LlvmValue, end: int = _WHOLE_WARP) -> Part:
    """The part of another lane of the warp."""
    flag = part.flag if isinstance(part.flag, bool) else shuffle(kernel, instruction, part.flag, lane, end)
    return Part(tuple(shuffle(kernel, instruction, v, lane, end) for v in part.values), flag)


def shuffle(kernel: Kernel, instruction: str, value: LlvmValue, operand: LlvmValue,
            end: int = _WHOLE_WARP) -> LlvmValue:
    """A value of another lane: `shuffle_xor` with a mask, for example.  All lanes take part; `end` is PTX's c."""
    code, t = kernel.code, value.type
    bits = as_bits(kernel, value, Type("i8"))
    if bits.type.bits == 64:
        low, high = code.cast("trunc", bits, I32), code.cast("trunc", code.op("lshr", bits, constant(I64, 32)), I32)
        low, high = (code.cast("zext", _shuffle32(kernel, instruction, v, operand, end), I64) for v in (low, high))
        whole = code.op("or", low, code.op("shl", high, constant(I64, 32)))
        return code.cast("inttoptr", whole, t) if t.element == "ptr" else code.bitcast(whole, t)
    found = _shuffle32(kernel, instruction, code.cast("zext", bits, I32), operand, end)
    if t == I1:
        return code.icmp("ne", found, constant(I32, 0))
    return code.bitcast(code.cast("trunc", found, t.as_int), t)


def _shuffle32(kernel: Kernel, instruction: str, value: LlvmValue, operand: LlvmValue, end: int) -> LlvmValue:
    return kernel.code.machine(instruction, [I32], [constant(I32, -1), value, operand, constant(I32, end)])[0]
