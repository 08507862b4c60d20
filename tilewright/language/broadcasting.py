"""Broadcasting: ranks are padded with 1 on the left, sizes of 1 repeat (semantics §3).

The IR is strict, so every meeting of two shapes goes through here.  Tests: tests/lang/test_operators.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.language.builder import Builder
from tilewright.language.errors import LanguageValueError
from tilewright.language.tensor import tensor
from tilewright.language.types import check_shape, make_type
from tilewright.language.values import Shape, emit, shape, splat


def common_shape(shapes: Sequence[Shape], names: Sequence[str] = ()) -> Shape:
    """The shape to which all of `shapes` broadcast."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for one in shapes:
        offset = rank - len(one)
        for i, size in enumerate(one):
            have = result[offset + i]
            if size != 1 and have not in (1, size):
                listed = ", ".join(f"{names[k] + ' ' if names else ''}{list(s)}" for k, s in enumerate(shapes))
                raise LanguageValueError(
                    f"Cannot make_shape_compatible: incompatible dimensions at index {offset + i}: {have} and {size} "
                    f"(shapes {listed}); sizes must be equal or 1: add dimensions with [:, None] or [None, :], or "
                    "make the sizes equal")
            if size != 1:
                result[offset + i] = size
    return tuple(result)


def broadcast_to(builder: Builder, x: tensor, target: Shape) -> tensor:
    """`x` in the shape `target`, which it must broadcast to, with padding of its rank."""
    have = shape(x)
    if have == target:
        return x
    check_shape(target)
    if not have:
        return splat(builder, x, target)
    while len(shape(x)) < len(target):
        x = emit(builder, "expand_dims", (x,), make_type((1, *shape(x)), x.dtype), {"axis": 0})
    if shape(x) == target:
        return x
    return emit(builder, "broadcast", (x,), make_type(target, x.dtype), {"shape": target})


def broadcast_all(builder: Builder, values: Sequence[tensor], names: Sequence[str] = ()) -> list[tensor]:
    """All of `values` in their common shape."""
    target = common_shape([shape(x) for x in values], names)
    return [broadcast_to(builder, x, target) for x in values]


def broadcast_pair(builder: Builder, a: tensor, b: tensor, names: Sequence[str] = ()) -> tuple[tensor, tensor]:
    left, right = broadcast_all(builder, (a, b), names)
    return left, right
