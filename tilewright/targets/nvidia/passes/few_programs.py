"""How many programs a launch may have for index arithmetic not to wrap.

    before                          after
    module @scale                   module @scale [most_programs = 1048576]
    i = program_id * 1024 + iota    the same, and i is known to be in 0..2**30
    column = i rem_s columns        so a run of columns is one

That `program_id * BLOCK` does not wrap cannot be proved of any launch, and holds of nearly all.  What is divided by a
run-time number then may be negative, and its accesses have code for runs and code for single elements; and of 64 bits
it is divided as such.  So the number of programs is supposed to be small where that tells the sign of a dividend, or
that 32 bits hold it (`division`); `NvidiaTarget` keeps the module for other launches beside the code, and the launcher
asks for it (`driver.kernel`).  affine + relu of 1024 elements has 92 instructions of PTX instead of 165, and nvJitLink
takes 14.6 ms instead of 20.2 (12.9, an EPYC, 2026-11-30).

Before: tile IR.  After: the same, with the promise or without.  Tests: tests/targets/nvidia/test_few_programs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.analysis.ranges import Ranges, whole
from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import I32, Tile
from tilewright.ir.walk import defining_ops, ops_in

# Numbers of programs along each axis that are tried, the largest first that tells as much as the smallest.
LIMITS = (1 << 20, 1 << 16)
# ops of which more is known if what they divide, shift or extend is not negative (`analysis.axis_rules`)
_SIGN_MATTERS = frozenset({"div_s", "div_u", "rem_s", "rem_u", "shr_u"})
# what an index is made of that only the number of programs bounds
_INDEX = frozenset({"program_id", "iota", "constant", "add", "mul", "shl", "splat", "expand_dims", "broadcast",
                    "reshape", "permute", "hint", "ext_s"})


def few_programs(module: Module) -> Module:
    """`module` with the promise that an axis of the grid has at most so many programs, if that is worth anything."""
    body = module.entry.body
    divided = [op.operands[0] for op in ops_in(body) if op.name in _SIGN_MATTERS and isinstance(op.result.type, Tile)]
    if not divided:
        return module
    ops = defining_ops(body)
    known: dict[Value, bool] = {}
    indices = [v for v in divided if _is_index(v, ops, known)]
    if not indices:
        return module
    told = [_told(module, indices, most) for most in (0, *LIMITS)]
    if told[-1] == told[0]:
        return module
    return replace(module, most_programs=LIMITS[told[1:].index(told[-1])])


def _told(module: Module, values: list[Value], most: int) -> int:
    """Of how many of `values` it is known that they are not negative, and of how many that 32 bits hold them, if there
    are at most so many programs."""
    ranges = Ranges(module.entry, most)
    return sum((ranges.fact(v).low >= 0) + ranges.fact(v).within(whole(I32)) for v in values)


def _is_index(value: Value, ops: Mapping[Value, Op], known: dict[Value, bool]) -> bool:
    """Whether `value` is made of the program's number and constants alone."""
    if value not in known:
        op = ops.get(value)
        known[value] = op is not None and op.name in _INDEX and all(_is_index(v, ops, known) for v in op.operands)
    return known[value]
