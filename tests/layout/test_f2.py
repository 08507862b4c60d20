"""Linear algebra over GF(2), against enumeration of whole subspaces."""

from __future__ import annotations

import random

import pytest

from tilewright.layout import f2


def elements(vectors: list[int]) -> set[int]:
    """The whole span, by enumeration."""
    out = {0}
    for v in vectors:
        out |= {e ^ v for e in out}
    return out


def vectors(rng: random.Random, bits: int = 6, most: int = 6) -> list[int]:
    return [rng.randrange(1 << bits) for _ in range(rng.randint(0, most))]


CASES = range(25)


@pytest.fixture(params=CASES)
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def test_a_span_holds_what_enumeration_finds(rng: random.Random) -> None:
    vs = vectors(rng)
    span, whole = f2.Span(vs), elements(vs)
    assert len(whole) == 1 << len(span) == 1 << f2.rank(vs)
    for v in range(64):
        assert (v in span) == (v in whole)
        if v in whole:
            assert f2.apply(span.vectors, span.coordinates(v)) == v
        else:
            with pytest.raises(ValueError, match="not in the span"):
                span.coordinates(v)


def test_least_and_greatest_of_a_coset(rng: random.Random) -> None:
    vs, at = vectors(rng, most=4), rng.randrange(64)
    coset = {at ^ e for e in elements(vs)}
    assert f2.Span(vs).least(at) == min(coset)
    assert f2.Span(vs).greatest(at) == max(coset)


def test_kernel(rng: random.Random) -> None:
    columns = vectors(rng, most=8)
    zero = {x for x in range(1 << len(columns)) if f2.apply(columns, x) == 0}
    assert elements(f2.kernel(columns)) == zero and 1 << f2.rank(f2.kernel(columns)) == len(zero)


def test_intersection(rng: random.Random) -> None:
    a, b = vectors(rng), vectors(rng)
    both = f2.intersect(a, b)
    assert elements(both) == elements(a) & elements(b) and f2.rank(both) == len(both)


def test_common_complement(rng: random.Random) -> None:
    space = vectors(rng, 8, 8)
    inside = sorted(elements(space))
    p, q = ([rng.choice(inside) for _ in range(rng.randint(0, 4))] for _ in range(2))
    h = f2.common_complement(p, q, space)
    assert elements(h) <= elements(space)
    assert elements(h) & elements(p) == elements(h) & elements(q) == {0}
    assert len(h) == f2.rank(h) == f2.rank(space) - max(f2.rank(p), f2.rank(q))


def test_linear_map(rng: random.Random) -> None:
    inputs, matrix = vectors(rng), [rng.randrange(16) for _ in range(6)]
    outputs = [f2.apply(matrix, v) for v in inputs]
    found = f2.linear_map(inputs, outputs, 6)
    assert found is not None and [f2.apply(found, v) for v in inputs] == outputs
    if inputs and 0 in [*inputs, inputs[0] ^ inputs[-1]] and len(inputs) > 1:
        broken = f2.linear_map([*inputs, inputs[0]], [*outputs, outputs[0] ^ 1], 6)
        assert broken is None


def test_one_input_has_one_output() -> None:
    assert f2.linear_map([3, 3], [1, 2], 2) is None
    assert f2.linear_map([1, 2, 3], [1, 2, 0], 2) is None
    assert f2.linear_map([1, 2, 3], [1, 2, 3], 2) == [1, 2]
    assert f2.linear_map([2], [5], 3) == [0, 5, 0]


def test_gather_and_scatter_undo_each_other() -> None:
    assert f2.gather(0b10110, [4, 1, 0]) == 0b011
    assert f2.scatter(0b011, [4, 1, 0]) == 0b10010
    assert list(f2.bits_of(0b10110)) == [1, 2, 4]
