"""`triton.runtime`.  As in triton, `triton.runtime.driver` is the object, and a module of that name can be imported from."""

from tilewright.runtime import *
from triton.runtime import driver, errors, jit
from triton.runtime.driver import driver
