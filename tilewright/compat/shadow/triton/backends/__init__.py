"""`triton.backends`.  torch's compiler takes `backends["cpu"]` for the sign that CPU kernels can be compiled."""

from tilewright.backends import Backend, BaseBackend, backends
from tilewright.compat.refusals import refused_in
from triton.backends import compiler, driver, nvidia

__getattr__ = refused_in(__name__)
