"""`TensorDescriptor`: a tensor and the shape of the blocks that a kernel reads and writes in it, made on the host.

In the kernel it is a `language.descriptors.tensor_descriptor`: its base is a pointer argument, its sizes and strides
are integers with the specialisation of any other, block shape and padding are compiled in.
Tests: tests/runtime/test_descriptor.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.diagnostics import shows_users_frames, shows_users_frames_when_made
from tilewright.language.constexpr import constexpr
from tilewright.language.descriptors import tensor_descriptor

_MOST_DIMENSIONS = 5


@shows_users_frames_when_made
@dataclass
class TensorDescriptor:
    """`base` is a tensor; `shape` and `strides` count elements; `padding` is "zero" or "nan"."""

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not 1 <= rank <= _MOST_DIMENSIONS:
            raise ValueError(f"a tensor descriptor has 1 to {_MOST_DIMENSIONS} dimensions, not {rank}")
        for name in ("strides", "block_shape"):
            if len(getattr(self, name)) != rank:
                raise ValueError(f"{name} must have {rank} elements, as many as shape, not {len(getattr(self, name))}")
        if any(int(size) < 1 for size in (*self.shape, *self.block_shape)):
            raise ValueError(f"sizes must be positive, but shape is {tuple(self.shape)} and block_shape "
                             f"{tuple(self.block_shape)}")
        if self.strides[-1] != 1:
            raise ValueError(f"the last dimension must be contiguous (stride 1), but the strides are "
                             f"{tuple(self.strides)}; pass tensor.contiguous()")
        if self.padding not in ("zero", "nan"):
            raise ValueError(f"padding is 'zero' or 'nan', not {self.padding!r}")

    @staticmethod
    @shows_users_frames
    def from_tensor(tensor: Any, block_shape: Sequence[int], padding: str = "zero",
                    round_f32_to_tf32: bool = False) -> TensorDescriptor:
        """The descriptor of a whole torch tensor or NumPy array."""
        in_bytes = isinstance(tensor, np.ndarray)
        strides = [s // tensor.itemsize for s in tensor.strides] if in_bytes else tensor.stride()
        return TensorDescriptor(tensor, list(tensor.shape), list(strides), list(block_shape), padding,
                                round_f32_to_tf32)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What `tensor_descriptor` is made of, as arguments."""
        block = tuple(constexpr(int(size)) for size in self.block_shape)
        return (self.base, tuple(map(int, self.shape)), tuple(map(int, self.strides)), block, constexpr(self.padding))


def kept_as_now(value: Any) -> Any:
    """An argument that stays as it is now when the program goes on and gives a descriptor other blocks."""
    if isinstance(value, TensorDescriptor):
        made = copy(value)
        made.shape, made.strides, made.block_shape = tuple(value.shape), tuple(value.strides), tuple(value.block_shape)
        return made
    if isinstance(value, tuple) and any(isinstance(item, TensorDescriptor | tuple) for item in value):
        items = [kept_as_now(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def parts_of(value: Any) -> tuple[Any, ...]:
    """The elements of a tuple argument."""
    return value.parts if isinstance(value, TensorDescriptor) else value


def class_of(value: Any) -> type:
    """What a tuple argument becomes in the kernel."""
    return tensor_descriptor if isinstance(value, TensorDescriptor) else type(value)
