"""`triton.language`."""

from tilewright.language import *
from tilewright.language import __dir__, __getattr__

del core, extra, math, random, semantic, standard       # modules: those of this tree take their place
from triton.language import core, extra, math, random, standard
