"""`triton.runtime._allocation`."""

from tilewright.compat.refusals import refused_in
from tilewright.runtime.allocation import Allocator, Buffer, NullAllocator, set_allocator
from tilewright.runtime.allocation import allocator_variable as _allocator

__getattr__ = refused_in(__name__)
