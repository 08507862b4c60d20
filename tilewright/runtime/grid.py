"""The grid of a launch: from what stands in `kernel[...]` to three sizes.

A grid is a tuple or list of one to three whole numbers, or a function of the bound arguments (a dict, compile-time
ones included) that returns one.  A size of zero is no error: nothing runs.  Sizes behind the third have to be 1:
triton ignores them, and the programs that the user meant would silently not run.
Tests: tests/runtime/test_grid.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.runtime.launch_options import did_you_mean

Grid = tuple[int, int, int]
ANSWERED = -2           # a launch's key, if its grid is what the grid function has returned; `Launcher` says the same
LIMIT = 2**31 - 1       # sizes are int32 in the language (`tl.num_programs`)


def normalise(kernel: str, grid: Any, bound: Mapping[str, Any] | None, is_answer: bool = False) -> Grid:
    """Three sizes; `bound` holds the arguments by name, for a grid that is a function.

    With `is_answer`, `grid` is what such a function has returned.
    """
    if not is_answer and callable(grid):
        is_answer = True
        grid = _asked(kernel, grid, bound)
    if type(grid) is not tuple:
        if not isinstance(grid, tuple | list):
            raise TypeError(_not_a_grid(kernel, grid, from_function=is_answer))
        grid = tuple(grid)
    if not grid:
        raise ValueError(f"{kernel}: a grid has 1 to 3 sizes, not 0; write (1,) for one program")
    sizes = [size if type(size) is int else _whole(kernel, size, grid) for size in grid]
    if len(sizes) > 3:
        if any(size != 1 for size in sizes[3:]):
            raise ValueError(f"{kernel}: a grid has 1 to 3 sizes, not {len(grid)}: {grid!r}; "
                             "fold the rest into one of them and split it with // and % in the kernel")
        del sizes[3:]
    for size in sizes:
        if size < 0:
            raise ValueError(f"{kernel}: a grid's sizes are >= 0, not {size} in {grid!r}")
        if size > LIMIT:
            raise ValueError(f"{kernel}: a grid's sizes are at most {LIMIT}, not {size} in {grid!r}")
    return (*sizes, *(1,) * (3 - len(sizes)))  # type: ignore[return-value]


def _asked(kernel: str, function: Callable[[Any], Any], bound: Mapping[str, Any] | None) -> Any:
    """What a grid function returns; asked for a name that is no parameter, it gets told those that there are."""
    try:
        return function(None if bound is None else _Arguments(kernel, bound))
    except TypeError as error:
        inside = error.__traceback__ and error.__traceback__.tb_next
        if inside is not None:
            raise
        raise TypeError(f"{kernel}: a grid function gets one argument, the launch's arguments by name: write "
                        f"`lambda meta: (...)`; calling it so raised: {error}") from None


class _Arguments(dict[str, Any]):
    """A launch's arguments by name; only what is asked of them in vain is a `GridKeyError`."""

    def __init__(self, kernel: str, bound: Mapping[str, Any]) -> None:
        super().__init__(bound)
        self._kernel = kernel

    def __missing__(self, name: Any) -> Any:
        if not isinstance(name, str):
            raise KeyError(name)
        raise GridKeyError(f"{self._kernel}: the grid function asks for {name!r}, but the arguments are "
                           f"{', '.join(self)}{did_you_mean(name, self)}")


class GridKeyError(KeyError):
    """A name that a grid function asked for in vain; shown without the quotes that a KeyError has."""

    def __str__(self) -> str:
        return str(self.args[0])


def _whole(kernel: str, size: Any, grid: Any) -> int:
    """A size that is not a plain int: NumPy's and constexpr's whole numbers are taken, others are errors."""
    try:
        if isinstance(size, bool):
            raise TypeError
        return operator.index(size)
    except TypeError:
        raise TypeError(f"{kernel}: a grid's sizes are whole numbers, not {size!r} of type {type(size).__name__} in "
                        f"{grid!r}; use // or triton.cdiv for a division") from None


def _not_a_grid(kernel: str, grid: Any, from_function: bool) -> str:
    came = f"the grid function returned {grid!r}" if from_function else f"got {grid!r}"
    cure = f"write ({grid!r},)" if isinstance(grid, int) and not isinstance(grid, bool) else "write (n,)"
    return f"{kernel}: a grid is a tuple of 1 to 3 sizes or a function that returns one; {came}; {cure}"
