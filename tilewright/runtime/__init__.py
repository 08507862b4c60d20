"""Launching kernels: `jit`, knobs, and what a launch needs.

The names that programs take from `triton.runtime` are here; they load no target and no LLVM.
"""

from __future__ import annotations

from tilewright.diagnostics import AutotunerError, InterpreterError, OutOfResources
from tilewright.runtime.arguments import MockTensor
from tilewright.runtime.autotune import Autotuner
from tilewright.runtime.config import Config
from tilewright.runtime.driver import driver
from tilewright.runtime.heuristics import Heuristics
from tilewright.runtime.interface import KernelInterface
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.reinterpret import TensorWrapper, reinterpret

__all__ = [
    "Autotuner", "AutotunerError", "Config", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface",
    "MockTensor", "OutOfResources", "TensorWrapper", "driver", "reinterpret",
]
