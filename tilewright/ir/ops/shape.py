"""Constants, and ops that make or rearrange tiles without computing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import fp
from tilewright.ir.ops.rules import batched_shape, require
from tilewright.ir.ops.table import TABLE, Array, Attribute, Call, Operand, OpRow
from tilewright.ir.types import I32, Element, Pointer, Tile, Type, element_of, make_type, shape_of, storage_dtype

if TYPE_CHECKING:
    from tilewright.ir.node import Block

Attrs = Mapping[str, Any]
_NUMPY = "NumPy reference"
_X = (Operand("x"),)
_AB = (Operand("a"), Operand("b"))


def _infer_constant(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    t, value = attrs["type"], attrs["value"]
    require(not isinstance(t, Tile), "a constant is a scalar; splat it")
    if isinstance(t, Pointer) or t.is_int:
        require(isinstance(value, int) and not (t.bits > 1 and isinstance(value, bool)), f"{value!r} is no {t}")
        low, high = (0, 1) if t.bits == 1 else (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1)
        require(low <= value <= high, f"{value} does not fit {t} (signed)")
    else:
        require(isinstance(value, float), f"{value!r} is no float")
    return (t,)


def _constant(call: Call) -> tuple[Array, ...]:
    t, value = call.attrs["type"], call.attrs["value"]
    if not isinstance(t, Pointer) and t.is_float:
        return (fp.encode(np.array([value], np.float64), t),)
    return (np.array([value], storage_dtype(t)),)


TABLE.add(OpRow("constant", (), _infer_constant, _constant,
                "a scalar constant; integers in signed range, floats as Python floats (rounded to the type)",
                "docs/design.md", attributes=(Attribute("value", (int, float, bool)), Attribute("type", Element))))


def _infer_splat(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    t = types[0]
    require(not isinstance(t, Tile), f"splats a scalar, not {t}")
    return (Tile(attrs["shape"], element_of(t)),)


def _splat(call: Call) -> tuple[Array, ...]:
    (a,) = call.args
    shape = call.attrs["shape"]
    return (np.broadcast_to(a.reshape(a.shape[0], *(1 for _ in shape)), (a.shape[0], *shape)),)


TABLE.add(OpRow("splat", _X, _infer_splat, _splat, "a tile of one scalar", _NUMPY,
                attributes=(Attribute("shape", tuple),)))


def _infer_iota(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    start, end = attrs["start"], attrs["end"]
    require(-(1 << 31) <= start < end <= (1 << 31), f"range {start}..{end} is empty or leaves int32")
    return (Tile((end - start,), I32),)


TABLE.add(OpRow("iota", (), _infer_iota,
                lambda call: (np.arange(call.attrs["start"], call.attrs["end"], dtype=np.int32)[None],),
                "start, start+1, ..., end-1 as i32", _NUMPY,
                attributes=(Attribute("start", int), Attribute("end", int))))


def _infer_reshape(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(math.prod(shape_of(types[0])) == math.prod(attrs["shape"]),
            f"{types[0]} has another number of elements than {attrs['shape']}")
    return (make_type(attrs["shape"], element_of(types[0])),)


def _reshape(call: Call) -> tuple[Array, ...]:
    return (call.args[0].reshape(batched_shape(call, call.result_types[0])),)


TABLE.add(OpRow("reshape", _X, _infer_reshape, _reshape,
                "the same elements in row-major order in another shape; () makes a scalar of one element", _NUMPY,
                attributes=(Attribute("shape", tuple),)))


def _infer_permute(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    shape, order = shape_of(types[0]), attrs["order"]
    require(sorted(order) == list(range(len(shape))), f"{order} is no permutation of {len(shape)} dimensions")
    return (make_type(tuple(shape[i] for i in order), element_of(types[0])),)


TABLE.add(OpRow("permute", _X, _infer_permute,
                lambda call: (np.transpose(call.args[0], (0, *(i + 1 for i in call.attrs["order"]))),),
                "dimension i of the result is dimension order[i] of x", _NUMPY,
                attributes=(Attribute("order", tuple),)))


def _infer_expand_dims(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    shape, axis = shape_of(types[0]), attrs["axis"]
    require(0 <= axis <= len(shape), f"axis {axis} is not in 0..{len(shape)}")
    return (Tile((*shape[:axis], 1, *shape[axis:]), element_of(types[0])),)


TABLE.add(OpRow("expand_dims", _X, _infer_expand_dims,
                lambda call: (np.expand_dims(call.args[0], call.attrs["axis"] + 1),),
                "a new dimension of size 1 before `axis` (a scalar becomes a tile of one)", _NUMPY,
                attributes=(Attribute("axis", int),)))


def _infer_broadcast(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    have, want = shape_of(types[0]), attrs["shape"]
    require(bool(have) and len(have) == len(want), f"{types[0]} and {want} differ in rank")
    require(all(h in (1, w) for h, w in zip(have, want, strict=True)), f"{have} does not broadcast to {want}")
    return (Tile(want, element_of(types[0])),)


TABLE.add(OpRow("broadcast", _X, _infer_broadcast,
                lambda call: (np.broadcast_to(call.args[0], batched_shape(call, call.result_types[0])),),
                "sizes of 1 repeated to `shape`, same rank", _NUMPY, attributes=(Attribute("shape", tuple),)))


def _infer_join(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(types[0] == types[1], f"{types[0]} and {types[1]} differ")
    return (Tile((*shape_of(types[0]), 2), element_of(types[0])),)


TABLE.add(OpRow("join", _AB, _infer_join, lambda call: (np.stack(np.broadcast_arrays(*call.args), axis=-1),),
                "a and b as index 0 and 1 of a new last dimension", "semantics of tl.join"))


def _infer_split(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    shape = shape_of(types[0])
    require(bool(shape) and shape[-1] == 2, f"the last dimension of {types[0]} is not 2")
    half = make_type(shape[:-1], element_of(types[0]))
    return (half, half)


TABLE.add(OpRow("split", _X, _infer_split, lambda call: (call.args[0][..., 0], call.args[0][..., 1]),
                "index 0 and index 1 of the last dimension", "semantics of tl.split"))


def _infer_cat(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    (a, b), axis = (shape_of(t) for t in types), attrs["axis"]
    require(element_of(types[0]) == element_of(types[1]), "element types differ")
    require(len(a) == len(b) and 0 <= axis < len(a), f"axis {axis} does not fit {types[0]} and {types[1]}")
    require(all(i == axis or x == y for i, (x, y) in enumerate(zip(a, b, strict=True))), "other sizes differ")
    return (Tile((*a[:axis], a[axis] + b[axis], *a[axis + 1:]), element_of(types[0])),)


def _cat(call: Call) -> tuple[Array, ...]:
    programs = max(a.shape[0] for a in call.args)
    parts = [np.broadcast_to(a, (programs, *a.shape[1:])) for a in call.args]
    return (np.concatenate(parts, axis=call.attrs["axis"] + 1),)


TABLE.add(OpRow("cat", _AB, _infer_cat, _cat, "a, then b, along `axis`", _NUMPY, attributes=(Attribute("axis", int),)))


def _infer_slice(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    shape, axis, size = shape_of(types[0]), attrs["axis"], attrs["size"]
    require(0 <= axis < len(shape), f"axis {axis} does not fit {types[0]}")
    first, last = attrs["start"], attrs["start"] + attrs["step"] * (size - 1)
    require(size >= 1 and min(first, last) >= 0 and max(first, last) < shape[axis],
            f"indices {first} to {last} leave dimension {axis} of {types[0]}")
    return (Tile((*shape[:axis], size, *shape[axis + 1:]), element_of(types[0])),)


def _slice(call: Call) -> tuple[Array, ...]:
    start, step, size = (call.attrs[n] for n in ("start", "step", "size"))
    return (np.take(call.args[0], start + step * np.arange(size), axis=call.attrs["axis"] + 1),)


TABLE.add(OpRow("slice", _X, _infer_slice, _slice, "indices start, start + step, ... of one dimension", _NUMPY,
                attributes=tuple(Attribute(n, int) for n in ("axis", "start", "step", "size"))))


def _hint_infer(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    rank = max(1, len(shape_of(types[0])))
    for name in ("divisible", "contiguous", "constant"):
        values = attrs[name]
        require(len(values) in (0, rank) and all(v >= 1 for v in values), f"{name} needs {rank} sizes >= 1")
    return (types[0],)


_SIZES = tuple(Attribute(n, tuple, (), required=False) for n in ("divisible", "contiguous", "constant"))
TABLE.add(OpRow("hint", _X, _hint_infer, lambda call: (call.args[0],),
                "x, with the user's promise of divisibility, contiguity, constancy a dimension",
                "semantics of tl.multiple_of", attributes=_SIZES))


def _axis_infer(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(attrs["axis"] in (0, 1, 2), f"axis {attrs['axis']} is not 0, 1 or 2")
    return (I32,)


TABLE.add(OpRow("program_id", (), _axis_infer, lambda call: (call.machine.program_id(call.attrs["axis"]),),
                "index of this program along an axis of the grid", "semantics of tl.program_id",
                attributes=(Attribute("axis", int),)))
TABLE.add(OpRow("num_programs", (), _axis_infer, lambda call: (call.machine.num_programs(call.attrs["axis"]),),
                "size of the grid along an axis", "semantics of tl.num_programs",
                attributes=(Attribute("axis", int),)))
