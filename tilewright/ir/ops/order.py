"""Ops that look at a whole tile at once: sorting, counting, picking elements by run-time indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir.ops.rules import is_kind, require
from tilewright.ir.ops.table import TABLE, Array, Attribute, Call, Operand, OpRow
from tilewright.ir.types import I1, I32, I64, Tile, Type, element_of, shape_of, with_element

if TYPE_CHECKING:
    from tilewright.ir.node import Block

Attrs = Mapping[str, Any]


def _infer_sort(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(isinstance(types[0], Tile), f"sorts a tile, not {types[0]}")
    require(is_kind(element_of(types[0]), "wide_int"), f"sorts integers, not {element_of(types[0])}")
    return (types[0],)


TABLE.add(OpRow("sort", (Operand("x"),), _infer_sort, lambda call: (np.sort(call.args[0], axis=-1),),
                "the signed integers of each row of the last dimension in ascending order", "semantics of tl.sort"))


def _infer_histogram(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(isinstance(types[0], Tile) and element_of(types[0]) in (I32, I64), f"counts i32 or i64, not {types[0]}")
    require(attrs["bins"] >= 1, f"{attrs['bins']} bins")
    if attrs["has_mask"]:
        require(types[1] == with_element(types[0], I1), f"the mask {types[1]} is not i1 of the shape of {types[0]}")
    return (Tile((attrs["bins"],), I32),)


def _histogram(call: Call) -> tuple[Array, ...]:
    bins = call.attrs["bins"]
    x = call.args[0].reshape(call.args[0].shape[0], -1)
    counted = (x >= 0) & (x < bins)
    if call.attrs["has_mask"]:
        counted = counted & call.args[1].reshape(call.args[1].shape[0], -1)
    programs = counted.shape[0]
    row, column = np.nonzero(counted)
    places = row * bins + np.broadcast_to(x, counted.shape)[row, column]
    return (np.bincount(places, minlength=programs * bins).astype(np.int32).reshape(programs, bins),)


TABLE.add(OpRow("histogram", (Operand("x"), Operand("mask", optional=True)), _infer_histogram, _histogram,
                "how often 0, 1, ..., bins-1 occur in x where the mask is true; other numbers are not counted",
                "semantics of tl.histogram", attributes=(Attribute("bins", int),)))


def _infer_gather(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    source, index, axis = shape_of(types[0]), shape_of(types[1]), attrs["axis"]
    require(element_of(types[1]) in (I32, I64), f"the index is i32 or i64, not {types[1]}")
    require(len(source) == len(index) and 0 <= axis < len(source), f"axis {axis} does not fit {types[0]}, {types[1]}")
    require(all(d == axis or a == b for d, (a, b) in enumerate(zip(source, index, strict=True))),
            f"{types[0]} and {types[1]} differ beside axis {axis}")
    return (with_element(types[1], element_of(types[0])),)


def _gather(call: Call) -> tuple[Array, ...]:
    source, index = call.args
    axis = call.attrs["axis"] + 1
    inside = (index >= 0) & (index < source.shape[axis])
    programs = max(source.shape[0], index.shape[0])
    source, index = (np.broadcast_to(a, (programs, *a.shape[1:])) for a in (source, np.where(inside, index, 0)))
    found = np.take_along_axis(source, index.astype(np.int64), axis)
    return (np.where(inside, found, np.zeros((), found.dtype)),)


TABLE.add(OpRow("gather", (Operand("source"), Operand("index")), _infer_gather, _gather,
                "the element of source at the place of each index, its coordinate on `axis` replaced by the index; "
                "zero for an index out of range", "NumPy reference, take_along_axis",
                attributes=(Attribute("axis", int),)))
