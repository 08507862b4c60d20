"""Which integers of a kernel are computed a second time in 64 bits, because they end in addresses.

`analysis.offsets` says which arithmetic below an offset may be done without wrapping; here the answer for all offsets
of the kernel becomes one set.  Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from tilewright.analysis.offsets import Offsets
from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import I32, element_of
from tilewright.ir.walk import defining_ops, ops_in

_RING = frozenset({"add", "sub", "mul"})
_MOVES = frozenset({"splat", "broadcast", "expand_dims", "permute", "reshape", "hint", "convert"})


def index_values(module: Module) -> set[Value]:
    """The integers on the ways from indices to addresses."""
    offsets = Offsets(module)
    body = module.entry.body
    ops = defining_ops(body)
    found: set[Value] = set()
    for op in ops_in(body):
        if op.name == "ptr_add":
            _collect(op.operands[1], offsets, ops, found)
    return found


def _collect(offset: Value, offsets: Offsets, ops: dict[Value, Op], found: set[Value]) -> None:
    through = offsets.through(offset)
    if not through:
        return
    work = [offset]
    while work:
        value = work.pop()
        narrow = element_of(value.type) == I32
        if value in found or (narrow and value not in through):
            continue
        op = ops.get(value)
        goes_on = op is not None and (op.name in _RING or op.name in _MOVES or op.name == "ext_s")
        if narrow or goes_on:
            found.add(value)
        if op is not None and goes_on:
            work += op.operands
