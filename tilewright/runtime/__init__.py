"""Launching kernels: `jit`, knobs, and what a launch needs.

The names that programs take from `triton.runtime` are here; they load no target and no LLVM.
"""

from __future__ import annotations

from tilewright.diagnostics import AutotunerError, InterpreterError, OutOfResources
from tilewright.runtime.arguments import MockTensor
from tilewright.runtime.driver import driver
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.reinterpret import TensorWrapper, reinterpret

__all__ = ["AutotunerError", "InterpreterError", "JITFunction", "MockTensor", "OutOfResources", "TensorWrapper",
           "driver", "reinterpret"]
