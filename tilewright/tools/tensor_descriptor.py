"""`TensorDescriptor` under triton's module name."""

from tilewright.runtime.descriptor import TensorDescriptor

__all__ = ["TensorDescriptor"]
