"""`triton.language`."""

from tilewright.compat.modules import show_as as _show_as
from tilewright.language import *
from tilewright.language import __all__ as _names
from tilewright.language import __dir__, __getattr__

del core, extra, math, random, semantic, standard       # modules: those of this tree take their place
from triton.language import core, extra, math, random, standard

_show_as("triton.language", globals(), _names)
