"""`triton.language.standard`."""

from tilewright.compat.refusals import refused_in
from tilewright.language.standard import *
from tilewright.language.standard import _log2

__getattr__ = refused_in(__name__)
