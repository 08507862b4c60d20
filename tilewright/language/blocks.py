"""Blocks of a strided array in memory: their pointers, and which lie inside; what block pointers and tensor descriptors
share.

Everything is computed in 64 bits: a scalar address of the block's first element, plus a tile of offsets that does not
depend on where the block is; the mask compares places in the block with how far the array reaches from there.
Tests: tests/lang/test_blocks.py, tests/lang/test_values_blocks.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.language import elementwise, shape_ops
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.casting import cast
from tilewright.language.constexpr import constexpr, unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.tensor import tensor
from tilewright.language.types import block_type, dtype, int32, int64, pointer_type
from tilewright.language.values import describe, emit, known, known_ints, shape, to_tensor


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a block: `size` places from `start` on, or the places in the tile `chosen`; `limit`: the
    array's size where the block is checked against it, else None."""

    start: Any
    size: int
    stride: Any
    limit: Any = None
    chosen: tensor | None = None


def wide(builder: Builder, value: Any, what: str) -> tensor:
    """An integer scalar as int64."""
    x = to_tensor(builder, value)
    if shape(x) or not isinstance(x.dtype, dtype) or not x.dtype.is_int():
        raise LanguageTypeError(f"{what} must be an integer scalar, not {describe(value)}")
    return cast(builder, x, int64)


def items(values: Any, what: str) -> list[Any]:
    """The elements of a tuple argument."""
    plain = unwrap(values)
    if not isinstance(plain, tuple | list):
        raise LanguageTypeError(f"{what} must be a tuple, not {describe(values)}")
    return list(plain)


def part(value: Any) -> Any:
    """A size or stride as it is kept: what is known stays known."""
    plain = unwrap(value)
    return plain if isinstance(plain, tensor) else constexpr(plain)


def known_block_shape(values: Any, rank: int, what: str) -> list[int]:
    """The sizes of a block, known at compile time."""
    sizes = list(known_ints(known(values, what), what))
    if len(sizes) != rank or any(s < 1 for s in sizes):
        raise LanguageValueError(f"{what} must be {rank} sizes of 1 or more, as many as shape has, but it is {sizes}")
    return sizes


def scalar_base(base: Any, what: str) -> tensor:
    """The pointer to an array's first element."""
    x = unwrap(base)
    if not isinstance(x, tensor) or not isinstance(x.dtype, pointer_type) or shape(x):
        raise LanguageTypeError(f"base of {what} must be a scalar pointer, not {describe(base)}")
    return x


def block_access(builder: Builder, base: tensor, dimensions: Sequence[Dimension]) -> tuple[tensor, tensor | None]:
    """The pointers of a block, and the mask of those inside (None where nothing is checked)."""
    offset: tensor | None = None
    masks: list[tensor] = []
    first = base
    for d, dimension in enumerate(dimensions):
        spread = tuple(dimension.size if k == d else 1 for k in range(len(dimensions)))
        stride = wide(builder, dimension.stride, "a stride")
        first = first + wide(builder, dimension.start, "an offset") * stride
        places = dimension.chosen if dimension.chosen is not None else _places(builder, dimension.size)
        steps = shape_ops.make_reshape(builder, cast(builder, places, int64), spread) * stride
        offset = steps if offset is None else offset + steps
        if dimension.limit is not None:
            masks.append(shape_ops.make_reshape(builder, _inside(builder, dimension, places), spread))
    assert offset is not None
    if not masks:
        return first + offset, None
    mask = masks[0]
    for other in masks[1:]:
        mask = mask & other
    pointers, mask = broadcast_all(builder, [first + offset, mask])
    return pointers, mask


def _places(builder: Builder, size: int) -> tensor:
    return emit(builder, "iota", (), block_type(int32, (size,)), {"start": 0, "end": size})


def _inside(builder: Builder, dimension: Dimension, places: tensor) -> tensor:
    """Which places of a dimension lie in the array."""
    limit = wide(builder, dimension.limit, "a size")
    if dimension.chosen is not None:
        rows = cast(builder, places, int64)
        return (rows >= 0) & (rows < limit)  # type: ignore[no-any-return]
    start = wide(builder, dimension.start, "an offset")
    low, high = (_within(builder, x, dimension.size) for x in (0 - start, limit - start))
    return (places >= low) & (places < high)  # type: ignore[no-any-return]


def _within(builder: Builder, place: tensor, size: int) -> tensor:
    """A place limited to 0 .. size, as int32: what lies before the block or behind it differs no more."""
    low = elementwise.maximum_of(builder, "max", place, 0)
    return cast(builder, elementwise.maximum_of(builder, "min", low, size), int32)
