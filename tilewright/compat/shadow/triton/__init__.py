"""`triton`, as Tilewright has it: the modules of this tree re-export Tilewright's own objects and add nothing.

A module of triton that is not here is not there yet.
"""

from tilewright import *
from tilewright.runtime.knobs import read as _read_knob

del knobs, language, testing        # modules: those of this tree take their place
from tilewright.compiler import compile
from tilewright.runtime.sizes import must_use_result
from triton import _C, _utils, backends, compiler, errors, knobs, language, runtime, testing, tools

__version__ = _read_knob("version")
