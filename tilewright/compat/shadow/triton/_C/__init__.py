"""`triton._C`: what is native code in triton."""

from triton._C import libtriton
