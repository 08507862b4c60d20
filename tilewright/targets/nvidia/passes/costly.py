"""Which flexible tiles cost so much that they are computed in one layout, and converted to the others.

    before                                          after
    x = ten rounds of mulhi and xor of an index     the same, in the layout of what is multiplied by y
    y = select(x > p, a, 0)       in a layout       y = select(x > p, a, 0)
    store(mask + i, x > p)        in another        store(mask + i, convert(x > p))

Tiles that are made of indices and constants are *flexible* (`homes`): computed in each layout that is asked for, which
is right for addresses and masks.  A chain of many ops is not computed twice for less than a conversion costs, and never
where a layout repeats its elements in several threads: of dropout's random bits, asked for by a store of bytes as well,
a thread of 512 computed eighteen instead of two (for 1024 elements; 390 us instead of 81, H200, 2026-12-01).

Before: an assignment by propagation, and what is asked for under it.  After: tiles that are not to be flexible.
Tests: tests/targets/nvidia/test_assign.py.
"""

from __future__ import annotations

from tilewright.ir.node import Op, Value
from tilewright.ir.walk import ops_in
from tilewright.targets.nvidia.passes.asked import Asked
from tilewright.targets.nvidia.passes.assignment import is_tile

MOST = 32               # instructions one behind the other that a flexible tile may take in a second layout
# Instructions of a row, where that is not one.  A quotient by a number that a tile has in common is a few more than the
# products of which its reciprocal is made, once.
_INSTRUCTIONS = {"mulhi_u": 2, **dict.fromkeys(("div_s", "div_u", "rem_s", "rem_u"), 8),
                 **dict.fromkeys(("exp", "log", "sin", "cos", "erf", "div_f", "sqrt"), 8)}


def costly(asked: Asked) -> frozenset[Value]:
    """The flexible tiles that several layouts are asked of, and that come at the end of a long chain."""
    depths: dict[Value, int] = {}
    flexible, found = asked.assignment.flexible, set()
    for op in ops_in(asked.body):
        if op.results and op.results[0] in flexible:
            value = op.results[0]
            depths[value] = max((depths.get(v, 0) for v in op.operands), default=0) + _instructions(op)
            if depths[value] > MOST and len(asked.wanted.get(value, ())) > 1:
                found.add(value)
    return frozenset(found)


def _instructions(op: Op) -> int:
    if not op.row.elementwise or not any(map(is_tile, op.operands)):
        return 0
    return _INSTRUCTIONS.get(op.name, 1)
