"""`triton.runtime.cache`."""

from tilewright.compat.refusals import refused_in
from tilewright.runtime.fingerprint import base32 as _base32
from tilewright.runtime.fingerprint import triton_key

__getattr__ = refused_in(__name__)
