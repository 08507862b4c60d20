"""Names that order, count and pick elements: flip, gather, histogram, sort, topk, bitonic_merge (semantics §7).

Safer rules (docs/design.md): a sort is a permutation of its input for every input, NaNs count as the greatest (last in
ascending order, first in descending, as torch has it) and -0 stands before +0; any size and any dimension can be
sorted; types are kept.  Tests: tests/lang/test_ordering.py, tests/lang/test_values_ordering.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import comparison, shape_ops
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, tensor_member
from tilewright.language.casting import bitcast, cast
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, argument
from tilewright.language.memory_ops import mask_operand
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, get_int_dtype, int8, int32, int64, make_type
from tilewright.language.values import (
    emit,
    full_of,
    known_axis,
    known_bool,
    known_int,
    need_tile,
    refuse_pointer,
    shape,
    to_tensor,
    with_dtype,
)


def _tile(builder: Builder, x: Any, dim: Any, what: str) -> tuple[tensor, int]:
    """A tile and one of its dimensions, the last if `dim` is None."""
    value = to_tensor(builder, x)
    need_tile(value, what)
    rank = len(shape(value))
    return value, rank - 1 if unwrap(dim) is None else known_axis(dim, rank, f"dim of {what}")


@builtin
def flip(x: Any, dim: Any = None, *, _builder: Builder) -> tensor:
    """The elements of `x` in reverse along `dim`, the last dimension if it is not given."""
    value, axis = _tile(_builder, x, dim, "tl.flip")
    size = shape(value)[axis]
    return shape_ops.make_slice(_builder, value, axis, size - 1, -1, size)


@builtin
def gather(src: Any, index: Any, axis: Any, *, _builder: Builder) -> tensor:
    """The elements of `src` at the places of `index` along `axis`: a tile of the shape of `index`.

    `index` holds integers of any type; both tiles have as many dimensions, and equal sizes but for `axis`.  An index
    out of range gives zero.
    """
    source, places = to_tensor(_builder, src), to_tensor(_builder, index)
    need_tile(source, "tl.gather")
    refuse_pointer(places, "index of tl.gather", argument("gather", 1, "index"))
    if not isinstance(places.dtype, dtype) or not places.dtype.is_int() or places.dtype.is_int1():
        raise LanguageTypeError(f"index of tl.gather must hold integers, but it is {places}")
    have, want = shape(source), shape(places)
    if len(have) != len(want):
        raise LanguageValueError(f"source and index tensors must have the same rank, but they are {source} and "
                                 f"{places}")
    at = known_axis(axis, len(have), "axis of tl.gather")
    for d, (a, b) in enumerate(zip(have, want, strict=True)):
        if d != at and a != b:
            raise LanguageValueError(f"index dim {d} must match the corresponding source dim: they are {b} and {a} "
                                     f"(axis {at} alone may differ)")
    if places.dtype not in (int32, int64):
        places = cast(_builder, places, int32 if places.dtype.int_bitwidth < 32 else int64)
    return emit(_builder, "gather", (source, places), with_dtype(places, source.dtype), {"axis": at})


@builtin
def histogram(input: Any, num_bins: Any, mask: Any = None, *, _builder: Builder) -> tensor:
    """How often each of 0, 1, ..., num_bins - 1 occurs in `input` where `mask` (int1) is true: int32 [num_bins].

    `input` holds integers, in any shape; `num_bins` is a compile-time int of 1 or more.  Other numbers are not counted.
    """
    x = to_tensor(_builder, input)
    need_tile(x, "tl.histogram")
    refuse_pointer(x, "tl.histogram", argument("histogram", 0, "input"))
    if not isinstance(x.dtype, dtype) or not x.dtype.is_int():
        raise LanguageTypeError(f"tl.histogram only supports integer input, but it is {x}")
    bins = known_int(num_bins, "num_bins of tl.histogram")
    if bins < 1:
        raise LanguageValueError(f"num_bins of tl.histogram must be 1 or more, not {bins}")
    if x.dtype not in (int32, int64):
        x = cast(_builder, x, int32 if x.dtype.int_bitwidth < 32 else int64)
    operands = [x]
    if unwrap(mask) is not None:
        operands = broadcast_all(_builder, [x, mask_operand(_builder, mask)], ["input", "mask"])
    return emit(_builder, "histogram", operands, make_type((bins,), int32),
                {"bins": bins, "has_mask": len(operands) == 2})


# -- sorting -----------------------------------------------------------------------------------------------------------


def _mirrored(builder: Builder, bits: tensor) -> tensor:
    """Bits of floats as integers in the floats' order, and back: the order of the negative ones is turned round."""
    assert isinstance(bits.dtype, dtype)
    size = full_of(builder, (1 << (bits.dtype.int_bitwidth - 1)) - 1, bits.dtype, shape(bits))
    turned = emit(builder, "xor", (bits, size), bits.type)
    return comparison.where(builder, comparison.compare(builder, "Lt", bits, 0), turned, bits)


def _to_key(builder: Builder, x: tensor) -> tensor:
    """Signed integers in the order of the elements of `x`."""
    element = x.dtype
    assert isinstance(element, dtype)
    if element.is_int1():
        return cast(builder, x, int8)
    signed = get_int_dtype(element.primitive_bitwidth, signed=True)
    bits = bitcast(builder, x, signed)
    if element.is_floating():
        size = full_of(builder, (1 << (element.primitive_bitwidth - 1)) - 1, signed, shape(x))
        positive = emit(builder, "and", (bits, size), bits.type)
        bits = comparison.where(builder, comparison.compare(builder, "NotEq", x, x), positive, bits)
        return _mirrored(builder, bits)
    return bits if element.is_int_signed() else _top_bit_flipped(builder, bits)


def _from_key(builder: Builder, key: tensor, element: dtype) -> tensor:
    if element.is_int1():
        return cast(builder, key, element)
    if element.is_floating():
        key = _mirrored(builder, key)
    elif not element.is_int_signed():
        key = _top_bit_flipped(builder, key)
    return bitcast(builder, key, element)


def _top_bit_flipped(builder: Builder, bits: tensor) -> tensor:
    assert isinstance(bits.dtype, dtype)
    top = full_of(builder, 1 << (bits.dtype.int_bitwidth - 1), bits.dtype, shape(bits))
    return emit(builder, "xor", (bits, top), bits.type)


def _sorted(builder: Builder, x: tensor, axis: int, descending: bool, count: int) -> tensor:
    """The first `count` elements of `x`, sorted along `axis`."""
    rank = len(shape(x))
    order = (*(d for d in range(rank) if d != axis), axis)
    key = _to_key(builder, shape_ops.make_permute(builder, x, order))
    key = emit(builder, "sort", (~key if descending else key,), key.type)
    if count < shape(x)[axis]:
        key = shape_ops.make_slice(builder, key, rank - 1, 0, 1, count)
    assert isinstance(x.dtype, dtype)
    result = _from_key(builder, ~key if descending else key, x.dtype)
    back = tuple(order.index(d) for d in range(rank))
    return shape_ops.make_permute(builder, result, back)


@builtin
def sort(x: Any, dim: Any = None, descending: Any = False, *, _builder: Builder) -> tensor:
    """The elements of `x` in order along `dim`, the last if it is not given; type and shape are kept.

    NaNs count as the greatest: they are last, or first with `descending`; -0 is less than +0.  Any size can be sorted.
    """
    refuse_pointer(x, "tl.sort", argument("sort", 0, "x"))
    value, axis = _tile(_builder, x, dim, "tl.sort")
    return _sorted(_builder, value, axis, known_bool(descending, "descending"), shape(value)[axis])


@builtin
def topk(x: Any, k: Any, dim: Any = None, descending: Any = True, *, _builder: Builder) -> tensor:
    """The `k` greatest elements along `dim` (the last), the greatest first; the least, ascending, if not `descending`.

    `k` is a compile-time int from 1 to the size; the type is kept.  NaNs count as the greatest.
    """
    refuse_pointer(x, "tl.topk", argument("topk", 0, "x"))
    value, axis = _tile(_builder, x, dim, "tl.topk")
    count, size = known_int(k, "k of tl.topk"), shape(value)[axis]
    if not 1 <= count <= size:
        raise LanguageValueError(f"k of tl.topk must be from 1 to {size}, the size of dimension {axis} of "
                                 f"{value}, not {count}")
    return _sorted(_builder, value, axis, known_bool(descending, "descending"), count)


@builtin
def bitonic_merge(x: Any, dim: Any = None, descending: Any = False, *, _builder: Builder) -> tensor:
    """As `tl.sort`, of elements that rise and then fall (others are sorted, too)."""
    refuse_pointer(x, "tl.bitonic_merge", argument("bitonic_merge", 0, "x"))
    value, axis = _tile(_builder, x, dim, "tl.bitonic_merge")
    return _sorted(_builder, value, axis, known_bool(descending, "descending"), shape(value)[axis])


for _member in (flip, gather, histogram, sort):
    tensor_member(_member)
