"""`triton.runtime.jit`."""

from tilewright.runtime.arguments import MockTensor
from tilewright.runtime.interface import KernelInterface
from tilewright.runtime.jit import JITFunction, jit
from tilewright.runtime.reinterpret import TensorWrapper, reinterpret
from tilewright.runtime.sizes import constexpr_function
