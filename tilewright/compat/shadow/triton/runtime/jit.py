"""`triton.runtime.jit`."""

from tilewright.runtime.jit import *
