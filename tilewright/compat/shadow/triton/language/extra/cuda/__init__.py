"""`triton.language.extra.cuda`."""

from triton.language.extra.cuda import libdevice
