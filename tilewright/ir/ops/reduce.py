"""Reductions, scans and maps with a region on elements, and the matrix product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import fp
from tilewright.ir.ops.attributes import Precision
from tilewright.ir.ops.rules import require, scalar_element
from tilewright.ir.ops.table import TABLE, Array, Attribute, Call, ErrorBound, Operand, OpRow
from tilewright.ir.types import F16, F32, F64, I32, Tile, Type, element_of, make_type, shape_of

if TYPE_CHECKING:
    from tilewright.ir.node import Block

Attrs = Mapping[str, Any]


def _check_combine(types: Sequence[Type], axis: int, regions: Sequence[Block]) -> None:
    """What reductions and scans need: tiles of one shape, an axis of it, a region on their elements."""
    require(len(types) >= 1 and all(isinstance(t, Tile) for t in types), "combines one or more tiles")
    shape = shape_of(types[0])
    require(all(shape_of(t) == shape for t in types), "the tiles differ in shape")
    require(0 <= axis < len(shape), f"axis {axis} is not in 0..{len(shape) - 1}")
    (region,) = regions
    elements = [element_of(t) for t in types]
    require([a.type for a in region.args] == elements * 2, "the region takes all left, then all right elements")
    require([v.type for v in region.terminator.operands] == elements, "the region yields one value a tile")


def _infer_reduce(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    shape, axis = shape_of(types[0]), attrs["axis"]
    _check_combine(types, axis, regions)
    return tuple(make_type(shape[:axis] + shape[axis + 1:], element_of(t)) for t in types)


def _reduce(call: Call) -> tuple[Array, ...]:
    """A balanced tree over neighbours, odd one out carried: left and right keep their order."""
    axis = call.attrs["axis"] + 1
    parts = list(call.args)
    while parts[0].shape[axis] > 1:
        size = parts[0].shape[axis]
        left = [_take(p, slice(0, size - 1, 2), axis) for p in parts]
        right = [_take(p, slice(1, size, 2), axis) for p in parts]
        combined = call.machine.run_region(call.regions[0], [*left, *right])
        if size % 2:
            combined = tuple(_append(c, _take(p, slice(size - 1, size), axis), axis)
                             for c, p in zip(combined, parts, strict=True))
        parts = list(combined)
    return tuple(np.take(p, 0, axis) for p in parts)


def _append(a: Array, b: Array, axis: int) -> Array:
    """b after a along `axis`; the program axes may differ as operands' may."""
    programs = max(a.shape[0], b.shape[0])
    return np.concatenate([np.broadcast_to(x, (programs, *x.shape[1:])) for x in (a, b)], axis)


def _take(a: Array, part: slice, axis: int) -> Array:
    return a[(slice(None),) * axis + (part,)]


TABLE.add(OpRow("reduce", (Operand("inputs", variadic=True),), _infer_reduce, _reduce,
                "combines along `axis`; the order is unspecified, the region is taken to be associative and "
                "commutative", "semantics of tl.reduce", attributes=(Attribute("axis", int),), regions=1,
                bound=ErrorBound(sum_eps=2)))


def _infer_scan(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    _check_combine(types, attrs["axis"], regions)
    return tuple(types)


def _scan(call: Call) -> tuple[Array, ...]:
    """In log2(n) rounds: each element is combined with what stands 1, 2, 4, ... before it, on its left."""
    axis = call.attrs["axis"] + 1
    parts = [np.flip(a, axis) for a in call.args] if call.attrs["reverse"] else list(call.args)
    size, apart = parts[0].shape[axis], 1
    while apart < size:
        left = [_take(p, slice(0, size - apart), axis) for p in parts]
        right = [_take(p, slice(apart, size), axis) for p in parts]
        combined = call.machine.run_region(call.regions[0], [*left, *right])
        parts = [_append(_take(p, slice(0, apart), axis), c, axis) for p, c in zip(parts, combined, strict=True)]
        apart *= 2
    return tuple(np.flip(p, axis) for p in parts) if call.attrs["reverse"] else tuple(parts)


TABLE.add(OpRow("scan", (Operand("inputs", variadic=True),), _infer_scan, _scan,
                "at each place along `axis` all elements up to it, combined in order (with `reverse`: from the end); "
                "the region is taken to be associative, not to be commutative", "semantics of tl.associative_scan",
                attributes=(Attribute("axis", int), Attribute("reverse", bool, False, required=False)), regions=1,
                bound=ErrorBound(sum_eps=8)))


def _infer_map(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(len(types) >= 1 and all(isinstance(t, Tile) for t in types), "maps one or more tiles")
    require(all(shape_of(t) == shape_of(types[0]) for t in types), "the tiles differ in shape")
    (region,) = regions
    require([a.type for a in region.args] == [element_of(t) for t in types], "the region takes an element a tile")
    yielded = [v.type for v in region.terminator.operands]
    require(not any(isinstance(t, Tile) for t in yielded), "the region yields scalars")
    return tuple(make_type(shape_of(types[0]), element_of(t)) for t in yielded)


TABLE.add(OpRow("map", (Operand("inputs", variadic=True),), _infer_map,
                lambda call: call.machine.run_region(call.regions[0], call.args),
                "the region's results for each element", "semantics of tl.map_elementwise", regions=1))

# operand element -> accumulator elements
_DOT_TYPES: dict[str, tuple[Any, ...]] = {
    "i8": (I32,), "f16": (F32, F16), "bf16": (F32,), "f32": (F32,), "f64": (F64,),
    "f8e4m3": (F32, F16), "f8e5m2": (F32, F16),
}


def infer_dot(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    a, b, acc = types
    sa, sb, sc = (shape_of(t) for t in types)
    require(len(sa) == len(sb) == len(sc) >= 2, "a, b and acc have one rank, at least 2")
    require(sa[:-2] == sb[:-2] == sc[:-2], "batch sizes differ")
    require(sa[-1] == sb[-2], f"K differs: {sa[-1]} and {sb[-2]}")
    require(sc[-2:] == (sa[-2], sb[-1]), f"acc is {sc}, not {(*sa[:-2], sa[-2], sb[-1])}")
    ea, eb, ec = (element_of(t) for t in types)
    require(str(ea) in _DOT_TYPES and (ea == eb or (ea.bits == eb.bits == 8 and ea.is_float and eb.is_float)),
            f"no dot of {ea} and {eb}")
    require(ec in _DOT_TYPES[str(ea)], f"a dot of {ea} accumulates in {_DOT_TYPES[str(ea)]}, not {ec}")
    return (acc,)


def _dot(call: Call) -> tuple[Array, ...]:
    a, b, acc = call.args
    t = scalar_element(call.result_types[0])
    if t.is_int:
        # products of int8 add up exactly in float64 for any K below 2**39
        product = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
        return ((product + acc).astype(np.int32),)
    wide_a, wide_b = (fp.decode(x, scalar_element(y)) for x, y in zip((a, b), call.types, strict=False))
    with np.errstate(all="ignore"):
        return (fp.encode(np.matmul(wide_a, wide_b) + fp.decode(acc, t), t),)


TABLE.add(OpRow("dot", (Operand("a", "[..., M, K]"), Operand("b", "[..., K, N]"), Operand("acc", "[..., M, N]")),
                infer_dot, _dot, "a @ b + acc", "semantics of tl.dot",
                attributes=(Attribute("precision", Precision, Precision.IEEE, required=False),),
                bound=ErrorBound(sum_eps=2)))
