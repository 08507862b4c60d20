"""`triton.backends.compiler`."""

from tilewright.backends.compiler import BaseBackend, GPUTarget
from tilewright.compat.refusals import refused_in

__getattr__ = refused_in(__name__)
