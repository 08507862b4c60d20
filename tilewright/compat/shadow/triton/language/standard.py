"""`triton.language.standard`."""

from tilewright.language.standard import *
from tilewright.language.standard import _log2
