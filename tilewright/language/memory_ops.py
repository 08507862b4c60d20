"""`tl.load` and `tl.store` (semantics §5), also through block pointers, with the safer rules of docs/design.md.

Pointer, mask and `other`/value broadcast to one another as in NumPy; a scalar pointer takes scalars only.  A masked
lane without `other` is zero.
Tests: tests/lang/test_memory.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.ops.attributes import Cache, Eviction
from tilewright.language.block_pointers import block_pointer, checked_dimensions, padding
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, tensor_member
from tilewright.language.casting import cast
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, as_written
from tilewright.language.operators import as_type
from tilewright.language.tensor import tensor
from tilewright.language.types import Scalar, dtype, int1, pointer_type
from tilewright.language.values import (
    describe,
    emit,
    is_literal,
    known,
    known_bool,
    refuse_pointer,
    shape,
    to_tensor,
    with_dtype,
)

_LOAD_CACHES = ("ca", "cg", "cs", "cv")
_STORE_CACHES = ("wb", "cg", "cs", "wt")
_MASK = "load.1|load.mask|store.2|store.mask"
_ROOM = {"value": "store.1|store.value", "other": "load.2|load.other"}
_EVICTIONS = {"": Eviction.NORMAL, "evict_normal": Eviction.NORMAL, "evict_first": Eviction.FIRST,
              "evict_last": Eviction.LAST}


@builtin
def load(pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (), padding_option: Any = "",
         cache_modifier: Any = "", eviction_policy: Any = "", volatile: Any = False, *, _builder: Builder) -> tensor:
    """The elements at `pointer`: a pointer, a tile of pointers, or a block pointer.

    The result has the common shape of pointer, mask and other, and the pointer's element type; of bool arrays any byte
    but 0 is True.  Where `mask` (int1) is false nothing is read, and the result is `other`, converted to the element
    type, or zero.  A block pointer takes `boundary_check`, the dimensions in which it may stick out, and
    `padding_option`, "zero" or "nan", for what lies there.  `cache_modifier` ("", ".ca", ".cg", ".cs", ".cv") and
    `eviction_policy` ("", "evict_first", "evict_last", "evict_normal") are hints; a `volatile` load is done where it
    stands, every time.  Refused: `other` without `mask`; a mask that is no int1; a tile as mask or other of a scalar
    pointer; `boundary_check` without a block pointer.  Outside of a tensor: OutOfBoundsError when the kernel runs.
    """
    mask, other, block = unwrap(mask), unwrap(other), unwrap(pointer)
    padded = False
    if isinstance(block, block_pointer):
        if mask is not None or other is not None:
            raise LanguageValueError("`mask` and `other` arguments cannot be specified for loading block pointers; use "
                                     "boundary_check and padding_option")
        pointer, mask = block.access(_builder, checked_dimensions(boundary_check, block))
        fill = padding(padding_option, block.element)
        other, padded = fill if mask is not None else None, True
    else:
        _refuse_block_pointer_arguments("load", boundary_check, padding_option)
    return load_tile(_builder, pointer, mask, other, padded, cache_modifier, eviction_policy, volatile)


def load_tile(builder: Builder, pointer: Any, mask: Any, other: Any, padded: bool, cache_modifier: Any = "",
              eviction_policy: Any = "", volatile: Any = False) -> tensor:
    """A load from a pointer or a tile of pointers; `padded`: the program wants zero where the mask is false."""
    target = pointer_operand(pointer, "load")
    if mask is None and other is not None:
        raise LanguageValueError("`other` cannot be provided without `mask`: it is the value of masked lanes")
    attrs = {"cache": _cache(cache_modifier, _LOAD_CACHES, "load"), "eviction": _eviction(eviction_policy),
             "volatile": known_bool(volatile, "volatile"), "has_mask": mask is not None, "has_other": other is not None}
    if padded and mask is not None and other is None:
        attrs["padded"] = True
    operands, names = [target], ["pointer"]
    element = _pointee(target)
    if mask is not None:
        operands.append(mask_operand(builder, mask))
        names.append("mask")
    if other is not None:
        operands.append(value_operand(builder, other, element, "other"))
        names.append("other")
    refuse_blocks_for_scalar_pointer(operands, names)
    operands = broadcast_all(builder, operands, names)
    return emit(builder, "load", operands, with_dtype(operands[0], element), attrs)


@builtin
def store(pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), cache_modifier: Any = "",
          eviction_policy: Any = "", *, _builder: Builder) -> None:
    """Write `value`, converted to the element type, at `pointer` where `mask` (int1) is true.

    Pointer, value and mask broadcast to one another; where a pointer occurs more than once, the last in row-major order
    wins.  A block pointer takes `boundary_check`, and a value of exactly its shape and type, or a scalar.
    `cache_modifier` ("", ".wb", ".cg", ".cs", ".wt") and `eviction_policy` are hints.  Refused: a tile at a scalar
    pointer; a mask that is no int1; a pointer annotated `tl.const`.  Outside of a tensor: OutOfBoundsError when the
    kernel runs, before anything of this store is written there.
    """
    mask, block = unwrap(mask), unwrap(pointer)
    if isinstance(block, block_pointer):
        if mask is not None:
            raise LanguageValueError("`mask` cannot be specified for storing block pointers; use boundary_check")
        value = _block_value(_builder, value, block)
        pointer, mask = block.access(_builder, checked_dimensions(boundary_check, block))
    else:
        _refuse_block_pointer_arguments("store", boundary_check, "")
    target = pointer_operand(pointer, "store")
    if target.dtype.is_const():
        raise LanguageValueError("Cannot store to a constant pointer: the parameter is annotated tl.const")
    attrs = {"cache": _cache(cache_modifier, _STORE_CACHES, "store"), "eviction": _eviction(eviction_policy),
             "has_mask": mask is not None}
    element = _pointee(target)
    operands, names = [target, value_operand(_builder, value, element, "value")], ["pointer", "value"]
    if mask is not None:
        operands.append(mask_operand(_builder, mask))
        names.append("mask")
    refuse_blocks_for_scalar_pointer(operands, names)
    operands = broadcast_all(_builder, operands, names)
    _builder.emit("store", [x.handle for x in operands], attrs)


tensor_member(store)


def _block_value(builder: Builder, value: Any, block: block_pointer) -> tensor:
    """What is stored through a block pointer: a scalar, or a block of exactly its shape and element type."""
    x = to_tensor(builder, value)
    if not shape(x):
        return x
    if x.type != block.block_type:
        raise LanguageValueError(f"Block shape or element type mismatch: the block pointer stores {block.block_type}, "
                                 f"but the value is {x}; convert it with .to({block.element})")
    return x


def pointer_operand(pointer: Any, what: str) -> tensor:
    value = unwrap(pointer)
    if not isinstance(value, tensor) or not isinstance(value.dtype, pointer_type):
        given = value.dtype if isinstance(value, tensor) else describe(value)
        raise LanguageTypeError(f"Unsupported ptr type {given} in `tl.{what}`: a pointer or a tile of pointers is "
                                "needed; pass the tensor itself to the kernel and add offsets to it")
    return value


def _pointee(pointer: tensor) -> Scalar:
    assert isinstance(pointer.dtype, pointer_type)
    return pointer.dtype.element_ty


def mask_operand(builder: Builder, mask: Any) -> tensor:
    given = to_tensor(builder, mask)
    refuse_pointer(given, "`mask`", _MASK)
    if given.dtype != int1:
        raise LanguageValueError(f"Mask must have boolean scalar type: it is {given}; write "
                                 f"`{as_written(_MASK, 'mask')} != 0`, or a comparison")
    return given


def value_operand(builder: Builder, value: Any, element: Scalar, what: str) -> tensor:
    """`other` or the value, converted to the element type (silently, semantics §5)."""
    given = unwrap(value)
    if given is None or not (isinstance(given, tensor) or is_literal(given)):
        raise LanguageTypeError(f"`{what}` must be a number or a tensor, not {describe(value)}")
    if isinstance(element, dtype):
        refuse_pointer(given, f"`{what}`", _ROOM.get(what, ""))
    if is_literal(given) and isinstance(element, dtype) and element.is_floating():
        return as_type(builder, given, element)     # rounded once, from the literal itself
    return cast(builder, to_tensor(builder, given), element)


def refuse_blocks_for_scalar_pointer(operands: list[tensor], names: list[str]) -> None:
    if shape(operands[0]):
        return
    for x, name in zip(operands[1:], names[1:], strict=True):
        if shape(x):
            raise LanguageValueError(
                f"{name.capitalize()} argument cannot be block type if pointer argument is not a block: the pointer is "
                f"a scalar and {name} is {x}; add offsets to the pointer, e.g. ptr + tl.arange(0, N)")


def _refuse_block_pointer_arguments(what: str, boundary_check: Any, padding_option: Any) -> None:
    if unwrap(boundary_check) or unwrap(padding_option):
        raise LanguageValueError(f"`padding_option` or `boundary_check` argument is not supported by tl.{what} of a "
                                 "pointer or a tile of pointers (they belong to block pointers); use `mask`")


def _cache(name: Any, allowed: tuple[str, ...], what: str) -> Cache:
    text = known(name, "cache_modifier")
    if text is None or text == "":
        return Cache.NONE
    bare = text[1:] if isinstance(text, str) and text.startswith(".") else text
    if bare not in allowed:
        shown = ", ".join(repr("." + a) for a in allowed)
        raise LanguageValueError(f"Cache modifier {text!r} not supported by tl.{what}; allowed are '' and {shown}")
    return Cache(bare)


def _eviction(name: Any) -> Eviction:
    text = known(name, "eviction_policy")
    if text is None:
        return Eviction.NORMAL
    if text not in _EVICTIONS:
        raise LanguageValueError(f"Eviction policy {text!r} not supported; allowed are "
                                 f"{', '.join(repr(e) for e in _EVICTIONS)}")
    return _EVICTIONS[text]
