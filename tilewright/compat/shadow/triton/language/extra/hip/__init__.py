"""`triton.language.extra.hip`: refused, see tilewright.compat.refusals."""

from tilewright.compat.refusals import refused_in
from triton.language.extra.hip import libdevice, utils

__getattr__ = refused_in(__name__)
