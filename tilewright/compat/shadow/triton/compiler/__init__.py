"""`triton.compiler`."""

from tilewright.compat.refusals import refused_in
from tilewright.runtime.hooks import LazyDict
from triton.compiler import compiler, errors
from triton.compiler.compiler import *
from triton.compiler.errors import *

__getattr__ = refused_in(__name__)
