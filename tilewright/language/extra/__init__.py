"""`tl.extra`: functions beyond the language's own: `libdevice`, also under `cuda`.

Tests: tests/lang/test_libdevice.py.
"""

from tilewright.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
