"""`triton.profiler`."""

from tilewright.compat.refusals import refused_in
from tilewright.profiler import *
from triton.profiler import context

__getattr__ = refused_in(__name__)
