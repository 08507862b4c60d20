"""`triton.errors`."""

from tilewright.diagnostics import TritonError
