"""Which layout each tile lives in, and each op runs in: the choice of least cost.

Propagation (`homes`) gives an assignment at once, and where it leaves nothing to gain that is the answer.  Else each
variable of `choices` gets the layouts that anchors offer: the best one of each access, those of dots, one for each
reduction in which it stays in its warps; all others see these by the algebra of shape operations.  The cheapest labels
are found by elimination (`layout.solve`), and taken if they cost less than what propagation gave.
Tests: tests/targets/nvidia/test_assign.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.node import Block, Module, Op
from tilewright.ir.types import shape_of
from tilewright.ir.walk import use_counts
from tilewright.layout import Layout
from tilewright.layout.route import Reach, reach
from tilewright.layout.solve import Edge, Labelling, solve
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.passes.accesses import Accesses
from tilewright.targets.nvidia.passes.asked import Asked
from tilewright.targets.nvidia.passes.assignment import ACCESSES, Assignment
from tilewright.targets.nvidia.passes.choices import Choices, Link, Spot
from tilewright.targets.nvidia.passes.costly import costly
from tilewright.targets.nvidia.passes.costs import Costs
from tilewright.targets.nvidia.passes.homes import propagated
from tilewright.targets.nvidia.passes.special import in_one_run, layout_for, within_warps
from tilewright.targets.nvidia.passes.spots import Way, applied, undone

Table = list[list[float]]

MOST_LABELS = 6     # of a variable, the first that are offered


def assigned(module: Module, num_warps: int, capability: Capability) -> Asked:
    """The cheapest assignment, and what is asked for under it."""
    body, accesses = module.entry.body, Accesses(module, num_warps)
    first = Asked(body, propagated(module, accesses, num_warps, capability))
    settled = costly(first)
    if settled:
        first = Asked(body, propagated(module, accesses, num_warps, capability, settled))
    if not _may_gain(first):
        return first
    costs = Costs(module, accesses, num_warps, capability)
    second = _Problem(body, first.assignment, accesses, costs).solved()
    if second is None:
        return first
    other = Asked(body, second)
    return other if costs.gain(first, other) > 0 else first


def _may_gain(asked: Asked) -> bool:
    """Whether some conversion leaves its thread, or some reduction its warp though it need not."""
    homes = asked.assignment
    if any(reach(homes.of(v), layout) > Reach.THREAD for v, wanted in asked.wanted.items() if v not in homes.flexible
           for layout in wanted):
        return True
    return any((op.name == "reduce" and within_warps(layout, op.attrs["axis"]) is not None) or
               (op.name == "scan" and _in_one_run(op, homes) is not None) for op, layout in homes.runs.items())


def _in_one_run(op: Op, given: Assignment) -> Layout | None:
    return in_one_run(given.runs[op], shape_of(op.operands[0].type), op.attrs["axis"], given.num_warps)


class _Problem:
    """Labels for the variables of one function, and what they cost."""

    def __init__(self, body: Block, given: Assignment, accesses: Accesses, costs: Costs) -> None:
        self._body, self._given, self._accesses, self._costs = body, given, accesses, costs
        self._choices = Choices(body, given, costs.operands_of_dot)
        self._op_of = {spot.variable: op for op, spot in self._choices.runs.items() if not spot.chain}
        self._labels: dict[int, list[Layout]] = {v: [] for v in self._choices.variables}
        self._used = use_counts(body)
        self._offer_all()

    # -- labels

    def _offer(self, variable: int, layout: Layout | None) -> bool:
        """Whether `layout`, made fit for the variable, is a new label."""
        labels = self._labels[variable]
        if layout is None or (variable in self._choices.fixed and labels) or len(labels) == MOST_LABELS:
            return False
        op = self._op_of.get(variable)
        if op is not None:
            if labels and op.name.startswith("atomic") and self._used.get(op.result):
                return False        # old values would go where the layout says
            layout = layout_for(op, layout, self._given.num_warps)
        if layout in labels:
            return False
        labels.append(layout)
        return True

    def _seeds(self) -> Iterator[tuple[int, Layout | None]]:
        """What propagation gave, so that the answer is no worse; then what anchors offer."""
        choices, given = self._choices, self._given
        yield from choices.fixed.items()
        for op, spot in choices.runs.items():
            yield spot.variable, undone(spot.chain, given.runs[op])
        for value, spot in choices.spots.items():
            if not self._labels[spot.variable]:
                yield spot.variable, undone(spot.chain, given.of(value))
        for op, spot in choices.runs.items():
            if op.name in ACCESSES:
                yield spot.variable, self._accesses.coalesced(op)
            elif op.name == "reduce":
                yield spot.variable, within_warps(given.runs[op], op.attrs["axis"])
            elif op.name == "scan":
                yield spot.variable, _in_one_run(op, given)

    def _offer_all(self) -> None:
        """Hand labels on along links, both ways, as long as any is new."""
        near: dict[int, list[tuple[Spot, Spot]]] = {v: [] for v in self._labels}
        for link in self._choices.links:
            if any(step.way is Way.FIXED for step in link.spot.chain):
                continue        # an operand of a dot: its load shall be the one that `pipeline` copies ahead
            source = self._choices.spots[link.value]
            near[source.variable].append((source, link.spot))
            near[link.spot.variable].append((link.spot, source))
        work = [(v, layout) for v, layout in self._seeds() if layout is not None and self._offer(v, layout)]
        for variable, layout in work:       # grows meanwhile
            for here, there in near[variable]:
                other = undone(there.chain, applied(here.chain, layout))
                if self._offer(there.variable, other):
                    work.append((there.variable, self._labels[there.variable][-1]))

    # -- costs

    def solved(self) -> Assignment | None:
        """The cheapest labels as an assignment; None if they are those that propagation gave."""
        variables = [v for v, labels in self._labels.items() if len(labels) > 1]
        number = {v: k for k, v in enumerate(variables)}
        own = [[0.0] * len(self._labels[v]) for v in variables]
        for op, spot in self._costed():
            if spot.variable in number:
                for k, layout in enumerate(self._layouts(spot)):
                    own[number[spot.variable]][k] += self._costs.own(op, layout)
        edges: dict[tuple[int, int], Table] = {}
        for link in self._choices.links:
            self._add(link, number, own, edges)
        found = solve(own, [Edge(a, b, table) for (a, b), table in edges.items()])
        assert isinstance(found, Labelling)     # nothing is forbidden
        if not any(found.labels):
            return None
        return self._assignment({v: labels[found.labels[number[v]] if v in number else 0]
                                 for v, labels in self._labels.items()})

    def _add(self, link: Link, number: dict[int, int], own: Table, edges: dict[tuple[int, int], Table]) -> None:
        """Add the conversions of a link to the costs of its variables, those with one label left out."""
        source, spot = self._choices.spots[link.value], link.spot
        a, b = number.get(source.variable), number.get(spot.variable)
        if a is None and b is None:
            return
        have, want = self._layouts(source), self._layouts(spot)
        if a is None or b is None or a == b:        # one variable chooses
            at = a if b is None else b
            assert at is not None
            count = len(own[at])
            pairs = zip(have * count if a is None else have, want * count if b is None else want, strict=True)
            own[at] = [c + self._costs.conversion(link.value, x, y) for c, (x, y) in zip(own[at], pairs, strict=True)]
            return
        table = [[self._costs.conversion(link.value, x, y) for y in want] for x in have]
        if a > b:
            a, b, table = b, a, [list(column) for column in zip(*table, strict=True)]
        known = edges.get((a, b))
        edges[a, b] = table if known is None else [
            [x + y for x, y in zip(*rows, strict=True)] for rows in zip(known, table, strict=True)]

    def _layouts(self, spot: Spot) -> list[Layout]:
        return [applied(spot.chain, label) for label in self._labels[spot.variable]]

    def _costed(self) -> Iterator[tuple[Op, Spot]]:
        yield from self._choices.runs.items()
        for op in self._costs.ops:
            if op.row.elementwise and op.results and op.results[0] in self._choices.spots:
                yield op, self._choices.spots[op.results[0]]

    def _assignment(self, label: dict[int, Layout]) -> Assignment:
        choices, given = self._choices, self._given
        home = {**given.home, **{v: applied(s.chain, label[s.variable]) for v, s in choices.spots.items()}}
        runs = {**given.runs, **{op: applied(s.chain, label[s.variable]) for op, s in choices.runs.items()}}
        return Assignment(given.num_warps, home, given.flexible, runs)
