"""Loads whose elements meet in elementwise ops: how many neighbours a thread takes, so that all come in one layout.

A thread takes 16 bytes at a time, 8 elements of bf16 but 4 of fp32.  Where such tiles meet, one of them would have to
move through shared memory: layer norm of bf16 rows with fp32 weights did, twice a program, between barriers.  Instead
the load of the wider elements takes as many as that of the narrower ones, in two accesses.  A load that takes less
than 16 bytes by itself, since its addresses are no runs or not aligned, stays as it is.
Before: tile IR, and which tiles are made in any layout.  Tests: tests/targets/nvidia/test_passes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import Tile
from tilewright.ir.walk import ops_in
from tilewright.targets.nvidia.passes.coalesce import VECTOR_BYTES, element_bytes

_MOST_BYTES = 2 * VECTOR_BYTES      # of a thread's run: beyond, the accesses of a warp touch each sector too often
_MEETING = frozenset({"hint"})


def joint_runs(body: Block, flexible: Container[Value], run_of: Callable[[Op], tuple[int, int]]) -> Mapping[Op, int]:
    """For some loads the length of a thread's run, in elements; `run_of` gives the dimension and the length of the run
    that a load takes by itself."""
    groups: dict[tuple[Value, int], list[Op]] = {}
    together = _Meeting(body, flexible)
    runs = {op: run_of(op) for op in ops_in(body) if op.name == "load" and isinstance(op.result.type, Tile)}
    for op, (dim, _) in runs.items():
        groups.setdefault((together.of(op.result), dim), []).append(op)
    found = {}
    for loads in groups.values():
        longest = max(runs[op][1] for op in loads)
        for op in loads:
            size, own = element_bytes(op.operands[0].type), runs[op][1]
            if size * own == VECTOR_BYTES and own < longest and size * longest <= _MOST_BYTES:
                found[op] = longest
    return found


class _Meeting:
    """Which tiles meet: the classes of the relation that elementwise ops make between their tiles."""

    def __init__(self, body: Block, flexible: Container[Value]) -> None:
        self._above: dict[Value, Value] = {}
        for op in ops_in(body):
            if not op.row.elementwise and op.name not in _MEETING:
                continue
            tiles = [v for v in (*op.results, *op.operands) if isinstance(v.type, Tile) and v not in flexible]
            for other in tiles[1:]:
                self._above[self.of(other)] = self.of(tiles[0])

    def of(self, value: Value) -> Value:
        """The one tile that stands for all that meet `value`."""
        while self._above.get(value, value) is not value:
            value = self._above[value]
        return value
