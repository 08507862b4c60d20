"""`triton.runtime.cache`."""

from tilewright.runtime.fingerprint import triton_key
