"""Blocks of ragged tensors: slices of different sizes that stand one after the other along a dimension of one tensor.

    desc = create_ragged_descriptor(rows, [16, 64])                  # on the host; rows is [all rows, columns]
    block = load_ragged(desc, first, count, [row, column])           # in a kernel: of rows[first : first + count]

What lies outside of the slice, or outside of the tensor in the other dimensions, is read as zero and not written.
triton has GPUs' hardware do that, by descriptors of two more dimensions whose addresses wrap around; here a descriptor
is the tensor's own, and blocks have masks.  Blocks may have any sizes, and tensors up to five dimensions.
Tests: tests/compat/test_ragged.py.
"""

# Kernels are typed by their arguments:
# mypy: disable-error-code="no-untyped-def, assignment, operator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tilewright.language as tl
from tilewright.diagnostics import shows_users_frames
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.jit import jit
from tilewright.runtime.sizes import constexpr_function


@shows_users_frames
def create_ragged_descriptor(T: Any, block_shape: Sequence[int],  # noqa: N803 (as in triton)
                             ragged_dim: int = 0) -> TensorDescriptor:
    """The descriptor of tensor `T`, whose slices are along `ragged_dim`, for blocks of `block_shape` elements.

    ValueError if `ragged_dim` is the last dimension, which is that of neighbours in memory, or none, and for what no
    descriptor takes (`TensorDescriptor`).
    """
    rank = len(T.shape)
    if not -rank <= ragged_dim < rank or ragged_dim % rank == rank - 1:
        raise ValueError(f"ragged_dim is a dimension of the tensor, and not the last of {rank}, but is {ragged_dim}")
    return TensorDescriptor.from_tensor(T, block_shape)


@constexpr_function
def _along(rank: int, dim: int, size: int) -> tuple[int, ...]:
    """The shape of `size` elements along `dim`."""
    return tuple(size if d == dim else 1 for d in range(rank))


@jit
def _block(desc, slice_off, slice_size, coords, ragged_dim: tl.constexpr):
    """The pointers of a block, and which of them are in the slice and in the tensor."""
    rank: tl.constexpr = len(desc.block_shape)
    tl.static_assert(len(coords) == rank, "coords has a number for each dimension of the tensor")
    tl.static_assert(-rank <= ragged_dim and ragged_dim < rank, "ragged_dim is a dimension of the tensor")
    offsets = tl.zeros(desc.block_shape, tl.int64)
    inside = tl.full(desc.block_shape, True, tl.int1)
    for dim in tl.static_range(rank):
        index = tl.reshape(coords[dim] + tl.arange(0, desc.block_shape[dim]), _along(rank, dim, desc.block_shape[dim]))
        is_ragged: tl.constexpr = dim == ragged_dim or dim == ragged_dim + rank
        size = slice_size if is_ragged else desc.shape[dim]
        inside = inside & (index >= 0) & (index < size)
        first = slice_off if is_ragged else 0
        offsets += (index.to(tl.int64) + first) * desc.strides[dim]
    return desc.base + offsets, inside


@jit
def load_ragged(TMA, slice_off, slice_size, coords, ragged_dim: tl.constexpr = 0):  # noqa: N803
    """The block at `coords` of the slice that begins at `slice_off` and has `slice_size` places along `ragged_dim`.

    `coords` has a number for each dimension; that of `ragged_dim` counts from the beginning of the slice.
    """
    pointers, inside = _block(TMA, slice_off, slice_size, coords, ragged_dim)
    return tl.load(pointers, mask=inside, other=0)


@jit
def store_ragged(TMA, slice_off, slice_size, coords, data, ragged_dim: tl.constexpr = 0):  # noqa: N803
    """Write the block `data` at `coords` of a slice, see `load_ragged`; what lies outside is left out."""
    pointers, inside = _block(TMA, slice_off, slice_size, coords, ragged_dim)
    tl.store(pointers, data, mask=inside)


@jit
def atomic_add_ragged(TMA, slice_off, slice_size, coords, data, ragged_dim: tl.constexpr = 0):  # noqa: N803
    """Add the block `data` atomically at `coords` of a slice, see `load_ragged`; what lies outside is left out."""
    pointers, inside = _block(TMA, slice_off, slice_size, coords, ragged_dim)
    tl.atomic_add(pointers, data, mask=inside)
