"""Scans: `associative_scan` with any combine function, cumsum and cumprod (semantics §7).

The combine function need not be commutative: its first arguments are what came before.  Safer rule (docs/design.md):
cumsum and cumprod of fp16 and bf16 accumulate in fp32 and are rounded once.  Tests: tests/lang/test_values_scans.py,
tests/lang/test_values_scans.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, tensor_member
from tilewright.language.casting import cast
from tilewright.language.reduction import (
    Combine,
    by_op,
    combine_region,
    number_tile,
    pick_sum_dtype,
    tiles_of,
    user_combine,
)
from tilewright.language.tensor import tensor
from tilewright.language.tuples import tuple as language_tuple
from tilewright.language.types import float32
from tilewright.language.values import known_axis, known_bool, need_tile, shape


def scan_tiles(builder: Builder, tiles: Sequence[tensor], axis: int, combine: Combine, reverse: bool) -> list[tensor]:
    """The running combinations of the tiles along `axis`."""
    region = combine_region(builder, [x.dtype for x in tiles], combine)
    handles = builder.emit("scan", [x.handle for x in tiles], {"axis": axis, "reverse": reverse}, [region])
    return [tensor(h, x.type, builder) for h, x in zip(handles, tiles, strict=True)]


@builtin
def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, *, _builder: Builder) -> Any:
    """At each place along `axis` the elements up to it, combined in order by the jit function `combine_fn`.

    `input` is a tile, or a tuple of tiles of one shape, which are scanned together: `combine_fn(a1, .., b1, ..)` gets
    scalars, those that came before first, and returns as many, of the same types.  It must be associative, and need not
    be commutative.  With `reverse` the places go from the last to the first.  The result has the shape of the input.
    """
    tiles, is_tuple = tiles_of(_builder, input, "tl.associative_scan")
    at = known_axis(axis, len(shape(tiles[0])), "axis of tl.associative_scan")
    combine = user_combine(combine_fn, [x.dtype for x in tiles], "associative_scan")
    results = scan_tiles(_builder, tiles, at, combine, known_bool(reverse, "reverse"))
    return language_tuple(results) if is_tuple else results[0]


def _running(builder: Builder, name: str, ops: tuple[str, str], input: Any, axis: Any, reverse: Any,
             dtype: Any) -> tensor:
    """cumsum or cumprod, whose float and integer ops are `ops`."""
    x, element = number_tile(builder, input, name)
    need_tile(x, f"tl.{name}")
    result = pick_sum_dtype(element, dtype)
    at = known_axis(axis, len(shape(x)), f"axis of tl.{name}")
    accumulator = float32 if result.is_floating() and result.primitive_bitwidth < 32 else result
    start = cast(builder, cast(builder, x, result), accumulator)
    op = ops[0] if accumulator.is_floating() else ops[1]
    (total,) = scan_tiles(builder, [start], at, by_op(op), known_bool(reverse, "reverse"))
    return cast(builder, total, result)


@builtin
def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None, *, _builder: Builder) -> tensor:
    """The running sums along `axis`, with `reverse` from the end.

    Integers below 32 bits are summed as int32 or uint32; `dtype` converts the input first.  fp16 and bf16 accumulate
    in fp32 and the results are rounded to their type.
    """
    return _running(_builder, "cumsum", ("add_f", "add"), input, axis, reverse, dtype)


@builtin
def cumprod(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None, *, _builder: Builder) -> tensor:
    """The running products along `axis`, with `reverse` from the end; types as for `tl.cumsum`."""
    return _running(_builder, "cumprod", ("mul_f", "mul"), input, axis, reverse, dtype)


for _member in (associative_scan, cumsum, cumprod):
    tensor_member(_member)
