"""`triton.language.math`."""

from tilewright.language.math import *
