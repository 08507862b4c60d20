"""`triton.language.extra.cuda`."""

from tilewright.compat.refusals import refused_in
from tilewright.language.special_registers import (
    gdc_launch_dependents,
    gdc_wait,
    globaltimer,
    num_threads,
    num_warps,
    smid,
)
from triton.language.extra.cuda import gdc, libdevice, utils

__getattr__ = refused_in(__name__)
