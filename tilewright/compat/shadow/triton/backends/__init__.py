"""`triton.backends`.  torch's compiler takes `backends["cpu"]` for the sign that CPU kernels can be compiled."""

from tilewright.backends import Backend, BaseBackend, backends
from triton.backends import compiler
