"""`tl.extra.cuda`: where triton keeps libdevice as well."""

from tilewright.language.extra import libdevice

__all__ = ["libdevice"]
