"""`map_elementwise`: a function on elements, applied to tiles; and `inline_asm_elementwise`, which only GPUs have.

Tests: tests/lang/test_mapping.py, tests/lang/test_values_mapping.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder, Handle
from tilewright.language.builtin import builtin, is_builtin
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, NotYetImplementedError
from tilewright.language.shape_ops import make_reshape, make_slice
from tilewright.language.tensor import tensor
from tilewright.language.tuples import tuple as language_tuple
from tilewright.language.types import make_type
from tilewright.language.values import describe, emit, known, known_int, shape, to_tensor


@builtin
def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1, _builder: Builder) -> Any:
    """The results of the jit function `scalar_fn` for the elements of the tiles `args`, which broadcast together.

    With `pack` it gets that many neighbouring elements of each tile at once, all of the first tile first, and returns
    as many of each result.  It may branch; it gives one tile, or a tuple of them.
    """
    function, count = known(scalar_fn, "scalar_fn of tl.map_elementwise"), known_int(pack, "pack of tl.map_elementwise")
    for value in args:
        if not isinstance(unwrap(value), tensor):
            raise LanguageTypeError(f"tl.map_elementwise maps tensors, not {describe(value)}; pass numbers by a "
                                    "constexpr global, or as tl.full(...)")
    if not args:
        raise LanguageValueError("tl.map_elementwise needs at least one tensor")
    tiles = broadcast_all(_builder, [unwrap(a) for a in args])
    sizes = shape(tiles[0])
    if not sizes:
        raise LanguageValueError("tl.map_elementwise maps tiles; of scalars call the function itself")
    if count < 1 or sizes[-1] % count:
        raise LanguageValueError(f"pack of tl.map_elementwise must divide the last size, {sizes[-1]}, but it is "
                                 f"{count}")
    parts = [p for x in tiles for p in _unpacked(_builder, x, count)]
    mapped = _mapped(_builder, function, parts)
    if len(mapped) % count:
        raise LanguageTypeError(f"scalar_fn of tl.map_elementwise returned {len(mapped)} values, which are not {count} "
                                "(pack) of each result")
    results = [_packed(_builder, mapped[k:k + count], sizes) for k in range(0, len(mapped), count)]
    return results[0] if len(results) == 1 else language_tuple(results)


def _mapped(builder: Builder, function: Any, tiles: Sequence[tensor]) -> list[tensor]:
    """One `map` op; its results have the types of the function's."""
    elements = [x.dtype for x in tiles]
    found: list[tensor] = []

    def body(*handles: Handle) -> list[Handle]:
        inner = builder.region_builder()
        given = [tensor(h, e, inner) for h, e in zip(handles, elements, strict=True)]
        result = unwrap(function.call(inner, given, {}) if is_builtin(function)
                        else inner.call_function(function, given, {}))
        many = list(result) if isinstance(result, builtins.tuple) else [result]
        found[:] = [to_tensor(inner, v) for v in many]
        for value in found:
            if shape(value):
                raise LanguageTypeError(f"scalar_fn of tl.map_elementwise must return scalars, but returned {value}")
        return [v.handle for v in found]

    region = builder.region([e.to_ir() for e in elements], body)
    handles = builder.emit("map", [x.handle for x in tiles], {}, [region])
    return [tensor(h, make_type(shape(tiles[0]), v.dtype), builder) for h, v in zip(handles, found, strict=True)]


def _unpacked(builder: Builder, x: tensor, count: int) -> list[tensor]:
    """Every `count`-th element along the last dimension: from the first on, from the second on, ..."""
    if count == 1:
        return [x]
    last, size = len(shape(x)) - 1, shape(x)[-1]
    return [make_slice(builder, x, last, k, count, size // count) for k in range(count)]


def _packed(builder: Builder, parts: Sequence[tensor], sizes: builtins.tuple[int, ...]) -> tensor:
    """The inverse of `_unpacked`."""
    if len(parts) == 1:
        return parts[0]
    columns = [make_reshape(builder, p, (*shape(p), 1)) for p in parts]
    whole = columns[0]
    for column in columns[1:]:
        joined = (*shape(whole)[:-1], shape(whole)[-1] + 1)
        whole = emit(builder, "cat", (whole, column), make_type(joined, whole.dtype), {"axis": len(joined) - 1})
    return make_reshape(builder, whole, sizes)


@builtin
def inline_asm_elementwise(asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any, *,
                           _builder: Builder) -> Any:
    """PTX assembly on elements.  No target has it yet: it raises NotImplementedError when it is used."""
    raise NotYetImplementedError("tl.inline_asm_elementwise is PTX assembly, which runs on NVIDIA GPUs only; on the "
                                 "CPU and in the interpreters write the operation with names of tl, or choose by a "
                                 "tl.constexpr parameter")
