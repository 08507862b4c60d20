"""`triton.compiler.compiler`."""

from tilewright.compiler import ASTSource, CompiledKernel, GPUTarget, compile, make_backend
from tilewright.runtime.fingerprint import triton_key
