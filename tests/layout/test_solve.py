"""The labelling solver against all labellings of small problems, and against itself under a small table limit."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from tilewright.layout.solve import Edge, Labelling, Unsatisfiable, cost_of, solve


def random_problem(rng: random.Random, variables: int, labels: int, extra: int,
                   forbid: float = 0.0) -> tuple[list[list[float]], list[Edge]]:
    """A random tree with `extra` edges more."""
    own = [[rng.randint(0, 20) / 2 for _ in range(rng.randint(1, labels))] for _ in range(variables)]
    pairs = [(rng.randrange(v), v) for v in range(1, variables)]
    while extra and variables > 1:
        a, b = sorted(rng.sample(range(variables), 2))
        pairs.append((a, b))
        extra -= 1
    edges = [Edge(a, b, [[math.inf if rng.random() < forbid else rng.randint(0, 20) for _ in own[b]] for _ in own[a]])
             for a, b in pairs]
    return own, edges


def least(own: list[list[float]], edges: list[Edge]) -> float:
    return min(cost_of(labels, own, edges) for labels in itertools.product(*(range(len(c)) for c in own)))


@pytest.mark.parametrize("seed", range(40))
def test_the_least_cost_of_all(seed: int) -> None:
    rng = random.Random(seed)
    own, edges = random_problem(rng, rng.randint(1, 6), 4, rng.randint(0, 5), forbid=seed % 4 * 0.15)
    found, best = solve(own, edges), least(own, edges)
    if best == math.inf:
        assert isinstance(found, Unsatisfiable)
    else:
        assert isinstance(found, Labelling) and found.exact
        assert found.cost == best == cost_of(found.labels, own, edges)


@pytest.mark.parametrize("seed", range(30))
def test_variables_that_cannot_be_labelled_are_a_smallest_set(seed: int) -> None:
    rng = random.Random(seed)
    own, edges = random_problem(rng, 6, 3, 4, forbid=0.6)
    found = solve(own, edges)
    if isinstance(found, Unsatisfiable):
        def possible(kept: set[int]) -> bool:
            inside = [e for e in edges if {e.a, e.b} <= kept]
            return least([c if v in kept else [0.0] * len(c) for v, c in enumerate(own)], inside) < math.inf
        guilty = set(found.variables)
        assert not possible(guilty) and all(possible(guilty - {v}) for v in guilty)
    else:
        assert least(own, edges) == found.cost


def test_no_label_at_all() -> None:
    assert solve([[1.0], []], []) == Unsatisfiable((1,))
    assert solve([[math.inf], [1.0]], []) == Unsatisfiable((0,))
    assert solve([], []) == Labelling((), 0, True, 0)


@pytest.mark.parametrize("forbid", [0.0, 0.1])
def test_a_small_limit_still_moves_clusters(forbid: float) -> None:
    """Wide problems under a limit that allows pairs only: never worse than one variable at a time, mostly exact."""
    exact = 0
    for seed in range(24):
        rng = random.Random(seed)
        own, edges = random_problem(rng, 6, 3, 10, forbid)
        held = solve(own, edges, table_limit=9)
        if isinstance(held, Unsatisfiable):
            assert least(own, edges) == math.inf
            exact += 1
            continue
        assert isinstance(held, Labelling) and held.cost == cost_of(held.labels, own, edges)
        for v, costs in enumerate(own):
            for label in range(len(costs)):
                other = (*held.labels[:v], label, *held.labels[v + 1:])
                assert cost_of(other, own, edges) >= held.cost
        best = least(own, edges)
        assert held.cost >= best and (held.cost == best or not held.exact)
        exact += held.cost == best
    assert exact >= 18


def test_a_chain_moves_as_a_whole() -> None:
    """Every single change costs two conversions; only all together is better.  One anchor at the end wants label 1."""
    size = 40
    convert = [[0.0, 5.0], [5.0, 0.0]]
    own = [[0.0, 0.0] for _ in range(size)]
    own[0], own[-1] = [0.0, 1.0], [8.0, 0.0]
    edges = [Edge(v, v + 1, convert) for v in range(size - 1)]
    edges += [Edge(v, v + 2, [[0.0, 1.0], [1.0, 0.0]]) for v in range(size - 2)]
    for limit in (4, 1 << 15):
        found = solve(own, edges, table_limit=limit)
        assert found.labels == (1,) * size and found.cost == 1


def test_a_kernel_sized_problem_is_quick_and_the_same_every_time() -> None:
    rng = random.Random(9)
    own, edges = random_problem(rng, 400, 6, 20)
    first = solve(own, edges)
    assert isinstance(first, Labelling) and first.exact and first == solve(own, list(edges))
    assert first.width <= 6


def test_ties_go_to_the_lower_label() -> None:
    assert solve([[1.0, 1.0], [2.0, 2.0, 2.0]], [Edge(0, 1, [[0.0] * 3] * 2)]).labels == (0, 0)


@pytest.mark.parametrize("edge, message", [(Edge(0, 0, [[0.0]]), "from variable 0 to 0"),
                                           (Edge(0, 2, [[0.0]]), "to 2, of 2"),
                                           (Edge(0, 1, [[0.0, 1.0]]), "are not 1 x 1")])
def test_edges_must_fit(edge: Edge, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve([[0.0], [0.0]], [edge])
