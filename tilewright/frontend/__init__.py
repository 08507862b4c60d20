"""The frontend: from Python syntax to tile IR, by asking the language what it means.

`compile_function` is the way in; `dependencies` says what the result depends on.  The way in is loaded when it is first
asked for: a kernel that is found in the disk cache needs its dependencies only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilewright.frontend.dependencies import Dependencies, Read, dependencies
from tilewright.locks import NO_FORK

if TYPE_CHECKING:
    from tilewright.frontend.compile import compile_function

__all__ = ["Dependencies", "Read", "compile_function", "dependencies"]


def __getattr__(name: str) -> Any:
    if name == "compile_function":
        with NO_FORK:
            return importlib.import_module("tilewright.frontend.compile").compile_function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
