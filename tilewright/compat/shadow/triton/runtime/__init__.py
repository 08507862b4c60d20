"""`triton.runtime`.  As in triton, its `driver` is the object; `from triton.runtime.driver import ...` works too."""

from tilewright.compat.refusals import refused_in
from tilewright.runtime import *
from triton.runtime import _allocation, _async_compile, autotuner, build, cache, driver, errors, interpreter, jit
from triton.runtime.autotuner import autotune, heuristics
from triton.runtime.driver import driver

__getattr__ = refused_in(__name__)
