"""`triton`, as Tilewright has it: the modules of this tree re-export Tilewright's own objects and add nothing.

A module of triton that is not here is not there yet.
"""

from tilewright import *
from tilewright.runtime import knobs
from triton import backends, compiler, errors, language, runtime, testing

__version__ = knobs.read("version")
del knobs       # Tilewright's table has another shape than triton's
