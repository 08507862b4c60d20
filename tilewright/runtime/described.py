"""What programs ask of a `@jit` function beside launching it: source, place, parameters; triton's names for it.

Nothing here is looked at by a launch.  Tests: tests/compat/test_members.py.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any

from tilewright.computed import computed
from tilewright.language.function import SourceFunction


class DescribedFunction(SourceFunction):
    """A source function with the attributes that triton's have for tools."""

    type = None     # triton's deprecated hint for its debugger; always None there, too
    kernel = None   # as in triton, where older versions kept the last compiled kernel

    @property
    def module(self) -> str:
        """The name of the module that defines the function."""
        return str(self.fn.__module__)

    @property
    def constexprs(self) -> list[int]:
        """The indices of the parameters annotated `tl.constexpr`."""
        return [p.index for p in self.params if p.is_constexpr]

    @property
    def do_not_specialize(self) -> list[Any]:
        """The names or indices given to `jit`."""
        return sorted(self._unspecialized, key=str)

    @property
    def do_not_specialize_on_alignment(self) -> list[Any]:
        """The names or indices given to `jit`."""
        return sorted(self._unaligned, key=str)

    @computed
    def _lines(self) -> tuple[list[str], int]:
        """The lines of the function with its decorators, and the number of the first in its file."""
        try:
            return inspect.getsourcelines(self.fn)
        except OSError:     # made by exec, with `source=`
            return self.source.splitlines(keepends=True), self.fn.__code__.co_firstlineno

    @property
    def raw_src(self) -> list[str]:
        """The lines of the source, decorators first."""
        return self._lines[0]

    @property
    def starting_line_number(self) -> int:
        """The line of the file on which `raw_src` starts."""
        return self._lines[1]

    @property
    def file_name(self) -> str:
        """The file that defines the function."""
        return self.fn.__code__.co_filename

    @property
    def def_file_line_number(self) -> int:
        """The line of `def` in the file."""
        return self.tree().lineno

    @property
    def def_file_col_number(self) -> int:
        """The column of `def` in the file, from 1."""
        return self.tree().col_offset + 1

    def parse(self) -> ast.Module:
        """The syntax tree of the source as a module of one definition."""
        return ast.parse(self.source)

    def is_gluon(self) -> bool:
        """False: this is a kernel over tiles."""
        return False

    def get_capture_scope(self) -> Mapping[str, Any]:
        """The globals and closure variables that the function sees, by name."""
        cells = dict(zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=True))
        return {**self.fn.__globals__, **{name: cell.cell_contents for name, cell in cells.items()}}
