"""Reductions: `reduce` with any combine function, and sum, max, min, argmax, argmin, xor_sum, reduce_or (semantics §7).

Safer rules (docs/design.md): sums of fp16 and bf16 accumulate in fp32 and are rounded once at the end; max and min
ignore NaN on every engine; argmax, argmin and `return_indices` count a NaN as the extreme and give the index of the
first one, as torch does, by a combine that does not depend on the order.  Tests: tests/lang/test_reduction.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.node import Block
from tilewright.language import comparison, elementwise, shape_ops
from tilewright.language.broadcasting import broadcast_to
from tilewright.language.builder import Builder, Handle
from tilewright.language.builtin import builtin, is_builtin, tensor_member
from tilewright.language.casting import cast
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, argument
from tilewright.language.tensor import tensor
from tilewright.language.tuples import tuple as language_tuple
from tilewright.language.types import Scalar, block_type, dtype, float32, int32, make_type, uint32
from tilewright.language.values import (
    describe,
    emit,
    known,
    known_axis,
    known_bool,
    known_dtype,
    need_tile,
    refuse_pointer,
    shape,
    to_tensor,
)

# combine(builder, left elements, right elements) -> elements
Combine = Callable[[Builder, Sequence[tensor], Sequence[tensor]], Sequence[tensor]]


def combine_region(builder: Builder, elements: Sequence[Scalar], combine: Combine) -> Block:
    """The region of a reduction or scan of tiles with these elements."""
    def body(*handles: Handle) -> list[Handle]:
        inner = builder.region_builder()
        scalars = [tensor(h, e, inner) for h, e in zip(handles, [*elements, *elements], strict=True)]
        results = combine(inner, scalars[:len(elements)], scalars[len(elements):])
        return [x.handle for x in results]

    return builder.region([e.to_ir() for e in elements] * 2, body)


def reduce_tiles(builder: Builder, tiles: Sequence[tensor], axis: int | None, combine: Combine,
                 keep_dims: bool) -> list[tensor]:
    """The tiles combined along `axis`, or over all elements for None."""
    rank = len(shape(tiles[0]))
    if axis is None:
        tiles = [shape_ops.make_reshape(builder, x, (x.numel.value,)) for x in tiles]
    at = 0 if axis is None else axis
    sizes = shape(tiles[0])
    rest = sizes[:at] + sizes[at + 1:]
    elements = [x.dtype for x in tiles]
    region = combine_region(builder, elements, combine)
    handles = builder.emit("reduce", [x.handle for x in tiles], {"axis": at}, [region])
    results = [tensor(h, make_type(rest, e), builder) for h, e in zip(handles, elements, strict=True)]
    if not keep_dims:
        return results
    axes = range(rank) if axis is None else (axis,)
    for a in axes:
        results = [shape_ops.make_expand_dims(builder, x, a) for x in results]
    return results


def _axis(axis: Any, x: tensor, what: str) -> int | None:
    need_tile(x, f"tl.{what}")
    return None if unwrap(axis) is None else known_axis(axis, len(shape(x)), f"axis of tl.{what}")


def user_combine(fn: Any, elements: Sequence[Any], what: str) -> Combine:
    """A combine from the user's function; its results must have the types of its inputs."""
    function = known(fn, f"combine_fn of tl.{what}")
    if not callable(function) and not is_builtin(function):
        raise LanguageTypeError(f"combine_fn of tl.{what} must be a @jit function, not {describe(function)}")

    def combine(builder: Builder, left: Sequence[tensor], right: Sequence[tensor]) -> Sequence[tensor]:
        args = (*left, *right)
        result = unwrap(function.call(builder, args, {}) if is_builtin(function)
                        else builder.call_function(function, args, {}))
        many = list(result) if isinstance(result, builtins.tuple) else [result]
        if len(many) != len(left):
            raise LanguageTypeError(f"combine_fn of tl.{what} must return {len(left)} value{'s' * (len(left) > 1)}, "
                                    f"one a reduced tensor, but returned {len(many)}")
        values = [to_tensor(builder, v) for v in many]
        for i, (value, want) in enumerate(zip(values, elements, strict=True)):
            if shape(value) or value.dtype != want:
                raise LanguageTypeError(f"combine_fn of tl.{what} must keep the types of its arguments: result {i} is "
                                        f"{value}, but {want} is reduced; cast inside combine_fn, or the input before")
        return values

    return combine


def tiles_of(builder: Builder, input: Any, what: str) -> tuple[list[tensor], bool]:
    """The tiles, all of one shape, that a tile or a tuple of tiles holds, and whether it is a tuple."""
    given = unwrap(input)
    is_tuple = isinstance(given, builtins.tuple | list)
    tiles = [to_tensor(builder, x) for x in (given if is_tuple else (given,))]
    if not tiles:
        raise LanguageValueError(f"{what} needs at least one tensor, but got an empty tuple")
    for i, x in enumerate(tiles):
        need_tile(x, what)
        if shape(x) != shape(tiles[0]):
            raise LanguageValueError(f"all tensors of {what} must have one shape, but number {i} is {x} and the "
                                     f"first is {tiles[0]}")
    return tiles, is_tuple


@builtin
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, *, _builder: Builder) -> Any:
    """The elements of `input` combined along `axis` by the jit function `combine_fn`.

    `input` is a tile, or a tuple of tiles of one shape, which are reduced together: `combine_fn(a1, .., b1, ..)` gets
    scalars, one of each tile from either side, and returns as many, of the same types.  It must be associative and
    commutative.  Refused: a scalar; results of other types.
    """
    tiles, is_tuple = tiles_of(_builder, input, "tl.reduce")
    combine = user_combine(combine_fn, [x.dtype for x in tiles], "reduce")
    results = reduce_tiles(_builder, tiles, _axis(axis, tiles[0], "reduce"), combine,
                           known_bool(keep_dims, "keep_dims"))
    return language_tuple(results) if is_tuple else results[0]


# -- sum ---------------------------------------------------------------------------------------------------------------


def pick_sum_dtype(element: dtype, wanted: Any) -> dtype:
    """The type of a sum: `dtype=` if given, ints below 32 bits widened, else the input's own."""
    if unwrap(wanted) is not None:
        chosen = known_dtype(wanted)
        assert isinstance(chosen, dtype)
        return chosen
    if element.is_int() and element.int_bitwidth < 32:
        return int32 if element.is_int_signed() else uint32
    return element


def number_tile(builder: Builder, input: Any, what: str) -> tuple[tensor, dtype]:
    x = to_tensor(builder, input)
    refuse_pointer(x, f"tl.{what}", argument(what, 0, "input"))
    assert isinstance(x.dtype, dtype)
    return x, x.dtype


@builtin
def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None, *, _builder: Builder) -> tensor:
    """The sum along `axis`.

    Integers below 32 bits are summed as int32 or uint32 (int1: uint32), others wrap in their own type.  fp16 and bf16
    accumulate in fp32, and the result is rounded to their type.  `dtype` converts the input first.
    """
    x, element = number_tile(_builder, input, "sum")
    result = pick_sum_dtype(element, dtype)
    accumulator = float32 if result.is_floating() and result.primitive_bitwidth < 32 else result
    at = _axis(axis, x, "sum")
    narrow = cast(_builder, x, result)
    op = "add_f" if accumulator.is_floating() else "add"
    (total,) = reduce_tiles(_builder, [cast(_builder, narrow, accumulator)], at, by_op(op),
                            known_bool(keep_dims, "keep_dims"))
    return cast(_builder, total, result)


def by_op(op: str) -> Combine:
    return lambda builder, left, right: [emit(builder, op, (left[0], right[0]), left[0].type)]


# -- max, min ----------------------------------------------------------------------------------------------------------


def _extreme_input(builder: Builder, x: tensor, element: dtype) -> tensor:
    """max and min give fp32 for floats and int32 for ints below 32 bits."""
    if element.primitive_bitwidth >= 32:
        return x
    return cast(builder, x, float32 if element.is_floating() else int32)


def _extreme(builder: Builder, name: str, input: Any, axis: Any, return_indices: Any, keep_dims: Any) -> Any:
    x, element = number_tile(builder, input, name)
    at = _axis(axis, x, name)
    keep = known_bool(keep_dims, "keep_dims")
    if known_bool(return_indices, "return_indices"):
        return language_tuple(_with_indices(builder, name, x, at, keep))

    def combine(inner: Builder, left: Sequence[tensor], right: Sequence[tensor]) -> list[tensor]:
        return [elementwise.extremum(inner, name, left[0], right[0])]

    (result,) = reduce_tiles(builder, [_extreme_input(builder, x, element)], at, combine, keep)
    return result


@builtin
def max(input: Any, axis: Any = None, return_indices: Any = False, return_indices_tie_break_left: Any = True,
        keep_dims: Any = False, *, _builder: Builder) -> Any:
    """The greatest element along `axis`, NaNs ignored; with `return_indices`, a pair with its int32 index.

    Types below 32 bits give fp32 or int32.  With `return_indices` the type is kept, a NaN counts as the greatest, and
    of equal elements the first is taken, whatever `return_indices_tie_break_left` says; the index for `axis=None`
    counts in row-major order.
    """
    known_bool(return_indices_tie_break_left, "return_indices_tie_break_left")
    return _extreme(_builder, "max", input, axis, return_indices, keep_dims)


@builtin
def min(input: Any, axis: Any = None, return_indices: Any = False, return_indices_tie_break_left: Any = True,
        keep_dims: Any = False, *, _builder: Builder) -> Any:
    """The least element along `axis`, NaNs ignored; with `return_indices`, a pair with its int32 index.

    Types below 32 bits give fp32 or int32.  With `return_indices` the type is kept, a NaN counts as the least, and of
    equal elements the first is taken, whatever `return_indices_tie_break_left` says; the index for `axis=None` counts
    in row-major order.
    """
    known_bool(return_indices_tie_break_left, "return_indices_tie_break_left")
    return _extreme(_builder, "min", input, axis, return_indices, keep_dims)


def _with_indices(builder: Builder, name: str, x: tensor, axis: int | None, keep: bool) -> list[tensor]:
    """The extreme and its index along `axis` (in row-major order over all elements for None)."""
    if axis is None:
        rank = len(shape(x))
        flat = shape_ops.make_reshape(builder, x, (x.numel.value,))
        pair = reduce_tiles(builder, [flat, _indices(builder, flat, 0)], 0, _index_combine(name), False)
        if not keep:
            return pair
        return [shape_ops.make_reshape(builder, p, (1,) * rank) for p in pair]
    return reduce_tiles(builder, [x, _indices(builder, x, axis)], axis, _index_combine(name), keep)


def _indices(builder: Builder, x: tensor, axis: int) -> tensor:
    """The index along `axis` of every element."""
    sizes = shape(x)
    line = emit(builder, "iota", (), block_type(int32, (sizes[axis],)), {"start": 0, "end": sizes[axis]})
    spread = shape_ops.make_reshape(builder, line, tuple(s if i == axis else 1 for i, s in enumerate(sizes)))
    return broadcast_to(builder, spread, sizes)


def _index_combine(name: str) -> Combine:
    """(value, index) pairs: the extreme value; of equal ones, and of NaNs, the smaller index."""
    better = "Gt" if name == "max" else "Lt"

    def combine(b: Builder, left: Sequence[tensor], right: Sequence[tensor]) -> list[tensor]:
        (v1, i1), (v2, i2) = left, right
        wins = comparison.compare(b, better, v1, v2)
        ties = comparison.compare(b, "Eq", v1, v2)
        if isinstance(v1.dtype, dtype) and v1.dtype.is_floating():
            nan1, nan2 = comparison.compare(b, "NotEq", v1, v1), comparison.compare(b, "NotEq", v2, v2)
            wins = wins | (nan1 & ~nan2)
            ties = ties | (nan1 & nan2)
        first = wins | (ties & comparison.compare(b, "Lt", i1, i2))
        return [comparison.where(b, first, v1, v2), comparison.where(b, first, i1, i2)]

    return combine


def _arg_extreme(builder: Builder, name: str, input: Any, axis: Any, keep_dims: Any) -> tensor:
    x, _ = number_tile(builder, input, f"arg{name}")
    _, index = _with_indices(builder, name, x, _axis(axis, x, f"arg{name}"), known_bool(keep_dims, "keep_dims"))
    return index


@builtin
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False, *, _builder: Builder) -> tensor:
    """The int32 index along `axis` of the greatest element: the first of equal ones; the first NaN if there is one."""
    known_bool(tie_break_left, "tie_break_left")
    return _arg_extreme(_builder, "max", input, axis, keep_dims)


@builtin
def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False, *, _builder: Builder) -> tensor:
    """The int32 index along `axis` of the least element: the first of equal ones; the first NaN if there is one."""
    known_bool(tie_break_left, "tie_break_left")
    return _arg_extreme(_builder, "min", input, axis, keep_dims)


# -- bits --------------------------------------------------------------------------------------------------------------


def _bit_reduction(builder: Builder, what: str, op: str, input: Any, axis: Any, keep_dims: Any) -> tensor:
    x, element = number_tile(builder, input, what)
    if not element.is_int():
        raise LanguageTypeError(f"{what} only supported for integers, but the input is {x}")
    (result,) = reduce_tiles(builder, [x], _axis(axis, x, what), by_op(op), known_bool(keep_dims, "keep_dims"))
    return result


@builtin
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False, *, _builder: Builder) -> tensor:
    """The exclusive or of integers along `axis`; their type is kept.  Floats are refused."""
    return _bit_reduction(_builder, "xor_sum", "xor", input, axis, keep_dims)


@builtin
def reduce_or(input: Any, axis: Any, keep_dims: Any = False, *, _builder: Builder) -> tensor:
    """The bitwise or of integers along `axis`; their type is kept.  Floats are refused."""
    return _bit_reduction(_builder, "reduce_or", "or", input, axis, keep_dims)


for _member in (reduce, sum, max, min, argmax, argmin, xor_sum, reduce_or):
    tensor_member(_member)
