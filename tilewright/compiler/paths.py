"""What torch's compiler calls to find the facts of arguments that it gives to `ASTSource`, in triton's shapes.

Tests: tests/compat/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.runtime.specialize import specialized

Path = tuple[int, ...]


def find_paths_if(values: Any, holds: Callable[[Path, Any], bool]) -> list[Path]:
    """The paths (indices, outermost first) of the leaves of nested sequences for which `holds(path, leaf)`."""
    found: list[Path] = []

    def look(path: Path, value: Any) -> None:
        if isinstance(value, list | tuple):
            for index, item in enumerate(value):
                look((*path, index), item)
        elif holds(path, value):
            found.append(path)

    look((), values)
    return found


def get_iterable_path(values: Any, path: Path) -> Any:
    """What is at `path`."""
    for index in path:
        values = values[index]
    return values


def native_specialize_impl(backend: object, arg: Any, is_const: bool, specialize_value: bool,
                           align: bool) -> tuple[str, Any]:
    """Type and mark of an argument, see `specialized`; the rules are the same for every backend."""
    return specialized(arg, is_const, specialize_value, align)
