"""`triton.language.extra.cuda.libdevice`."""

from tilewright.language.extra.libdevice import __dir__, __getattr__
