"""`triton.language.extra.cuda`."""

from tilewright.compat.refusals import refused_in
from triton.language.extra.cuda import gdc, libdevice, utils

__getattr__ = refused_in(__name__)
