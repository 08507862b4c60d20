"""Labels of least cost: a solver for small labels and many variables that are nearly a tree.

Each variable takes one of its labels; a label has a cost, and so has each pair of labels along an edge.  Layout
assignment is such a problem: a variable is an op, its labels are the layouts that it could run in, an edge is a value
that goes from one op to another, its cost a conversion.  This file knows numbers only; `math.inf` forbids.

The minimum is exact: one variable after another is eliminated, by a table of its best label for each combination of its
neighbours' (kernels are nearly trees, so tables stay small).  Where a table would be larger than the limit, the
neighbour with the most edges is held at its present label instead, the rest is solved exactly around it, and the next
round holds others; between rounds clusters are moved: a variable takes another label, its neighbours follow it one by
one, and the best stage of that is kept.  (One variable at a time would stick: alone it pays a conversion on each side.)
No round makes the cost larger.  Ties go to lower labels, so the answer depends on the problem only.
Tests: tests/layout/test_solve.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

TABLE_LIMIT = 1 << 15       # entries of the largest table; a table of this size takes some 0.1 s
ROUNDS = 8                  # at most, where variables have to be held
FORBIDDEN = 1e9             # in the sums of a moving cluster, which may pass through what is forbidden


@dataclass(frozen=True)
class Edge:
    """`cost[i][j]`: what it costs that variable `a` has label i and variable `b` label j."""

    a: int
    b: int
    cost: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Labelling:
    """A label for each variable."""

    labels: tuple[int, ...]
    cost: float
    exact: bool     # proven to be the least cost; else no round made it better
    width: int      # neighbours of the variable with the largest table


@dataclass(frozen=True)
class Unsatisfiable:
    """No labels have a finite cost.  Without any one of these variables there would be some among the rest of them."""

    variables: tuple[int, ...]


@dataclass(frozen=True)
class _Factor:
    """Costs over some variables, the last one fastest."""

    scope: tuple[int, ...]
    costs: Sequence[float]


def cost_of(labels: Sequence[int], own: Sequence[Sequence[float]], edges: Iterable[Edge]) -> float:
    """What a choice of labels costs."""
    return sum(costs[label] for costs, label in zip(own, labels)) + sum(
        e.cost[labels[e.a]][labels[e.b]] for e in edges)


def solve(own: Sequence[Sequence[float]], edges: Sequence[Edge], *,
          table_limit: int = TABLE_LIMIT) -> Labelling | Unsatisfiable:
    """The labels of least cost, `own[v][i]` being the cost of label i of variable v.

    ValueError for an edge between other variables than there are, of a variable to itself, or of another size.
    """
    _check(own, edges)
    sizes = [len(costs) for costs in own]
    factors = [_Factor((v,), costs) for v, costs in enumerate(own)]
    factors += [_Factor((e.a, e.b), [c for row in e.cost for c in row]) for e in edges]
    if not all(sizes):
        return Unsatisfiable((sizes.index(0),))
    start = _allowed(factors, sizes, range(len(own)))
    if start is None:
        return _unsatisfiable(factors, sizes)
    best: Labelling | None = None
    held_before = [0] * len(own)
    for _ in range(ROUNDS):
        elimination = _Elimination(factors, sizes, table_limit, best.labels if best else start, held_before)
        labels = elimination.run()
        if elimination.held:
            labels = _moved_clusters(labels, own, edges)
        cost = cost_of(labels, own, edges)
        better = best is None or cost < best.cost
        if better:
            best = Labelling(labels, cost, not elimination.held, elimination.width)
        if not elimination.held or (not better and min(held_before) > 0):
            break
        for v in elimination.held:
            held_before[v] += 1
    assert best is not None
    return best


def _check(own: Sequence[Sequence[float]], edges: Sequence[Edge]) -> None:
    for e in edges:
        if e.a == e.b or not (0 <= e.a < len(own) and 0 <= e.b < len(own)):
            raise ValueError(f"an edge from variable {e.a} to {e.b}, of {len(own)}")
        if len(e.cost) != len(own[e.a]) or any(len(row) != len(own[e.b]) for row in e.cost):
            raise ValueError(f"the costs of the edge from {e.a} to {e.b} are not {len(own[e.a])} x {len(own[e.b])}")


def _moved_clusters(labels: tuple[int, ...], own: Sequence[Sequence[float]],
                    edges: Sequence[Edge]) -> tuple[int, ...]:
    """The labels after moves of clusters, from each variable and each of its labels, as long as one helps."""
    near: list[list[tuple[int, Sequence[Sequence[float]], bool]]] = [[] for _ in own]
    for e in edges:
        near[e.a].append((e.b, e.cost, True))
        near[e.b].append((e.a, e.cost, False))

    def price(v: int, label: int, at: Mapping[int, int]) -> float:
        """The cost of a label, with those of its edges whose other ends have labels in `at`."""
        total = min(own[v][label], FORBIDDEN)
        for u, cost, forward in near[v]:
            if u in at:
                total += min(cost[label][at[u]] if forward else cost[at[u]][label], FORBIDDEN)
        return total

    def grown(v: int, label: int) -> tuple[int, ...] | None:
        """The best stage of a cluster that begins with one variable; None if no stage is better than the present."""
        at, moved, gain, best = dict(enumerate(labels)), {v: label}, 0.0, None
        least = -1e-6       # sums of floats in another order are no gain
        frontier = [v]
        while frontier:
            u = frontier.pop(0)
            before = price(u, at[u], at)
            at[u] = moved[u]
            gain += price(u, at[u], at) - before
            if gain < least:
                least, best = gain, tuple(at.values())
            for w, _, _ in near[u]:
                if w not in moved:
                    wish = min(range(len(own[w])), key=lambda i: price(w, i, moved))
                    if wish != at[w]:
                        moved[w] = wish
                        frontier.append(w)
        return best

    better: tuple[int, ...] | None = labels
    while better is not None:
        labels = better
        better = next((g for v, costs in enumerate(own) for i in range(len(costs)) if i != labels[v]
                       for g in [grown(v, i)] if g is not None), None)
    return labels


class _Elimination:
    """One round: every variable that is not held is eliminated, then the choices are read backwards."""

    def __init__(self, factors: Sequence[_Factor], sizes: Sequence[int], table_limit: int, present: Sequence[int],
                 held_before: Sequence[int]) -> None:
        self.sizes, self.limit, self.present, self.held_before = sizes, table_limit, present, held_before
        self.factors: dict[int, list[_Factor]] = {v: [] for v in range(len(sizes))}
        self.near: dict[int, set[int]] = {v: set() for v in range(len(sizes))}
        self.held: dict[int, int] = {}
        self.steps: list[tuple[int, tuple[int, ...], list[int]]] = []     # variable, neighbours, best label for theirs
        self.width = 0
        for f in factors:
            self._add(f)

    def _add(self, factor: _Factor) -> None:
        for v in factor.scope:
            self.factors[v].append(factor)
            self.near[v].update(u for u in factor.scope if u != v)

    def _table(self, v: int) -> int:
        return math.prod(self.sizes[u] for u in self.near[v]) * self.sizes[v]

    def run(self) -> tuple[int, ...]:
        scores = {v: (self._table(v), v) for v in self.factors}
        while scores:
            (size, v) = min(scores.values())
            touched = set(self.near[v])
            if size > self.limit and touched:
                v = min(touched, key=lambda u: (self.held_before[u], -len(self.near[u]), u))
                touched = set(self.near[v])
                self._hold(v)
            else:
                self._eliminate(v)
            del scores[v]
            scores.update((u, (self._table(u), u)) for u in touched)
        labels = dict(self.held)
        for v, rest, choice in reversed(self.steps):
            at = 0
            for u in rest:
                at = at * self.sizes[u] + labels[u]
            labels[v] = choice[at]
        return tuple(labels[v] for v in range(len(self.sizes)))

    def _take(self, v: int) -> list[_Factor]:
        """Remove a variable; what is known of it."""
        mine = self.factors.pop(v)
        for u in self.near.pop(v):
            self.factors[u] = [f for f in self.factors[u] if v not in f.scope]
            self.near[u].discard(v)
        return mine

    def _hold(self, v: int) -> None:
        """Fix a variable at its present label: its factors lose it."""
        label = self.present[v]
        self.held[v] = label
        for f in self._take(v):
            scope = tuple(u for u in f.scope if u != v)
            if scope:
                step = math.prod(self.sizes[u] for u in f.scope[f.scope.index(v) + 1:])
                block = step * self.sizes[v]
                kept = [c for i in range(label * step, len(f.costs), block) for c in f.costs[i:i + step]]
                self._add(_Factor(scope, kept))

    def _eliminate(self, v: int) -> None:
        """Replace a variable by the table of its best label for each combination of its neighbours'."""
        rest = tuple(sorted(self.near[v]))
        self.width = max(self.width, len(rest))
        mine = self._take(v)
        strides = [_strides(f, rest, self.sizes) for f in mine]
        own = [_strides(f, (v,), self.sizes)[0] for f in mine]
        best, choice = [], []
        for combination in product(*(range(self.sizes[u]) for u in rest)):
            rows = [(f.costs, sum(s * x for s, x in zip(stride, combination)), step)
                    for f, stride, step in zip(mine, strides, own)]
            totals = [sum([costs[at + step * label] for costs, at, step in rows]) for label in range(self.sizes[v])]
            least = min(totals)
            best.append(least)
            choice.append(totals.index(least))
        self.steps.append((v, rest, choice))
        if rest:
            self._add(_Factor(rest, best))


def _strides(factor: _Factor, variables: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """How far each variable's label moves in the factor's costs; 0 for variables that it does not have."""
    steps: dict[int, int] = {}
    step = 1
    for u in reversed(factor.scope):
        steps[u] = step
        step *= sizes[u]
    return [steps.get(u, 0) for u in variables]


def _unsatisfiable(factors: Sequence[_Factor], sizes: Sequence[int]) -> Unsatisfiable:
    """A smallest set of variables that cannot be labelled together: leave out one after another that is not needed."""
    kept = list(range(len(sizes)))
    for v in range(len(sizes)):
        without = [u for u in kept if u != v]
        if _allowed(factors, sizes, without) is None:
            kept = without
    return Unsatisfiable(tuple(kept))


def _allowed(factors: Sequence[_Factor], sizes: Sequence[int], kept: Sequence[int]) -> tuple[int, ...] | None:
    """Labels of the variables `kept` that nothing forbids, each the cheapest by itself as far as that goes.

    Only what forbids something ties variables together here, so tables may be as large as they must.
    """
    number = {v: i for i, v in enumerate(kept)}
    inside = [_Factor(tuple(number[v] for v in f.scope), f.costs if len(f.scope) == 1 else _forbidding(f.costs))
              for f in factors if number.keys() >= set(f.scope) and (len(f.scope) == 1 or math.inf in f.costs)]
    count = [sizes[v] for v in kept]
    labels = _Elimination(inside, count, 1 << 62, [0] * len(count), [0] * len(count)).run()
    return labels if all(f.costs[_at(f, labels, count)] < math.inf for f in inside) else None


def _forbidding(costs: Sequence[float]) -> list[float]:
    return [math.inf if c == math.inf else 0.0 for c in costs]


def _at(factor: _Factor, labels: Sequence[int], sizes: Sequence[int]) -> int:
    at = 0
    for v in factor.scope:
        at = at * sizes[v] + labels[v]
    return at
