"""`triton._C.libtriton`: what programs use of it: two names that torch's compiler calls, and cuBLAS."""

from types import SimpleNamespace

from tilewright.compat.cublas import CublasLt

# torch's compiler calls these before it asks for a kernel's IR.
ir = SimpleNamespace(context=object, load_dialects=lambda context: None)
nvidia = SimpleNamespace(cublas=SimpleNamespace(CublasLt=CublasLt))
