"""Masks that are true up to some index of a row: whole vectors before it, one masked vector, nothing after.

`find` looks at the masks of a nest.  Comparisons of neighbouring numbers with one bound (`columns < n`) that agree
on where they end split the vector dimension there: before that *limit* they are true, in the vector that holds it they
are what they are, after it they are false.  So a row of 781 in a tile of 1024 costs hardly more than 781 elements, and
no vector reads or writes beyond its memory, which would be slow even under a mask.
Before: the ops are bound.  After: a `Split`, and the condition under which it holds.
Tests: tests/targets/cpu/test_prefix.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.ir.node import Op, Value
from tilewright.ir.types import Scalar, element_of, shape_of
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.bounds import MASK_MOVES, Assumptions
from tilewright.targets.cpu.evaluate import Facts
from tilewright.targets.cpu.heads import is_ragged
from tilewright.targets.cpu.nest import Split
from tilewright.targets.cpu.state import Kernel, Virtual
from tilewright.targets.llvm.types import I64, constant, integer_value
from tilewright.targets.llvm.types import Value as LlvmValue

_ELSEWHERE = -1      # read at places that do not follow the nest's index
_ORDERS = {"cmp_lt_s": (0, 1, 0), "cmp_le_s": (0, 1, 1), "cmp_gt_s": (1, 0, 0), "cmp_ge_s": (1, 0, 1)}


@dataclass(frozen=True, slots=True)
class Prefix:
    """How a nest may be split, the facts that hold in all of it, and when (None: always).

    `is_ragged`: it ends rows of numbers of elements that need not be whole lines.
    """

    split: Split
    facts: Facts
    condition: LlvmValue | None
    is_ragged: bool = False


def find(kernel: Kernel, aliases: Aliases, sources: Sequence[Value], ops: Iterable[Op], shape: Sequence[int],
         axis: int) -> Prefix | None:
    """The split of a nest over `shape` with vectors along `axis`; `ops` are its virtual ops and its store."""
    ops = list(ops)
    along = _axes(kernel, sources, axis)
    found = Assumptions(kernel)
    found.suppose_quotients(ops)
    leaves = list(dict.fromkeys(leaf for op in ops if op.name in ("load", "store") for mask in [op.operand("mask")]
                                if mask is not None for leaf in _leaves(kernel, mask)))
    limits: dict[Value, LlvmValue] = {}
    for leaf in leaves:
        limit = _limit(found, aliases, leaf, along.get(leaf, set()), shape[axis])
        if limit is None:
            found.suppose_true(leaf)
        elif integer_value(limit) == shape[axis]:
            found.facts.true.add(leaf)
        else:
            limits[leaf] = limit
    if len({limit.name for limit in limits.values()}) != 1:
        return None
    facts, ends = found.facts, set(limits)
    split = Split(next(iter(limits.values())), replace(facts, true=facts.true | ends),
                  replace(facts, false=facts.false | ends))
    return Prefix(split, facts, found.condition(), all(_is_ragged(found, leaf) for leaf in ends))


def _is_ragged(found: Assumptions, leaf: Value) -> bool:
    """Whether `leaf` compares the index within a row with a number that need not be a multiple of a line."""
    binding = found.kernel.bindings[leaf]
    assert isinstance(binding, Virtual)
    moving, bound, _ = _ORDERS[binding.op.name]
    first = found.bounds(binding.op.operands[moving])
    return first is not None and integer_value(first[0]) == 0 and is_ragged(found.kernel, binding.op.operands[bound])


def ends(kernel: Kernel, mask: Value | None, prefix: Prefix) -> bool:
    """Whether `mask` is false behind the limit."""
    return mask is not None and not prefix.split.outside.false.isdisjoint(_leaves(kernel, mask))


def _leaves(kernel: Kernel, mask: Value) -> Iterator[Value]:
    """The values whose conjunction is `mask`."""
    binding = kernel.bindings[mask]
    if isinstance(binding, Virtual) and (binding.op.name == "and" or binding.op.name in MASK_MOVES):
        for operand in binding.op.operands:
            yield from _leaves(kernel, operand)
    else:
        yield mask


def _axes(kernel: Kernel, sources: Sequence[Value], axis: int) -> dict[Value, set[int | None]]:
    """For each virtual tile, which of its dimensions runs with the nest's vectors (None: it is the same along them)."""
    found: dict[Value, set[int | None]] = {}
    work: list[tuple[Value, int | None]] = [(v, axis) for v in sources]
    while work:
        value, at = work.pop()
        binding = kernel.bindings[value]
        if not isinstance(binding, Virtual) or at in found.setdefault(value, set()):
            continue
        found[value].add(at)
        work += [(v, _below(binding.op, v, at)) for v in binding.op.operands]
    return found


def _below(op: Op, operand: Value, at: int | None) -> int | None:
    """The dimension of `operand` that runs with dimension `at` of the result of `op`."""
    if at is None or at == _ELSEWHERE or op.row.elementwise or op.name in ("load", "hint"):
        return at
    if op.name == "broadcast":
        return None if shape_of(operand.type)[at] == 1 else at
    if op.name == "expand_dims":
        inserted: int = op.attrs["axis"]
        return None if at == inserted else at - (at > inserted)
    if op.name == "permute":
        moved: int = op.attrs["order"][at]
        return moved
    return None if op.name == "splat" else _ELSEWHERE


_SUBTRACTED = -(1 << 61), 1 << 61      # numbers whose differences are exact in 64 bits


def _limit(found: Assumptions, aliases: Aliases, leaf: Value, axes: set[int | None], size: int) -> LlvmValue | None:
    """How many indices of the dimension fulfil the comparison `leaf`, which holds for the first ones; None: not so."""
    binding = found.kernel.bindings[leaf]
    if not isinstance(binding, Virtual) or len(axes) != 1:
        return None
    (axis,) = axes
    order = _ORDERS.get(binding.op.name)
    if order is None or axis is None or axis == _ELSEWHERE:
        return None
    moving, bound = binding.op.operands[order[0]], binding.op.operands[order[1]]
    element, steps = element_of(moving.type), aliases.steps(moving)
    if steps is None or any(s != (d == axis) for d, s in enumerate(steps)):
        return None
    a, b = found.bounds(moving), found.bounds(bound)
    if a is None or b is None or b[0] != b[1] or not isinstance(element, Scalar):
        return None
    if not (found.fit(a, element) and found.fit(b, element)):
        return None
    if not (found.limit(a, *_SUBTRACTED) and found.limit(b, *_SUBTRACTED)):
        return None
    code = found.code
    count = code.fold("add", code.fold("sub", b[0], a[0]), constant(I64, order[2]))
    known = integer_value(count)
    if known is not None:
        return constant(I64, min(max(known, 0), size))
    count = code.binary_intrinsic("smax", count, constant(I64, 0))
    return code.binary_intrinsic("smin", count, constant(I64, size))
