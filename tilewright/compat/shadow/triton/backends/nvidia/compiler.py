"""`triton.backends.nvidia.compiler`: the code generator's face; the rest is refused, see tilewright.compat.refusals."""

from tilewright.backends import CudaBackend as CUDABackend
from tilewright.backends import CudaOptions as CUDAOptions
from tilewright.backends.compiler import min_dot_size
from tilewright.compat.refusals import refused_in

__getattr__ = refused_in(__name__)
