"""`triton.backends.nvidia`: its modules are refused, see tilewright.compat.refusals."""

from triton.backends.nvidia import compiler, driver
