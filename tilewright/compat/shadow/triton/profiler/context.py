"""`triton.profiler.context`."""

from tilewright.profiler.sessions import depth
