"""`map_elementwise`: a function on elements, applied to tiles; and `inline_asm_elementwise`, which only GPUs have.

Tests: tests/lang/test_mapping.py, tests/lang/test_values_mapping.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tilewright.ir.ops.assembly import INLINE
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder, Handle
from tilewright.language.builtin import builtin, is_builtin
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.shape_ops import make_reshape, make_slice
from tilewright.language.tensor import tensor
from tilewright.language.tuples import tuple as language_tuple
from tilewright.language.types import make_type
from tilewright.language.values import describe, emit, known, known_bool, known_int, shape, to_tensor


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
    """The results of PTX assembly on the elements of `args`, which broadcast together.  On NVIDIA GPUs only.

    `asm` gets `pack` elements of each argument at once, those of less than 32 bits packed into registers of 32;
    `constraints` names its registers as LLVM does, results first, as in "=r,r,r".  `dtype` is the result's element
    type, or a tuple of those of several.  Unless `is_pure`, it is executed even if no one needs the results.
    Refused: on the CPU and in interpreters, when it is used.
    """
    what = "of tl.inline_asm_elementwise"
    text, names = (known(v, f"{n} {what}") for v, n in ((asm, "asm"), (constraints, "constraints")))
    if not isinstance(text, str) or not isinstance(names, str):
        raise LanguageTypeError("asm and constraints of tl.inline_asm_elementwise must be strings, not "
                                f"{describe(text)} and {describe(names)}")
    given = unwrap(args)
    many = list(given) if isinstance(given, builtins.tuple | list | language_tuple) else [given]
    tiles = broadcast_all(_builder, [to_tensor(_builder, a) for a in many])
    wanted = unwrap(dtype)
    several = isinstance(wanted, builtins.tuple | list | language_tuple)
    elements = [known(e, f"dtype {what}") for e in (wanted if several else [wanted])]
    count = known_int(pack, f"pack {what}")
    if count < 1:
        raise LanguageValueError(f"pack {what} must be at least 1, not {count}")
    attrs = {"text": text, "constraints": names, "pack": count, "name": INLINE,
             "results": builtins.tuple(e.to_ir() for e in elements)}
    sizes = shape(tiles[0]) if tiles else ()
    row = "inline_asm" if known_bool(is_pure, f"is_pure {what}") else "inline_asm_ordered"
    handles = _builder.emit(row, [x.handle for x in tiles], attrs)
    results = [tensor(h, make_type(sizes, e), _builder) for h, e in zip(handles, elements, strict=True)]
    return language_tuple(results) if several else results[0]
