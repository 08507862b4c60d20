"""Where the tiles that are copied ahead lie in shared memory, and how much all buffers take.

16-byte chunks of rows are permuted so that ldmatrix reads without bank conflicts (`layout.shared.for_matrices`); rows
run along the dimension in which global memory is contiguous, since a copy moves 16 bytes of it at a time.
Tests: tests/targets/nvidia/test_pipeline.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Module, Op
from tilewright.ir.types import Tile
from tilewright.ir.walk import defining_ops, ops_in
from tilewright.layout import Layout
from tilewright.layout.linear import REGISTER, unpack
from tilewright.layout.shared import for_matrices

_ALIGN = 128


@dataclass(frozen=True)
class Buffer:
    """One tile of shared memory: its type, whose layout is one of offsets, its alignment, and its bytes with that."""

    memory: Tile
    align: int = _ALIGN

    @property
    def bytes(self) -> int:
        """What it takes: the layout's padding is stored, too."""
        layout = self.memory.layout
        assert layout is not None
        return -(-int(layout.numel) * self.memory.element.bytes // self.align) * self.align


def buffer_bytes(op: Op) -> int:
    """What a `shared_alloc` takes."""
    return int(Buffer(op.attrs["memory"], op.attrs["align"]).bytes * op.attrs["count"])


def buffer_bytes_of(module: Module) -> int:
    """The most bytes that the buffers of pipelined loops take at once."""
    ops = defining_ops(module.entry.body)
    taken = most = 0
    for op in ops_in(module.entry.body):
        if op.name == "shared_alloc":
            taken += buffer_bytes(op)
            most = max(most, taken)
        elif op.name == "shared_free":
            taken -= buffer_bytes(ops[op.operands[0]])
    return most


def buffer_for(load: Op, to: Tile) -> Buffer:
    """Where the tile of `load` goes; its layout says which dimension is contiguous in global memory."""
    tile = load.result.type
    assert isinstance(tile, Tile)
    fast = contiguous_dim(layout_of(load.result))
    rank = len(tile.shape)
    order = [fast, *(d for d in reversed(range(rank)) if d != fast)]
    return Buffer(Tile(tile.shape, tile.element, for_matrices(tile.shape, tile.element.bytes, order)))


def contiguous_dim(layout: Layout) -> int:
    """The dimension along which the first registers of a thread run: that of vectors; the last without any."""
    bases = [b for b in layout.bases(REGISTER) if b]
    if not bases:
        return len(layout.shape) - 1
    moved = unpack(layout.shape, bases[0])
    return max(range(len(moved)), key=lambda d: (moved[d] != 0, d))
