"""`triton.backends.nvidia.driver`: what programs ask; the rest is refused, see tilewright.compat.refusals."""

from tilewright.backends import CudaDriver
from tilewright.compat.refusals import refused_in

__getattr__ = refused_in(__name__)
