"""`triton.compiler.compiler`."""

from tilewright.runtime.driver import GPUTarget
from tilewright.runtime.launch import CompiledKernel
