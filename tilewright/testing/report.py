"""Benchmark sweeps: `Benchmark` describes the axes, `perf_report` runs a function over them and prints a table.

The table is printed as text always; `save_path` gets a CSV file, and a plot where matplotlib is installed.
Tests: tests/testing/test_report.py.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


class Benchmark:
    """What to sweep: `x_names` take `x_vals` in turn, `line_arg` takes `line_vals`; `args` stay as they are.

    An entry of `x_vals` is one value for all of `x_names`, or a tuple with one for each.
    """

    def __init__(self, x_names: Sequence[str], x_vals: Sequence[Any], line_arg: str, line_vals: Sequence[Any],
                 line_names: Sequence[str], plot_name: str, args: Mapping[str, Any], xlabel: str = "",
                 ylabel: str = "", x_log: bool = False, y_log: bool = False,
                 styles: Sequence[tuple[str, str]] | None = None) -> None:
        if len(line_vals) != len(line_names):
            raise ValueError(f"{len(line_vals)} line_vals have {len(line_names)} line_names")
        self.x_names, self.x_vals = list(x_names), list(x_vals)
        self.line_arg, self.line_vals, self.line_names = line_arg, list(line_vals), list(line_names)
        self.plot_name, self.args = plot_name, dict(args)
        self.xlabel, self.ylabel = xlabel, ylabel
        self.x_log, self.y_log, self.styles = x_log, y_log, styles


class Table:
    """Rows of one benchmark: the x values, then (value, low, high) for each line."""

    def __init__(self, bench: Benchmark) -> None:
        self.bench = bench
        self.rows: list[tuple[tuple[Any, ...], list[tuple[float, float, float]]]] = []

    def text(self) -> str:
        """A table for people."""
        unit = f" ({self.bench.ylabel})" if self.bench.ylabel else ""
        lines = [[*self.bench.x_names, *(n + unit for n in self.bench.line_names)]]
        for x, cells in self.rows:
            lines.append([*map(str, x), *(f"{value:.6f}" for value, _, _ in cells)])
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)

    def write_csv(self, path: Path) -> None:
        """The same numbers, one row an x value."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*self.bench.x_names, *self.bench.line_names])
            writer.writerows([*x, *(value for value, _, _ in cells)] for x, cells in self.rows)

    def frame(self) -> Any:
        """A pandas DataFrame; ImportError where pandas is not installed."""
        import pandas
        names = [*self.bench.x_names, *self.bench.line_names]
        return pandas.DataFrame([[*x, *(value for value, _, _ in cells)] for x, cells in self.rows], columns=names)

    def plot(self, path: Path | None, show: bool) -> None:
        """A line plot with the spread as a band; ImportError where matplotlib is not installed."""
        import matplotlib.pyplot as plt
        figure, axes = plt.subplots()
        x = [row[0][0] for row in self.rows]
        for i, name in enumerate(self.bench.line_names):
            color, style = self.bench.styles[i] if self.bench.styles else (None, None)
            axes.plot(x, [cells[i][0] for _, cells in self.rows], label=name, color=color, linestyle=style)
            axes.fill_between(x, [cells[i][1] for _, cells in self.rows], [cells[i][2] for _, cells in self.rows],
                              alpha=0.15, color=color)
        axes.legend()
        axes.set_xlabel(self.bench.xlabel or self.bench.x_names[0])
        axes.set_ylabel(self.bench.ylabel)
        axes.set_xscale("log" if self.bench.x_log else "linear")
        axes.set_yscale("log" if self.bench.y_log else "linear")
        if path is not None:
            figure.savefig(path)
        if show:
            plt.show()
        plt.close(figure)


class Mark:
    """A function with its benchmarks; `run` sweeps them."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(self, show_plots: bool = False, print_data: bool = False, save_path: str = "", return_df: bool = False,
            **kwargs: Any) -> Any:
        """Run every benchmark and print its table; `return_df` returns pandas frames instead of None."""
        single = isinstance(self.benchmarks, Benchmark)
        benchmarks = [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else list(self.benchmarks)
        tables = []
        for bench in benchmarks:
            table = self._measured(bench, kwargs)
            print(f"{bench.plot_name}:\n{table.text()}")
            if save_path:
                _save(table, Path(save_path))
            if show_plots:
                table.plot(None, show=True)
            tables.append(table)
        if not return_df:
            return None
        frames = [table.frame() for table in tables]
        return frames[0] if single else frames

    def _measured(self, bench: Benchmark, kwargs: Mapping[str, Any]) -> Table:
        table = Table(bench)
        for entry in bench.x_vals:
            x = tuple(entry) if isinstance(entry, tuple | list) else (entry,) * len(bench.x_names)
            if len(x) != len(bench.x_names):
                raise ValueError(f"x_vals has {entry!r} for the {len(bench.x_names)} names {bench.x_names}")
            named = dict(zip(bench.x_names, x, strict=True))
            cells = [_three(self.fn(**named, **{bench.line_arg: line}, **bench.args, **kwargs))
                     for line in bench.line_vals]
            table.rows.append((x, cells))
        return table


def _three(result: Any) -> tuple[float, float, float]:
    """What a benchmarked function returned: one number, or the number with its lowest and highest."""
    if isinstance(result, tuple | list):
        value, low, high = result
        return float(value), float(low), float(high)
    return float(result), float(result), float(result)


def _save(table: Table, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table.write_csv(folder / f"{table.bench.plot_name}.csv")
    try:
        table.plot(folder / f"{table.bench.plot_name}.png", show=False)
    except ImportError:
        print("no plot: matplotlib is not installed (pip install tilewright[plot])")


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Decorator: `@perf_report(Benchmark(...))`; then `function.run(print_data=True)`."""
    return lambda fn: Mark(fn, benchmarks)
