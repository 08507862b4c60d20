"""`triton.language.extra`."""

from triton.language.extra import cuda, libdevice
