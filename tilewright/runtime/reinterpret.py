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

    @property
    def data(self) -> Any:
        """The wrapped tensor's data, in its own dtype."""
        return self.base.data

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self.base.itemsize)

    def cpu(self) -> TensorWrapper:
        """The same in the CPU's memory."""
        return TensorWrapper(self.base if isinstance(self.base, np.ndarray) else self.base.cpu(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """The same on a torch device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def clone(self) -> TensorWrapper:
        """A copy."""
        return TensorWrapper(self.base.copy() if isinstance(self.base, np.ndarray) else self.base.clone(), self.dtype)

    def copy_(self, other: TensorWrapper) -> TensorWrapper:
        """Take the elements of `other`, a wrapper of the same size, bit for bit."""
        if isinstance(self.base, np.ndarray):
            self.base[...] = other.base
        else:
            self.base.copy_(other.base)
        return self

    def new_empty(self, sizes: Any) -> TensorWrapper:
        """An uninitialised tensor of the same kind."""
        made = (np.empty(sizes, self.base.dtype) if isinstance(self.base, np.ndarray) else self.base.new_empty(sizes))
        return TensorWrapper(made, self.dtype)

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
