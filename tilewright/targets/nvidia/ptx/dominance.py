"""Immediate post-dominators: where the ways from a branch meet again for certain.

Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001), on the reversed graph.
Tests: tests/targets/nvidia/ptx/test_program.py.
"""

from __future__ import annotations


def post_dominators(edges: dict[int, list[int]], end: int) -> dict[int, int | None]:
    """The immediate post-dominator of each node; None where it is the end.  `edges` leaves the end out."""
    order = _postorder_from_end(edges, end)
    rank = {node: i for i, node in enumerate(order)}
    closest: dict[int, int] = {end: end}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] < rank[b]:
                a = closest[a]
            while rank[b] < rank[a]:
                b = closest[b]
        return a

    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node == end:
                continue
            new: int | None = None
            for after in edges[node]:
                if after in closest:
                    new = after if new is None else meet(new, after)
            if new is not None and closest.get(node) != new:
                closest[node] = new
                changed = True
    return {node: None if closest.get(node, end) == end else closest[node] for node in edges}


def _postorder_from_end(edges: dict[int, list[int]], end: int) -> list[int]:
    """Nodes that reach the end, in postorder of the reversed graph."""
    backwards: dict[int, list[int]] = {}
    for node, targets in edges.items():
        for target in targets:
            backwards.setdefault(target, []).append(node)
    order: list[int] = []
    visited = {end}
    stack = [(end, iter(backwards.get(end, ())))]
    while stack:
        node, rest = stack[-1]
        for before in rest:
            if before not in visited:
                visited.add(before)
                stack.append((before, iter(backwards.get(before, ()))))
                break
        else:
            order.append(node)
            stack.pop()
    return order
