"""A profile: frames in frames, each with sums of what was measured in it, and its file.

The file is a literal tree of the library hatchet in JSON, as triton's profiler writes: a list of the root, and of the
devices.  Names of metrics are those of such files: `time (ns)`, `count`, and whatever a program adds.
Tests: tests/profiler/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIME, CPU_TIME, COUNT = "time (ns)", "cpu_time (ns)", "count"


@dataclass
class Node:
    """A frame, and those inside of it by name; `metrics` are its own, without those inside."""

    name: str
    metrics: dict[str, float] = field(default_factory=dict)
    children: dict[str, Node] = field(default_factory=dict)

    def at(self, path: Iterable[str]) -> Node:
        """The frame `path` leads to, made where it is missing."""
        node = self
        for name in path:
            node = node.children.setdefault(name, Node(name))
        return node

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add to the sums."""
        for name, value in metrics.items():
            self.metrics[name] = self.metrics.get(name, 0) + value

    def inclusive(self) -> dict[str, float]:
        """The sums with those of all frames inside."""
        total = Node(self.name, dict(self.metrics))
        for child in self.children.values():
            total.add(child.inclusive())
        return total.metrics

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """This frame and all inside, each after the one that holds it, with their depths."""
        yield depth, self
        for child in self.children.values():
            yield from child.walk(depth + 1)

    def literal(self) -> dict[str, Any]:
        """As hatchet reads it."""
        return {"frame": {"name": self.name, "type": "function"}, "metrics": self.metrics,
                "children": [child.literal() for child in self.children.values()]}


def write(root: Node, path: Path) -> None:
    """Write a profile."""
    path.write_text(json.dumps([root.literal(), {}]))


def read(path: Path) -> Node:
    """The profile of a file.  ValueError if it is none."""
    try:
        return _node(json.loads(path.read_text())[0])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no profile: {error!r}") from None


def _node(literal: Mapping[str, Any]) -> Node:
    metrics = {name: value for name, value in literal["metrics"].items() if isinstance(value, int | float)}
    node = Node(literal["frame"]["name"], metrics)
    for child in map(_node, literal.get("children", ())):
        same = node.at([child.name])        # triton's files may have frames of one name side by side
        same.add(child.metrics)
        for name, inner in child.children.items():
            same.children[name] = inner
    return node
