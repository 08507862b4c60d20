"""Linear algebra over GF(2), the field of the two numbers 0 and 1 with xor as the sum.

A vector is a non-negative int, bit i its coordinate i; a matrix is the sequence of its columns; a subspace is given by
vectors that span it.  Everything that the package decides about layouts comes down to the functions here.

Nothing here knows what the vectors mean.  Tests: tests/layout/test_f2.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


class Span:
    """A subspace that grows, and that knows how each element is made of the vectors that were added.

    `vectors` are the independent ones among those added, in the order of adding.
    """

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self.vectors: list[int] = []
        self._rows: dict[int, tuple[int, int]] = {}     # leading bit -> (reduced vector, mask of `vectors`)
        for v in vectors:
            self.add(v)

    def _reduced(self, v: int) -> tuple[int, int]:
        """(what no row can cancel of `v`, the mask of `vectors` that cancelled the rest)."""
        made = 0
        while v:
            row = self._rows.get(v.bit_length())
            if row is None:
                break
            v, made = v ^ row[0], made ^ row[1]
        return v, made

    def add(self, v: int) -> bool:
        """Grow by `v`; False if it was already inside."""
        rest, made = self._reduced(v)
        if rest == 0:
            return False
        self._rows[rest.bit_length()] = (rest, made | 1 << len(self.vectors))
        self.vectors.append(v)
        return True

    def __contains__(self, v: int) -> bool:
        return self._reduced(v)[0] == 0

    def __len__(self) -> int:
        return len(self.vectors)

    def coordinates(self, v: int) -> int:
        """The mask of `vectors` whose sum is `v`; ValueError if `v` is outside."""
        rest, made = self._reduced(v)
        if rest:
            raise ValueError(f"{v:#x} is not in the span of {[hex(g) for g in self.vectors]}")
        return made

    def least(self, v: int) -> int:
        """The smallest number among `v` plus an element of the span."""
        for lead in sorted(self._rows, reverse=True):
            if v >> lead - 1 & 1:
                v ^= self._rows[lead][0]
        return v

    def greatest(self, v: int) -> int:
        """The greatest number among `v` plus an element of the span."""
        for lead in sorted(self._rows, reverse=True):
            if not v >> lead - 1 & 1:
                v ^= self._rows[lead][0]
        return v


def rank(vectors: Iterable[int]) -> int:
    """The dimension of the span of `vectors`."""
    return len(Span(vectors))


def bits_of(mask: int) -> Iterator[int]:
    """The positions of the ones of `mask`, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def apply(columns: Sequence[int], x: int) -> int:
    """The matrix with these columns, times the vector `x`."""
    out = 0
    for i in bits_of(x):
        out ^= columns[i]
    return out


def gather(mask: int, positions: Sequence[int]) -> int:
    """Bit k of the result is bit positions[k] of `mask`."""
    return sum((mask >> p & 1) << k for k, p in enumerate(positions))


def scatter(mask: int, positions: Sequence[int]) -> int:
    """Bit positions[k] of the result is bit k of `mask`."""
    return sum((mask >> k & 1) << p for k, p in enumerate(positions))


def independent(columns: Iterable[int]) -> tuple[Span, list[int]]:
    """(the span of the columns, the positions of those that do not depend on earlier ones)."""
    span = Span()
    return span, [i for i, c in enumerate(columns) if span.add(c)]


def kernel(columns: Sequence[int]) -> list[int]:
    """A basis of {x: matrix times x = 0}, one vector for each column that depends on earlier ones."""
    span, place = independent(columns)
    chosen = set(place)
    return [1 << i | scatter(span.coordinates(c), place) for i, c in enumerate(columns) if i not in chosen]


def intersect(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """A basis of the intersection of span(a) and span(b), made of members of `a` as far as they are in it."""
    inside = Span(b)
    out = Span(v for v in a if v in inside)
    a, b = Span(a).vectors, inside.vectors
    own = (1 << len(a)) - 1
    for k in kernel([*a, *b]):
        out.add(apply(a, k & own))
    return out.vectors


def extend(base: Iterable[int], candidates: Iterable[int], most: int | None = None) -> list[int]:
    """Those candidates that enlarge span(base), each also by the ones taken before it; the first `most` of them."""
    span, out = Span(base), list[int]()
    for v in candidates:
        if len(out) == most:
            break
        if span.add(v):
            out.append(v)
    return out


def common_complement(p: Sequence[int], q: Sequence[int], space: Sequence[int]) -> list[int]:
    """A largest subspace of span(space) that meets span(p) and span(q) in 0 only; p and q lie in span(space).

    Vectors outside p + q are free to take; a direction that only p has and one that only q has are taken as their
    sum, which lies in neither.  That gives dim(space) - max(dim p, dim q), and more would meet the larger of the two.
    """
    both = intersect(p, q)
    only_p, only_q = extend(both, p), extend(both, q)
    outside = extend([*both, *only_p, *only_q], space)
    return [*outside, *(e ^ f for e, f in zip(only_p, only_q))]


def linear_map(inputs: Sequence[int], outputs: Sequence[int], bits: int) -> list[int] | None:
    """Columns of a matrix on `bits` coordinates that takes each input to its output; None if there is none.

    Directions that the inputs do not reach go to 0.
    """
    span, place = independent(inputs)
    for v, out in zip(inputs, outputs):
        if apply([outputs[i] for i in place], span.coordinates(v)) != out:
            return None
    images = [outputs[i] for i in place]
    for i in range(bits):
        if span.add(1 << i):
            images.append(0)
    return [apply(images, span.coordinates(1 << i)) for i in range(bits)]
