"""The frontend: from Python syntax to tile IR, by asking the language what it means.

`compile_function` is the way in; `dependencies` says what the result depends on.
"""

from tilewright.frontend.compile import compile_function
from tilewright.frontend.dependencies import Dependencies, Read, dependencies

__all__ = ["Dependencies", "Read", "compile_function", "dependencies"]
