"""Layouts: which register of which lane of which warp holds which element of a tile.

**A layout is a linear map.**  Take a 4x8 tile held by 8 threads (here lanes 0-3 of warps 0 and 1), four elements each.
All sizes are powers of two, so a place is a string of bits, two of the register number, two of the lane, one of the
warp; and the row-major index of an element has five bits: b0 b1 b2 of the column, a0 a1 of the row.  A layout says, for
each bit of the place, what it adds to the index:

    layout = Layout.of((4, 8), register=(1, 8), lane=(2, 4), warp=(16,))

    str(layout) == "#linear(4x8, register b0 a0, lane b1 b2, warp a1)"

Register bit 0 moves one column (b0, index 1), register bit 1 one row (a0, index 8), lane bit 0 two columns, and so on.
Register 3 of lane 2 in warp 1 holds element (1 + 8) ^ 4 ^ 16 = 29, in row 3 and column 5; that is what
`layout(register=3, lane=2, warp=1)` says.  The sum is xor, so the map is linear over GF(2), the field of two
elements, and questions about layouts become linear algebra on a few ints (`f2.py`):

* Does every element have a place?  `is_surjective`: the bases span all index bits.
* Which places are copies?  A basis that depends on those before it replicates: a `0`, or a bit that occurs twice.
  `free()` lists such bits; places with all of them 0 are the owners, who store.
* Two layouts of one tile, `src` and `dst`: where does a place of `dst` find its element in `src`?  Solve
  src after R = dst for R, column by column (`route.py`).  If R leaves lane and warp alone, a conversion is a renaming
  of registers; if it leaves warps alone, shuffles do it; else it goes through shared memory (`plan.py`).
* A layout of shared memory has one input, `offset`.  A swizzle is a basis with more than one bit: in row i of a tile
  the columns are xored with i.  Two lanes meet in a bank exactly if the sum of their vectors lies in the span of the
  row bits above the 32 banks; so a layout free of conflicts is a complement of two subspaces: computed, not sought.

**A tile of any shape.**  A side that is no power of two gets the next one: a tile of 1000 has a layout of 1024.
`layout.padding((1000,))` gives the bounds to test, each with the coordinate as a linear map of (register, lane, warp).

The files, from the ground up; each knows only those before it:

    f2          spans, kernels, complements of sets of ints
    linear      `Layout`: reading, free bits, padding; compose, inverse, product, divide
    views       what shape operations do to layouts: slice, expand, transpose, reshape, join, split, broadcast
    families    blocked, coalesced, and `deal`, which makes all of them
    text        layouts from IR text
    mma         fragments of the tensor cores: accumulators and operands of mma.sync and wgmma
    fragments   which registers each instruction of a dot takes
    shared      layouts of shared memory: row-major, swizzled, the hardware's swizzles, padded
    route       where each place of one layout finds its element in another
    access      the instructions between registers and shared memory, and their wavefronts
    shuffle     conversions inside a thread and inside a warp
    exchange    conversions through shared memory, with a layout of it that has no conflicts
    plan        the choice among all these
    global_memory   vectors, requests and sectors of accesses to global memory
    solve       labels of least cost over a graph: which layout each op runs in (numbers only)
    reduction   how a reduction or a scan runs over registers, lanes and warps

The package is integers only (NumPy holds finished tables), and knows nothing of IR, types or targets.  Everything is
proved by application: tests/layout/ applies layouts to real tiles.
"""

from __future__ import annotations

from tilewright.layout.families import blocked, coalesced, deal
from tilewright.layout.linear import Layout, padded_shape
from tilewright.layout.route import own_registers
from tilewright.layout.views import sliced

__all__ = ["Layout", "blocked", "coalesced", "deal", "own_registers", "padded_shape", "sliced"]
