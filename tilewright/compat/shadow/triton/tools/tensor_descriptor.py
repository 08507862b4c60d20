"""`triton.tools.tensor_descriptor`."""

from tilewright.tools.tensor_descriptor import TensorDescriptor
