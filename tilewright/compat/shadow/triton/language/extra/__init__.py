"""`triton.language.extra`."""

from tilewright.compat.refusals import refused_in
from triton.language.extra import cuda, hip, libdevice

__getattr__ = refused_in(__name__)
