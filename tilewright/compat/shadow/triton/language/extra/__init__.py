"""`triton.language.extra`."""

from tilewright.language.extra import *
