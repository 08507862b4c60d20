"""What an access to global memory costs in a layout: vectors, requests, 32-byte sectors and 128-byte lines, exactly.

Memory is known by what the axis analysis says: along one dim, elements lie side by side in aligned runs of `run`
elements; elements of different runs, or of different coordinates of another dim, share no sector.  A warp's request
takes one vector of each lane; its lanes fall into 2^rank sectors, by the map that drops the bits inside a sector, and
likewise into lines.  A line, full or not, is a slot of the load/store unit (CUDA C++ Best Practices Guide, coalesced
access to global memory).  So an accumulator of mma.sync is better not stored as it is, though f32 fills its sectors:
in lines it takes four times as many slots, and products of 128x128 by 64 took 6 % longer with it; f16, which half
fills them, 20 % (H200, 2026-11-30).  Tests: tests/layout/test_global_memory.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.layout import f2
from tilewright.layout.access import VECTOR_BYTES
from tilewright.layout.linear import LANE, REGISTER, THREAD, Layout, log2, pack, unpack
from tilewright.layout.route import live_registers

SECTOR_BYTES = 32
LINE_BYTES = 128


@dataclass(frozen=True)
class GlobalAccess:
    """An access of a warp.  `sectors` and `lines` count each request by itself."""

    vector: int                         # consecutive elements of a lane
    register_bits: tuple[int, ...]      # the bits of the register number that count them
    requests: int
    sectors: int
    lines: int
    least_sectors: int                  # that could hold what the lanes ask for

    @property
    def cost(self) -> float:
        """In slots of the load/store unit, the measure of `plan`.

        What is moved beside what is asked for counts again: other requests find it in the cache, or not.
        """
        return self.requests + self.lines + (self.sectors - self.least_sectors) * SECTOR_BYTES / LINE_BYTES


def vector_bits(layout: Layout, dim: int, most: int) -> tuple[int, ...]:
    """The register bits that move by 1, 2, 4, ... along `dim`, for a vector of at most `most` elements.

    No other bit of a place moves inside the vector, so it is a run in every thread.
    """
    bases, stride = layout.bases(REGISTER), 1
    for size in layout.shape[dim + 1:]:
        stride *= size
    places: list[int] = []
    while 2 << len(places) <= most and stride << len(places) in bases and 1 << len(places) < layout.shape[dim]:
        places.append(bases.index(stride << len(places)))
    along = layout.coordinate(dim)
    others = [b for i, b in enumerate(along.bases(REGISTER)) if i not in places]
    others += [b for name in THREAD for b in along.bases(name)]
    while places and any(b & (1 << len(places)) - 1 for b in others):
        places.pop()
    return tuple(places)


def global_access(layout: Layout, item_bytes: int, dim: int, run: int, *, vector: int | None = None,
                  store: bool = False) -> GlobalAccess:
    """The requests of a warp for a tile in `layout`, whose elements along `dim` are adjacent in runs of `run`.

    `run` is a power of two; 1 is a gather.  `vector` limits the vectors (alignment, a mask); 16 bytes and the run do
    anyway.  A store is made by owners only, so copies cost nothing.
    """
    return _global_access(layout, item_bytes, dim % len(layout.shape), run, vector or run, store)


@lru_cache(maxsize=8192)
def _global_access(layout: Layout, item_bytes: int, dim: int, run: int, vector: int, store: bool) -> GlobalAccess:
    live = live_registers(layout).layout
    width = vector_bits(layout, dim, max(1, min(vector, run, VECTOR_BYTES // item_bytes)))
    requests = 1 << len(live.bases(REGISTER)) - len(width)
    free = layout.free()[LANE] if store else 0
    lanes = [b for i, b in enumerate(layout.bases(LANE)) if not free >> i & 1]

    def units(size: int) -> int:
        """The rank of the lanes' bases without the bits inside a unit of `size` bytes."""
        inside = log2(max(1, min(run, size // item_bytes)))
        return f2.rank(pack(layout.shape, [c >> inside << inside if d == dim else c
                                           for d, c in enumerate(unpack(layout.shape, b))]) for b in lanes)

    asked = f2.rank([*lanes, *(layout.bases(REGISTER)[i] for i in width)])
    least = max(1, (item_bytes << asked) // SECTOR_BYTES)
    return GlobalAccess(1 << len(width), width, requests, requests << units(SECTOR_BYTES),
                        requests << units(LINE_BYTES), requests * least)
