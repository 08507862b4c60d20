"""Profiles as text: `print_tree(*parse(["tflop16/s", "time/ms"], "run.hatchet"))`.

Metrics are `time/s` (ms, us, ns, %), `avg_time/...` a launch, the same of `cpu_time`, `flop/s`, `flop8/s`, `flop16/s`
..., `byte/s` (with k, m, g, t before them), and any that a file has; all with those of the frames inside.
Tests: tests/profiler/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.profiler.tree import COUNT, CPU_TIME, TIME, Node, read

_PARTS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}        # nanoseconds of a unit
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TIMED = re.compile(r"(avg_)?(cpu_)?time/(s|ms|us|ns|%)")
_RATE = re.compile(r"([kmgt]?)(flop|byte)(\d*)/s")

Measure = Callable[[Node], "float | None"]


def parse(metrics: Sequence[str], filename: str, include: str | None = None, exclude: str | None = None,
          threshold: float | None = None) -> tuple[Node, list[str]]:
    """The profile of a file and the metrics, for `print_tree`.

    Of the frames are left those that `include`, a regular expression, finds in their names, with what is above and
    inside; not those that `exclude` finds; and those with at least the part `threshold` of the root's first metric.
    ValueError for a metric that the file does not have.
    """
    root = read(Path(filename))
    names = list(metrics)
    measures = [_measure(name, root) for name in names]
    if threshold is not None and measures:
        least = threshold * (measures[0](root) or 0)
        _keep(root, lambda node: (measures[0](node) or 0) >= least)
    if exclude is not None:
        _keep(root, lambda node: not re.search(exclude, node.name))
    if include is not None and not re.search(include, root.name):
        _keep(root, lambda node: any(re.search(include, inner.name) for _, inner in node.walk()),
              stop=lambda node: re.search(include, node.name) is not None)
    return root, names


def print_tree(gf: Node, metrics: Sequence[str], depth: int = 100, format: str | None = None,
               print_sorted: bool = False) -> None:
    """Print frames down to `depth`, with their metrics; `print_sorted` lists them by the first metric instead."""
    measures = [_measure(name, gf) for name in metrics]
    rows = [(level, node.name, [measure(node) for measure in measures]) for level, node in gf.walk() if level <= depth]
    if print_sorted:
        rows.sort(key=lambda row: -(row[2][0] or 0))
        rows = [(0, name, values) for _, name, values in rows]
    shown = [["-" if value is None else f"{value:.3f}" for value in values] for _, _, values in rows]
    widths = [max(map(len, column)) for column in zip(list(metrics), *shown, strict=True)]
    print("  ".join([*(name.rjust(width) for name, width in zip(metrics, widths, strict=True)), "frame"]))
    for (level, name, _), cells in zip(rows, shown, strict=True):
        print("  ".join([*(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)), "  " * level + name]))


def _measure(name: str, root: Node) -> Measure:
    """How a metric is computed of a frame."""
    timed, rate = _TIMED.fullmatch(name), _RATE.fullmatch(name)
    found = root.inclusive()
    if timed is not None:
        average, cpu, unit = timed.groups()
        raw = CPU_TIME if cpu else TIME
        whole = found.get(raw, 0) / 100 if unit == "%" else _PARTS[unit]
        return lambda node: _ratio(node.inclusive(), raw, whole, COUNT if average else None)
    if rate is not None:
        prefix, what, width = rate.groups()
        raw = f"{what}s{width}"
        if raw in found:
            return lambda node: _ratio(node.inclusive(), raw, _FACTORS[prefix] / 1e9, TIME)
    if name not in found:
        raise ValueError(f"the profile has no metric {name!r}; it has {', '.join(sorted(found))}")
    return lambda node: node.inclusive().get(name)


def _ratio(values: dict[str, float], above: str, unit: float, below: str | None) -> float | None:
    divisor = unit * (values.get(below, 0) if below else 1)
    return values[above] / divisor if above in values and divisor else None


def _keep(root: Node, wanted: Callable[[Node], bool], stop: Callable[[Node], bool] | None = None) -> None:
    """Leave the frames inside of `root` that are wanted; what is inside of one at which to `stop` stays."""
    root.children = {name: child for name, child in root.children.items() if wanted(child)}
    for child in root.children.values():
        if stop is None or not stop(child):
            _keep(child, wanted, stop)
