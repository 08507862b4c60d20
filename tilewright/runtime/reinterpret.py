"""`reinterpret`: a tensor's memory with another element type of the same size.

Tests: tests/runtime/test_face.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.language.types import dtype
from tilewright.runtime.arguments import element_of_dtype


class TensorWrapper:
    """A tensor seen with another dtype; passed to a kernel in the tensor's place."""

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base = base
        self.dtype = dtype

    @property
    def shape(self) -> Any:
        return self.base.shape

    @property
    def device(self) -> Any:
        return getattr(self.base, "device", "cpu")

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.base.ctypes.data if isinstance(self.base, np.ndarray) else self.base.data_ptr())

    def stride(self) -> tuple[int, ...]:
        """Strides in elements."""
        if isinstance(self.base, np.ndarray):
            return tuple(s // self.base.itemsize for s in self.base.strides)
        return tuple(self.base.stride())

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base!r})"


def reinterpret(tensor: Any, dtype: dtype) -> Any:
    """`tensor` (an array or torch tensor) as if its elements were of `dtype`, a type of the same size.

    Of a wrapped tensor the wrapping is replaced; with the tensor's own dtype the tensor itself comes back.
    """
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not hasattr(base, "dtype"):
        raise TypeError(f"reinterpret takes a NumPy array or a torch tensor, not {type(tensor).__name__}")
    (own, size), (wanted, wanted_size) = element_of_dtype(base.dtype), element_of_dtype(dtype)
    if own == wanted:
        return base
    if size != wanted_size:
        raise TypeError(f"reinterpret keeps the size of elements: {own} has {size} bytes, {wanted} has {wanted_size}")
    return TensorWrapper(base, dtype)
