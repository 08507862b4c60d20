"""`triton.tools`."""

from triton.tools import tensor_descriptor
