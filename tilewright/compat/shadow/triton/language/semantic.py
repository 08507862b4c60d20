"""`triton.language.semantic`."""

from tilewright.language.semantic import *
