"""`triton.language.extra.cuda.utils`."""

from tilewright.compat.refusals import refused_in
from tilewright.language.special_registers import globaltimer, num_threads, num_warps, smid

__getattr__ = refused_in(__name__)
