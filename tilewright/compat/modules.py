"""Where the names of the language say that they are from, under the alias.

torch's compiler writes a kernel into a module of its own, and there imports the names that the kernel has from modules
called `triton...`; it goes by `__module__`.  Before: `tilewright.language...`; after: the module that re-exports them.
Tests: tests/compat/test_torch_compile.py.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from tilewright.language.builtin import Builtin


def show_as(module: str, namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Let builtins, classes and functions among `names` of `namespace` say that they are of `module`."""
    for name in names:
        value = namespace.get(name)
        if isinstance(value, Builtin | type | types.FunctionType) and value.__module__.startswith("tilewright."):
            value.__module__ = module
