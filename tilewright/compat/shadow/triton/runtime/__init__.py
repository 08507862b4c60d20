"""`triton.runtime`.  As in triton, its `driver` is the object; `from triton.runtime.driver import ...` works too."""

from tilewright.runtime import *
from triton.runtime import autotuner, cache, driver, errors, jit
from triton.runtime.autotuner import autotune, heuristics
from triton.runtime.driver import driver
