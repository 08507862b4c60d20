"""`triton.backends.compiler`."""

from tilewright.runtime.driver import GPUTarget
