"""`triton.language.extra.cuda.gdc`."""

from tilewright.language.special_registers import gdc_launch_dependents, gdc_wait
