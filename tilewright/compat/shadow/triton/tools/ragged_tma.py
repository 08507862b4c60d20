"""`triton.tools.ragged_tma`."""

from tilewright.compat.refusals import refused_in
from tilewright.tools.ragged_tma import atomic_add_ragged, create_ragged_descriptor, load_ragged, store_ragged

__getattr__ = refused_in(__name__)
