"""`triton.backends.nvidia`."""

from triton.backends.nvidia import compiler, driver
