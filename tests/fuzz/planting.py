"""A fault planted in the compiler: a piece of text in a function that becomes another one, or an entry of a table.

The function's code object is exchanged, so whoever holds the function has the fault.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """In `module`, the text `old` of function `name` becomes `new`; or entry `old` of table `name` becomes `new`."""

    label: str
    module: str
    name: str
    old: Any
    new: Any
    table: bool = False

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The compiler with this fault, inside a `with` block."""
        owner = importlib.import_module(self.module)
        if self.table:
            table = getattr(owner, self.name)
            before = table[self.old]
            table[self.old] = self.new(table) if callable(self.new) else self.new
            try:
                yield
            finally:
                table[self.old] = before
            return
        function = self.function()
        before = function.__code__
        function.__code__ = self.changed(function).__code__
        try:
            yield
        finally:
            function.__code__ = before

    def function(self) -> Any:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = inspect.getattr_static(found, part)
        return getattr(found, "__func__", found)

    def changed(self, function: Any) -> Any:
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.label}: {self.old!r} is {source.count(self.old)} times in {self.name}")
        space: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        exec(compile(source.replace(self.old, self.new), function.__code__.co_filename, "exec", flags),
             function.__globals__, space)
        made = space[function.__name__]
        made = getattr(made, "__func__", made)
        assert made.__code__.co_freevars == function.__code__.co_freevars, self.label
        return made

    def of_layer(self, table: Mapping[str, Sequence[str]]) -> Sequence[str]:
        return next(value for prefix, value in table.items() if self.module.startswith(prefix))


def code(label: str, module: str, name: str, old: str, new: str) -> Mutant:
    """A fault in a function."""
    return Mutant(label, module, name, old, new)


def entry(label: str, module: str, table: str, key: Any, value: Any) -> Mutant:
    """A fault in a table; `value` may be a function of the table."""
    return Mutant(label, module, table, key, value, table=True)
