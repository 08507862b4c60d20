"""Tilewright: the Triton tile language and compiler, in pure Python.

    import tilewright as triton
    import tilewright.language as tl

The public face, named as triton's.  Importing it loads no target, no LLVM and no torch; `language`, `testing`,
`compile` and `compat` are loaded when they are first asked for.
Tests: tests/runtime/test_face.py, tests/runtime/test_import.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.diagnostics import (
    AutotunerError,
    CheckError,
    CompilationError,
    CompileTimeAssertionFailure,
    DataRaceError,
    FootprintError,
    InterpreterError,
    KernelAssertionError,
    MemoryFaultError,
    OutOfBoundsError,
    OutOfResources,
    TritonError,
    UndefinedLaneError,
    UnsupportedLanguageConstruct,
    UnwrittenReadError,
    WrappedOffsetError,
)
from tilewright.language.aggregates import aggregate
from tilewright.locks import NO_FORK
from tilewright.runtime import knobs
from tilewright.runtime.allocation import set_allocator
from tilewright.runtime.arguments import MockTensor
from tilewright.runtime.autotune import autotune
from tilewright.runtime.config import Config
from tilewright.runtime.heuristics import heuristics
from tilewright.runtime.interface import KernelInterface
from tilewright.runtime.jit import JITFunction, jit
from tilewright.runtime.reinterpret import TensorWrapper, reinterpret
from tilewright.runtime.sizes import cdiv, constexpr_function, next_power_of_2
from tilewright.version import VERSION as __version__

if TYPE_CHECKING:
    from tilewright import language, testing
    from tilewright.compiler import compile
    from tilewright.runtime.async_compile import AsyncCompileMode, FutureKernel


def _launch_in_graph(kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """A launch in a function that torch compiles; so torch is there, and what builds on it is loaded now."""
    from tilewright.torch.launch import launch
    launch(kernel, grid, args, kwargs)


KernelInterface.launch_in_graph = staticmethod(_launch_in_graph)

_LAZY = ("language", "testing", "compat", "runtime", "interpret", "targets", "frontend", "torch", "compiler",
         "backends", "tools")
# names of the face whose modules few programs need
_NAMED_LATE = {"compile": "compiler", "AsyncCompileMode": "runtime.async_compile",
               "FutureKernel": "runtime.async_compile"}

__all__ = [
    "AsyncCompileMode", "AutotunerError", "CheckError", "CompilationError", "CompileTimeAssertionFailure", "Config",
    "DataRaceError", "FootprintError", "FutureKernel", "InterpreterError", "JITFunction", "KernelAssertionError",
    "KernelInterface", "MemoryFaultError", "MockTensor", "OutOfBoundsError", "OutOfResources", "TensorWrapper",
    "TritonError",
    "UndefinedLaneError", "UnsupportedLanguageConstruct", "UnwrittenReadError", "WrappedOffsetError", "__version__",
    "aggregate", "autotune", "cdiv", "compile", "constexpr_function", "heuristics", "jit", "knobs", "language",
    "next_power_of_2", "reinterpret", "set_allocator", "testing",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        with NO_FORK:
            return importlib.import_module(f"tilewright.{name}")
    if name in _NAMED_LATE:
        with NO_FORK:
            return getattr(importlib.import_module(f"tilewright.{_NAMED_LATE[name]}"), name)
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
