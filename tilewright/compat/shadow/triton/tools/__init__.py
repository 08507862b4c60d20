"""`triton.tools`."""

from tilewright.compat.refusals import refused_in
from triton.tools import build_extern, compile, disasm, link, mxfp, ragged_tma, tensor_descriptor

__getattr__ = refused_in(__name__)
