"""Distributed layouts that are given by sizes: blocked, and coalesced, its usual choice for memory.

Every distributed family, the tensor cores' fragments in `mma.py` included, is one list of parts handed out by `deal`:
this input takes the next bits of that dim.  Shapes are logical; sides are padded to powers of two here.
Tests: tests/layout/test_families.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tilewright.layout.linear import DISTRIBUTED, LANE, REGISTER, WARP, Layout, log2, pack, padded_shape

Part = tuple[str, int | None, int]      # input, dim (None: replicate), number of bits
WARP_SIZE = 32


def deal(shape: Sequence[int], parts: Iterable[Part], order: Sequence[int]) -> Layout:
    """Hand out the tile's bits: each part gives the next bits of its dim to its input, from the lowest bit up.

    A bit past the end of its dim replicates: a zero basis, dropped for registers.  What no part took becomes
    registers, dims in `order`, so a tile larger than the parts' span repeats it in registers.
    """
    return _dealt(padded_shape(shape), tuple(parts), tuple(order))


@lru_cache(1024)
def _dealt(shape: tuple[int, ...], parts: tuple[Part, ...], order: tuple[int, ...]) -> Layout:
    """The same; a compilation asks for few layouts, some of them a hundred times."""
    taken = [0] * len(shape)
    bases: dict[str, list[int]] = {name: [] for name in DISTRIBUTED}

    def take(name: str, dim: int) -> None:
        bit = pack(shape, [1 << taken[dim] if d == dim else 0 for d in range(len(shape))])
        bases.setdefault(name, []).append(bit)
        taken[dim] += 1

    for name, dim, count in parts:
        for _ in range(count):
            if dim is not None and 1 << taken[dim] < shape[dim]:
                take(name, dim)
            elif name != REGISTER:
                bases.setdefault(name, []).append(0)
    for dim in order:
        while 1 << taken[dim] < shape[dim]:
            take(REGISTER, dim)
    return Layout.of(shape, **bases)


def blocked(shape: Sequence[int], size_per_thread: Sequence[int], threads_per_warp: Sequence[int],
            warps: Sequence[int], order: Sequence[int]) -> Layout:
    """A box of registers per thread, of threads per warp, of warps, each filled in `order` (the fastest dim first).

    All sizes are powers of two, one a dim.  A tile larger than the boxes together repeats them in registers; a smaller
    one is replicated.  ValueError for sizes that are no powers of two, a wrong number of them, or no order of the dims.
    """
    boxes = {"size_per_thread": size_per_thread, "threads_per_warp": threads_per_warp, "warps": warps}
    for what, sizes in boxes.items():
        if len(sizes) != len(shape):
            raise ValueError(f"{what} {tuple(sizes)} has not one size for each dim of {tuple(shape)}")
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"{tuple(order)} is no order of {len(shape)} dims")
    parts = [(name, dim, log2(sizes[dim]))
             for name, sizes in zip((REGISTER, LANE, WARP), boxes.values()) for dim in order]
    return deal(shape, parts, order)


def coalesced(shape: Sequence[int], vector: int, num_warps: int, order: Sequence[int] | None = None) -> Layout:
    """Consecutive elements (fastest dim of `order` first; row-major if None) to a vector of registers, then to the
    lanes, then to the warps, then to more registers: each warp touches as few memory sectors as it can.

    `vector` is cut to the fastest dim; where a tile is smaller than the threads, the upper lanes and warps replicate.
    """
    dims = list(order) if order is not None else list(reversed(range(len(shape))))
    if sorted(dims) != list(range(len(shape))):
        raise ValueError(f"{tuple(dims)} is no order of {len(shape)} dims")
    sides = padded_shape(shape)
    vector = min(vector, sides[dims[0]]) if dims else 1
    waiting = {d: log2(sides[d]) for d in dims}
    parts: list[Part] = []
    for name, count in ((REGISTER, log2(vector)), (LANE, log2(WARP_SIZE)), (WARP, log2(num_warps))):
        for dim in dims:
            bits = min(count, waiting[dim])
            parts.append((name, dim, bits))
            waiting[dim] -= bits
            count -= bits
        parts.append((name, None, count))
    return deal(shape, parts, dims)
