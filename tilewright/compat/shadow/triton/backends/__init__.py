"""`triton.backends`."""

from triton.backends import compiler
