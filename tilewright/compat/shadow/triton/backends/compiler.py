"""`triton.backends.compiler`."""

from tilewright.backends.compiler import BaseBackend, GPUTarget
