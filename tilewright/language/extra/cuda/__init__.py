"""`tl.extra.cuda`: what NVIDIA GPUs have beyond the language, and where triton keeps libdevice as well.

Tests: tests/lang/test_special_registers.py.
"""

from tilewright.language.extra import libdevice
from tilewright.language.special_registers import (
    gdc_launch_dependents,
    gdc_wait,
    globaltimer,
    num_threads,
    num_warps,
    smid,
)

__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice", "num_threads", "num_warps", "smid"]
