"""`Layout`: a linear map over GF(2) from the bits of hardware places to the bits of a tile's row-major index.

A distributed layout has the inputs `register`, `lane`, `warp` (and `block` in a cluster); a layout of shared memory has
the one input `offset`, which counts elements.  The output is always the row-major index in the tile, whose sides are
powers of two here; so `tile.reshape(-1)[layout.table()]` reads a NumPy tile as the hardware holds it, a reshape keeps
every basis, and two layouts are the same exactly if their bases are.  A tile with other sides gets the next power of
two in its layout (`padded_shape`), and `padding` says which places are past the tile.

Instances are frozen, hashed by value, and print as IR text (`text.py` reads it).  Tests: tests/layout/test_linear.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.computed import computed
from tilewright.layout import f2

REGISTER, LANE, WARP, BLOCK, OFFSET = "register", "lane", "warp", "block", "offset"
TURN = "turn"       # of a loop that works on some registers at a time (targets.nvidia.turns)
DISTRIBUTED = (REGISTER, LANE, WARP)
THREAD = (LANE, WARP, BLOCK)        # what tells threads apart
DIM_LETTERS = "abcdefghijklmnopqrstuvwxyz"

Bases = tuple[int, ...]
Inputs = tuple[tuple[str, Bases], ...]
Move = Callable[[tuple[int, ...]], Sequence[int]]       # coordinates to coordinates


def log2(n: int) -> int:
    """The exponent of a power of two; ValueError for other numbers."""
    if n < 1 or n & n - 1:
        raise ValueError(f"{n} is not a power of two")
    return n.bit_length() - 1


def padded_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """Each side, or the next power of two."""
    return tuple(1 << (s - 1).bit_length() for s in shape)


def pack(shape: Sequence[int], coordinates: Sequence[int]) -> int:
    """The row-major index of `coordinates` in a shape of powers of two (an or of shifted bits, so it is linear)."""
    index = 0
    for size, c in zip(shape, coordinates):
        index = index << size.bit_length() - 1 | c
    return index


def unpack(shape: Sequence[int], index: int) -> tuple[int, ...]:
    """The coordinates of a row-major index."""
    out = []
    for size in reversed(shape):
        out.append(index & size - 1)
        index >>= size.bit_length() - 1
    return tuple(reversed(out))


@dataclass(frozen=True)
class Bound:
    """A dim whose logical size is no power of two: a place is in the tile where `coordinate(...)` < `limit`."""

    dim: int
    limit: int
    coordinate: Layout      # the same inputs, to the coordinate along `dim`

    def test(self, register: int) -> bool | None:
        """Whether `register` is inside in all threads and turns (True), in none (False), or each has to ask (None)."""
        threads = f2.Span(b for name in (*THREAD, TURN) for b in self.coordinate.bases(name))
        at = self.coordinate(register=register)
        if threads.greatest(at) < self.limit:
            return True
        return None if threads.least(at) < self.limit else False


@dataclass(frozen=True, eq=False)
class Layout:
    """An immutable linear map; `inputs` holds each input's name and the image of each of its bits, lowest bit first.

    Raises ValueError for a side that is no power of two, a basis outside the tile, or an input named twice.
    """

    shape: tuple[int, ...]
    inputs: Inputs

    def __post_init__(self) -> None:
        if len(self.shape) > len(DIM_LETTERS):
            raise ValueError(f"a layout has at most {len(DIM_LETTERS)} dims, not {len(self.shape)}")
        top = 1 << self.bits
        for name, bases in self.inputs:
            if bases and not 0 <= min(bases) <= max(bases) < top:
                raise ValueError(f"{name}: a basis of {bases} lies outside a tile of shape {self.shape}")
        if len({name for name, _ in self.inputs}) != len(self.inputs):
            raise ValueError(f"an input is named twice in {[name for name, _ in self.inputs]}")

    @staticmethod
    def of(shape: Sequence[int], **bases: Sequence[int]) -> Layout:
        """A layout with the inputs in the order in which they are named."""
        return Layout(tuple(shape), tuple((name, tuple(bs)) for name, bs in bases.items()))

    # Layouts are keys of every table of the planner and part of interned types, so their hash is kept.
    @computed
    def _hash(self) -> int:
        return hash((self.shape, self.inputs))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Layout) and self.shape == other.shape
                                 and self.inputs == other.inputs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self.shape, self.inputs)        # without the kept hash: those of strings differ by process

    @computed
    def _made(self) -> dict[str | int, Layout]:
        """What was made of this layout: inverses by name, coordinates by dim."""
        return {}

    # ---- reading

    @computed
    def _bases(self) -> dict[str, Bases]:
        return dict(self.inputs)

    @computed
    def columns(self) -> Bases:
        """All bases, those of the first input first: the bits of the flattened hardware index."""
        return tuple(b for _, bases in self.inputs for b in bases)

    @computed
    def bits(self) -> int:
        """The number of output bits."""
        return sum(log2(s) for s in self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    @property
    def numel(self) -> int:
        return prod(self.shape)

    def bases(self, name: str) -> Bases:
        """The images of the bits of an input; none for an input that the layout does not have."""
        return self._bases.get(name, ())

    def size(self, name: str) -> int:
        """How many values an input takes."""
        return 1 << len(self.bases(name))

    @property
    def threads(self) -> int:
        return prod(self.size(name) for name in THREAD)

    def __call__(self, **index: int) -> int:
        """The tile index at a place; inputs that are not named are 0."""
        out = 0
        for name, x in index.items():
            out ^= f2.apply(self.bases(name), x)
        return out

    @computed
    def held(self) -> tuple[int, ...]:
        """The tile index of each register of the first thread."""
        found = [0]
        for b in self.bases(REGISTER):
            found += [x ^ b for x in found]
        return tuple(found)

    @computed
    def _table(self) -> npt.NDArray[np.int64]:
        out: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        for b in self.columns:      # each bit doubles the table: the upper half has the basis added
            out = np.concatenate([out, out ^ b])
        if REGISTER in self._bases:
            out = out.reshape(-1, self.size(REGISTER)).T
        out.flags.writeable = False     # it is kept
        return out

    def table(self) -> npt.NDArray[np.int64]:
        """The tile index at every place: [registers, threads], or [offsets] in shared memory.  Read-only.

        Threads count lanes first, then warps, then blocks.
        """
        return self._table

    def __str__(self) -> str:
        """IR text, e.g. `#linear(16x8, register b0 a3, lane b1 b2 a0 a1 a2, warp)`: `a3` is bit 3 of dim 0's
        coordinate, `+` joins the bits of a basis, `0` is a bit that replicates.  `text.parse` reads it."""
        return self._text

    @computed
    def _text(self) -> str:
        sizes = "x".join(map(str, self.shape)) or "scalar"
        rows = (" ".join([name, *map(self._basis_text, bases)]) for name, bases in self.inputs)
        return f"#linear({', '.join([sizes, *rows])})"

    def _basis_text(self, basis: int) -> str:
        parts = [f"{DIM_LETTERS[dim]}{bit}" for dim, c in enumerate(unpack(self.shape, basis)) for bit in f2.bits_of(c)]
        return "+".join(parts) or "0"

    # ---- facts

    def is_surjective(self) -> bool:
        """Whether every element of the tile has a place."""
        return f2.rank(self.columns) == self.bits

    def is_injective(self) -> bool:
        """Whether no element has two places."""
        return f2.rank(self.columns) == len(self.columns)

    @computed
    def _free(self) -> dict[str, int]:
        span, out = f2.Span(), {}
        for name, bases in self.inputs:
            out[name] = sum(1 << i for i, b in enumerate(bases) if not span.add(b))
        return out

    def free(self) -> Mapping[str, int]:
        """Per input, the mask of the bits that only replicate.

        The places whose free bits are all 0 are the *owners*: they hold each element exactly once.  Stores and atomics
        are made by owners only.  An earlier input (a register before a lane, a lane before a warp) is kept in use.
        """
        return self._free

    def coordinate(self, dim: int) -> Layout:
        """The same inputs, to the coordinate along one dim."""
        known = self._made.get(dim)
        if known is None:
            known = self._made[dim] = self.relabel((self.shape[dim],), lambda c: (c[dim],))
        return known

    def padding(self, logical: Sequence[int]) -> tuple[Bound, ...]:
        """The bounds that tell elements of a tile of shape `logical` from padding; none if no side is padded."""
        if padded_shape(logical) != self.shape:
            raise ValueError(f"a tile of shape {tuple(logical)} has no layout of shape {self.shape}")
        return tuple(Bound(d, n, self.coordinate(d)) for d, n in enumerate(logical) if n != self.shape[d])

    # ---- algebra

    def with_bases(self, **bases: Sequence[int]) -> Layout:
        """The layout with the bases of some inputs replaced."""
        return Layout(self.shape, tuple((name, tuple(bases.get(name, bs))) for name, bs in self.inputs))

    def map_bases(self, shape: Sequence[int], image: Iterable[int]) -> Layout:
        """A layout of `shape` whose bases, in the order of `columns`, are those of `image`."""
        new: Iterator[int] = iter(image)
        return Layout(tuple(shape), tuple((name, tuple(next(new) for _ in bs)) for name, bs in self.inputs))

    def relabel(self, shape: Sequence[int], move: Move) -> Layout:
        """The layout of another shape whose coordinates are `move(coordinates)`, a linear function."""
        return self.map_bases(shape, [pack(shape, move(unpack(self.shape, b))) for b in self.columns])

    def compose(self, inner: Layout) -> Layout:
        """self after `inner`, whose output is the flattened hardware index of self."""
        if inner.bits != len(self.columns):
            raise ValueError(f"{inner} has {inner.bits} bits to give, {self} takes {len(self.columns)}")
        return inner.map_bases(self.shape, [f2.apply(self.columns, b) for b in inner.columns])

    def inverse(self, name: str = OFFSET) -> Layout:
        """From the tile index (an input called `name`) to the flattened hardware index, free bits 0.

        So it is a right inverse of every layout that reaches the whole tile: `x.compose(x.inverse())` is the identity.
        Its shape is the inputs' sizes, the last input first.  ValueError if some element has no place.
        """
        known = self._made.get(name)
        if known is None:
            known = self._made[name] = self._inverse(name)
        return known

    def _inverse(self, name: str) -> Layout:
        span, place = f2.independent(self.columns)
        if len(span) != self.bits:
            raise ValueError(f"{self} does not reach every element, so it has no inverse")
        images = [f2.scatter(span.coordinates(1 << i), place) for i in range(self.bits)]
        hardware = tuple(1 << len(bases) for _, bases in reversed(self.inputs))
        return Layout(hardware, ((name, tuple(images)),))

    def product(self, outer: Layout) -> Layout:
        """self, repeated over `outer`: the bits of `outer` are the high bits of each input and of each dim."""
        if len(self.shape) != len(outer.shape):
            raise ValueError(f"a product of layouts of ranks {len(self.shape)} and {len(outer.shape)}")
        shape = tuple(a * b for a, b in zip(self.shape, outer.shape))
        low = self.relabel(shape, lambda c: c)
        high = outer.relabel(shape, lambda c: [x * s for x, s in zip(c, self.shape)])
        names = dict.fromkeys([*self.names, *outer.names])
        return Layout(shape, tuple((name, low.bases(name) + high.bases(name)) for name in names))

    def divide(self, tile: Layout) -> Layout | None:
        """The layout `q` with `tile.product(q)` == self, or None if self does not consist of such tiles."""
        if len(tile.shape) != len(self.shape) or any(s % t for s, t in zip(self.shape, tile.shape)):
            return None
        shape = tuple(s // t for s, t in zip(self.shape, tile.shape))
        high = [(name, [unpack(self.shape, b) for b in bases[len(tile.bases(name)):]]) for name, bases in self.inputs]
        if any(x % t for _, rows in high for c in rows for x, t in zip(c, tile.shape)):
            return None
        rest = tuple((name, tuple(pack(shape, [x // t for x, t in zip(c, tile.shape)]) for c in rows))
                     for name, rows in high)
        quotient = Layout(shape, rest)
        again = tile.product(quotient)
        return quotient if again._bases == self._bases else None
