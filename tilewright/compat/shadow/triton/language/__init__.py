"""`triton.language`."""

from tilewright.compat.modules import show_as as _show_as
from tilewright.compat.refusals import refused_in
from tilewright.language import *
from tilewright.language import __all__ as _names

del core, extra, math, random, semantic, standard       # modules: those of this tree take their place
from triton.language import core, extra, math, random, semantic, standard, target_info

__getattr__ = refused_in(__name__)
_show_as("triton.language", globals(), _names)
