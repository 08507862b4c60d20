"""`triton.runtime.driver`."""

from tilewright.runtime.driver import driver
