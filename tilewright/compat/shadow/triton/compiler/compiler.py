"""`triton.compiler.compiler`."""

from tilewright.backends import backends
from tilewright.compat.refusals import refused_in
from tilewright.compiler import ASTSource, CompiledKernel, GPUTarget, compile, make_backend
from tilewright.runtime.fingerprint import triton_key
from tilewright.runtime.hooks import LazyDict

__getattr__ = refused_in(__name__)
