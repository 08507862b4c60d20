"""`triton.tools`."""

from tilewright.tools.linear_layout import LinearLayout
from triton.tools import build_extern, compile, disasm, link, mxfp, ragged_tma, tensor_descriptor
