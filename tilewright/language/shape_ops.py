"""Names that rearrange tiles without computing (semantics §3).  Any sizes are allowed, powers of two or not.

Tests: tests/lang/test_shape.py.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.language import broadcasting
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, tensor_member
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, argument
from tilewright.language.tensor import tensor
from tilewright.language.types import check_shape, make_type
from tilewright.language.values import (
    Shape,
    emit,
    is_pointer,
    known_axis,
    known_bool,
    known_ints,
    known_shape,
    need_tile,
    read_first,
    shape,
    to_tensor,
)


def _sizes_argument(sizes: tuple[Any, ...], what: str) -> Shape:
    """A shape given as one tuple or as separate ints."""
    first = unwrap(sizes[0]) if len(sizes) == 1 else None
    return known_shape(first if isinstance(first, tuple | list) else sizes, what)


def _dims_argument(dims: tuple[Any, ...], what: str) -> Shape:
    first = unwrap(dims[0]) if len(dims) == 1 else None
    return known_ints(first if isinstance(first, tuple | list) else dims, what)


def make_reshape(builder: Builder, x: tensor, sizes: Shape) -> tensor:
    """`x` in another shape with as many elements, row-major."""
    have = shape(x)
    if have == sizes:
        return x
    if math.prod(have) != math.prod(sizes):
        raise LanguageValueError(f"reshape() cannot change total number of elements in tensor: {list(have)} has "
                                 f"{math.prod(have)}, {list(sizes)} has {math.prod(sizes)}")
    if not have:
        x = emit(builder, "expand_dims", (x,), make_type((1,), x.dtype), {"axis": 0})
        return make_reshape(builder, x, sizes)
    return emit(builder, "reshape", (x,), make_type(sizes, x.dtype), {"shape": sizes})


def make_slice(builder: Builder, x: tensor, axis: int, start: int, step: int, size: int) -> tensor:
    """The indices start, start + step, ... of one dimension."""
    sizes = shape(x)
    return emit(builder, "slice", (x,), make_type((*sizes[:axis], size, *sizes[axis + 1:]), x.dtype),
                {"axis": axis, "start": start, "step": step, "size": size})


@builtin
def reshape(input: Any, *shape: Any, can_reorder: Any = False, _builder: Builder) -> tensor:
    """The same elements, in row-major order, in another shape: `reshape(x, (4, 8))` or `reshape(x, 4, 8)`.

    `reshape(x, ())` of one element is a scalar.  `can_reorder` is accepted and has no effect: the order is always kept.
    Refused: another number of elements; -1.
    """
    known_bool(can_reorder, "can_reorder")
    return make_reshape(_builder, to_tensor(_builder, input), _sizes_argument(shape, "shape of tl.reshape"))


@builtin
def view(input: Any, *shape: Any, _builder: Builder) -> tensor:
    """`reshape` under an old name."""
    return make_reshape(_builder, to_tensor(_builder, input), _sizes_argument(shape, "shape of tl.view"))


@builtin
def ravel(x: Any, can_reorder: Any = False, *, _builder: Builder) -> tensor:
    """The elements of `x` in row-major order, in one dimension.  `can_reorder` has no effect."""
    value = to_tensor(_builder, x)
    return make_reshape(_builder, value, (value.numel.value,))


@builtin
def item(input: Any, *, _builder: Builder) -> tensor:
    """The only element of a tile of one, as a scalar."""
    x = to_tensor(_builder, input)
    if x.numel.value != 1:
        raise LanguageValueError(f"item() needs a tile of one element, not {x}")
    return make_reshape(_builder, x, ())


def make_permute(builder: Builder, x: tensor, order: Shape) -> tensor:
    sizes = shape(x)
    if sorted(order) != list(range(len(sizes))):
        raise LanguageValueError(f"permute dims must be a permutation of 0, 1, ..., n-1, but were {order} for {x} with "
                                 f"{len(sizes)} dimensions")
    if order == tuple(range(len(sizes))):
        return x
    return emit(builder, "permute", (x,), make_type(tuple(sizes[i] for i in order), x.dtype), {"order": order})


@builtin
def permute(input: Any, *dims: Any, _builder: Builder) -> tensor:
    """Dimensions in another order: dimension i of the result is dimension `dims[i]` of the input.

    `dims` is a tuple, or separate ints, from 0 on; each dimension once.
    """
    return make_permute(_builder, to_tensor(_builder, input), _dims_argument(dims, "dims of tl.permute"))


@builtin
def trans(input: Any, *dims: Any, _builder: Builder) -> tensor:
    """The last two dimensions swapped; with `dims`, a permutation as by `permute`.

    Refused: a scalar, or one dimension.
    """
    x = to_tensor(_builder, input)
    if dims:
        return make_permute(_builder, x, _dims_argument(dims, "dims of tl.trans"))
    rank = len(shape(x))
    if rank < 2:
        raise LanguageValueError(f"tl.trans invoked with less than 2 dimensions: the input is {x}")
    return make_permute(_builder, x, (*range(rank - 2), rank - 1, rank - 2))


@builtin
def broadcast(input: Any, other: Any, *, _builder: Builder) -> tuple[tensor, tensor]:
    """Both values in their common shape, as NumPy has it: a pair."""
    return broadcasting.broadcast_pair(_builder, to_tensor(_builder, input), to_tensor(_builder, other))


def make_broadcast_to(builder: Builder, x: tensor, sizes: Shape) -> tensor:
    have = shape(x)
    if not sizes and not have:
        return x
    check_shape(sizes)
    if have and len(have) != len(sizes):
        raise LanguageValueError(f"Cannot broadcast, rank mismatch: {list(have)}, {list(sizes)}; tl.broadcast_to adds "
                                 "no dimensions, use x[None, :] first")
    for i, (size, want) in enumerate(zip(have, sizes, strict=False)):
        if size not in (1, want):
            raise LanguageValueError(f"Cannot broadcast, the expanded size of the tensor ({want}) must match the "
                                     f"existing size ({size}) at non-singleton dimension {i}: {list(have)} to "
                                     f"{list(sizes)}")
    return broadcasting.broadcast_to(builder, x, sizes)


@builtin
def broadcast_to(input: Any, *shape: Any, _builder: Builder) -> tensor:
    """`input` with its sizes of 1 repeated to `shape`, a tuple or separate ints; or a scalar repeated.

    No dimension is added: a tile of another number of dimensions is refused (use `x[None, :]`).
    """
    sizes = _sizes_argument(shape, "shape of tl.broadcast_to")
    return make_broadcast_to(_builder, to_tensor(_builder, input), sizes)


def make_expand_dims(builder: Builder, x: tensor, axis: int) -> tensor:
    sizes = shape(x)
    return emit(builder, "expand_dims", (x,), make_type((*sizes[:axis], 1, *sizes[axis:]), x.dtype), {"axis": axis})


@builtin
def expand_dims(input: Any, axis: Any, *, _builder: Builder) -> tensor:
    """New dimensions of size 1: `axis`, an int or a tuple, says where they are in the result.

    Negative ones count from its end.  Refused: one axis twice.
    """
    x = to_tensor(_builder, input)
    given = known_ints(axis, "axis of tl.expand_dims")
    rank = len(shape(x)) + len(given)
    axes = [known_axis(a, rank, "axis of tl.expand_dims") for a in given]
    if len(set(axes)) != len(axes):
        raise LanguageValueError(f"expand_dims received duplicate axes: {given} name the dimensions {tuple(axes)}")
    for a in sorted(axes):
        x = make_expand_dims(_builder, x, a)
    return x


@builtin
def unsqueeze(x: Any, dim: Any, *, _builder: Builder) -> tensor:
    """A new dimension of size 1 at `dim` of the result; a negative `dim` counts from its end."""
    value = to_tensor(_builder, x)
    return make_expand_dims(_builder, value, known_axis(dim, len(shape(value)) + 1, "dim of tl.unsqueeze"))


@builtin
def squeeze(x: Any, dim: Any, *, _builder: Builder) -> tensor:
    """`x` without its dimension `dim`.  Refused: a dimension whose size is not 1."""
    value = to_tensor(_builder, x)
    sizes = shape(value)
    axis = known_axis(dim, len(sizes), "dim of tl.squeeze")
    if sizes[axis] != 1:
        raise LanguageValueError(f"tl.squeeze removes a dimension of size 1, but dimension {axis} of {value} has size "
                                 f"{sizes[axis]}")
    return make_reshape(_builder, value, (*sizes[:axis], *sizes[axis + 1:]))


def _same_element(a: tensor, b: tensor, what: str) -> None:
    if a.dtype != b.dtype:
        sides = [(x, argument(what, i, name)) for i, (x, name) in enumerate(((a, "a"), (b, "b"))) if is_pointer(x)]
        cure = read_first(*sides[0]) if sides else "cast one with .to()"
        raise LanguageTypeError(f"tl.{what} needs two tensors of one type, but got a of type {a.dtype} and b of type "
                                f"{b.dtype}; {cure}")


def make_join(builder: Builder, a: tensor, b: tensor, what: str = "join") -> tensor:
    _same_element(a, b, what)
    a, b = broadcasting.broadcast_pair(builder, a, b)
    if not shape(a):
        a, b = (emit(builder, "expand_dims", (x,), make_type((1,), x.dtype), {"axis": 0}) for x in (a, b))
        pair = emit(builder, "join", (a, b), make_type((1, 2), a.dtype))
        return make_reshape(builder, pair, (2,))
    return emit(builder, "join", (a, b), make_type((*shape(a), 2), a.dtype))


@builtin
def join(a: Any, b: Any, *, _builder: Builder) -> tensor:
    """`a` and `b`, broadcast to one another, as index 0 and 1 of a new last dimension: [...] becomes [..., 2].

    Two scalars give [2].  Refused: two types.
    """
    return make_join(_builder, to_tensor(_builder, a), to_tensor(_builder, b))


@builtin
def interleave(a: Any, b: Any, *, _builder: Builder) -> tensor:
    """Elements of `a` and `b` in turn along the last dimension: a0, b0, a1, b1, ...; [..., n] becomes [..., 2 * n].

    Two scalars give [2].  Refused: two types.
    """
    pair = make_join(_builder, to_tensor(_builder, a), to_tensor(_builder, b), "interleave")
    sizes = shape(pair)
    if len(sizes) == 1:
        return pair
    return make_reshape(_builder, pair, (*sizes[:-2], 2 * sizes[-2]))


@builtin
def split(a: Any, *, _builder: Builder) -> tuple[tensor, tensor]:
    """The two halves of a last dimension of size 2: index 0 and index 1, a pair of [...] for [..., 2].

    [2] gives two scalars.  Refused: a last dimension of another size.
    """
    x = to_tensor(_builder, a)
    sizes = shape(x)
    if not sizes or sizes[-1] != 2:
        raise LanguageValueError(f"tl.split needs a last dimension of size 2, but the input is {x}")
    first, second = _builder.emit("split", [x.handle])
    half = make_type(sizes[:-1], x.dtype)
    return tensor(first, half, _builder), tensor(second, half, _builder)


@builtin
def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0, *, _builder: Builder) -> tensor:
    """`input`, then `other`, along `dim`; one type, and equal sizes in the other dimensions.

    The order is always kept; `can_reorder` is accepted and has no effect.
    """
    known_bool(can_reorder, "can_reorder")
    a, b = to_tensor(_builder, input), to_tensor(_builder, other)
    _same_element(a, b, "cat")
    need_tile(a, "tl.cat")
    need_tile(b, "tl.cat")
    left, right = shape(a), shape(b)
    axis = known_axis(dim, len(left), "dim of tl.cat")
    if len(left) != len(right) or any(i != axis and s != t for i, (s, t) in enumerate(zip(left, right, strict=True))):
        raise LanguageValueError(f"tl.cat along dimension {axis} needs equal sizes in the other dimensions, but got "
                                 f"{list(left)} and {list(right)}")
    sizes = (*left[:axis], left[axis] + right[axis], *left[axis + 1:])
    return emit(_builder, "cat", (a, b), make_type(sizes, a.dtype), {"axis": axis})


for _member in (reshape, view, ravel, item, permute, trans, broadcast_to, expand_dims, split):
    tensor_member(_member)
