"""`triton.language.random`."""

from tilewright.language.random import *
