"""`triton.language.extra.libdevice`."""

from tilewright.language.extra.libdevice import __dir__, __getattr__
