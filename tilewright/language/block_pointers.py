"""Block pointers (tl.make_block_ptr, tl.advance), with the meaning of triton 3.6 (semantics §5).

A block pointer is a place in a strided array and the shape of the block that lies there; `tl.load` and `tl.store` take
it with `boundary_check` and `padding_option`.  Places outside of a checked dimension are read as zero (or NaN) and not
written.  Offsets may be of 64 bits.  Tests: tests/lang/test_blocks.py, tests/lang/test_values_blocks.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import blocks
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, give_methods
from tilewright.language.casting import bitcast
from tilewright.language.constexpr import constexpr, unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.structures import structure
from tilewright.language.tensor import tensor
from tilewright.language.tuples import tuple as language_tuple
from tilewright.language.types import Scalar, block_type, int1, int8, pointer_type
from tilewright.language.values import describe, known, known_ints


class block_pointer(structure):
    """Parts: base, shape, strides, offsets (int64 scalars), block shape."""

    @property
    def base(self) -> tensor:
        return self[0]  # type: ignore[no-any-return]

    @property
    def block_shape(self) -> list[int]:
        return [unwrap(s) for s in self[4]]

    @property
    def element(self) -> Scalar:
        """The type of an element of the block."""
        pointer = self.base.dtype
        assert isinstance(pointer, pointer_type)
        return pointer.element_ty

    @property
    def type(self) -> Any:
        return pointer_type(self.element)

    @property
    def dtype(self) -> pointer_type:
        """The type of a pointer to an element: `x.to(p.dtype.element_ty)` makes what can be stored there."""
        return pointer_type(self.element)

    @property
    def block_type(self) -> block_type:
        """The type of the block that a load gives."""
        return block_type(self.element, tuple(self.block_shape))

    def access(self, builder: Builder, checked: list[int]) -> tuple[tensor, tensor | None]:
        """The pointers of the block, and the mask of those inside the array along the `checked` dimensions."""
        _, sizes, strides, offsets, block = self
        return blocks.block_access(builder, self.base, [
            blocks.Dimension(offset, unwrap(block[d]), strides[d], sizes[d] if d in checked else None)
            for d, offset in enumerate(offsets)])


@builtin
def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any, *,
                   _builder: Builder) -> block_pointer:
    """A pointer to the block of `block_shape` that begins at `offsets` in the array at `base`.

    The array has the sizes `shape`, and `strides` elements between neighbours along each dimension; these three are
    integers, known or not, as many each as the block has sizes.  `order` says in which order the dimensions lie in
    memory; it must be a permutation, and is a hint.  `tl.load` and `tl.store` take it; triton 3.9 has it no more.
    """
    what = "tl.make_block_ptr"
    pointer = blocks.scalar_base(base, what)
    parts = {"shape": shape, "strides": strides, "offsets": offsets}
    given = {name: blocks.items(value, f"{name} of {what}") for name, value in parts.items()}
    rank = len(given["shape"])
    for name, values in given.items():
        if len(values) != rank or not rank:
            raise LanguageValueError(f"shape, strides and offsets of {what} must have one length, at least 1, but "
                                     f"{name} has {len(values)} and shape has {rank}")
    sizes = blocks.known_block_shape(block_shape, rank, f"block_shape of {what}")
    axes = list(known_ints(known(order, f"order of {what}"), f"order of {what}"))
    if sorted(axes) != list(range(rank)):
        raise LanguageValueError(f"order of {what} must be a permutation of 0..{rank - 1}, but it is {axes}")
    assert isinstance(pointer.dtype, pointer_type)
    if pointer.dtype.element_ty == int1:
        pointer = bitcast(_builder, pointer, pointer_type(int8, const=pointer.dtype.const))
    for name in ("shape", "strides"):
        for value in given[name]:
            blocks.wide(_builder, value, f"an element of {name} of {what}")
    places = [blocks.wide(_builder, v, f"an element of offsets of {what}") for v in given["offsets"]]
    return block_pointer((pointer, language_tuple(map(blocks.part, given["shape"])),
                          language_tuple(map(blocks.part, given["strides"])), language_tuple(places),
                          language_tuple(map(constexpr, sizes))))


@builtin
def advance(base: Any, offsets: Any, *, _builder: Builder) -> block_pointer:
    """The block pointer `base` moved by `offsets` elements along each dimension; `base` itself stays where it is."""
    block = unwrap(base)
    if not isinstance(block, block_pointer):
        raise LanguageTypeError(f"tl.advance moves a block pointer (tl.make_block_ptr), not {describe(base)}; a "
                                "pointer moves by adding an offset")
    array, sizes, strides, places, shape = block
    steps = blocks.items(offsets, "offsets of tl.advance")
    if len(steps) != len(places):
        raise LanguageValueError(f"tl.advance of a block pointer with {len(places)} dimensions needs as many offsets, "
                                 f"but got {len(steps)}")
    moved = [place + blocks.wide(_builder, step, "an element of offsets of tl.advance")
             for place, step in zip(places, steps, strict=True)]
    return block_pointer((array, sizes, strides, language_tuple(moved), shape))


give_methods(block_pointer, {"advance": advance})


def checked_dimensions(boundary_check: Any, block: block_pointer) -> list[int]:
    """The dimensions that `boundary_check` names."""
    plain = unwrap(boundary_check)
    if plain is None or (isinstance(plain, tuple) and not plain):
        return []
    dims = list(known_ints(plain, "boundary_check"))
    rank = len(block.block_shape)
    if any(not 0 <= d < rank for d in dims) or len(set(dims)) != len(dims):
        raise LanguageValueError(f"boundary_check must name dimensions in 0..{rank - 1}, each once, but it is {dims}")
    return dims


def padding(option: Any, element: Scalar) -> float | None:
    """What stands in place of elements outside: None for zero, or NaN."""
    text = known(option, "padding_option")
    if text in (None, "", "zero"):
        return None
    if text != "nan":
        raise LanguageValueError(f"Padding option {text!r} not supported; allowed are '', 'zero' and 'nan'")
    if isinstance(element, pointer_type) or not element.is_floating():
        raise LanguageValueError(f"Padding option `nan` is not supported for integer blocks: these hold {element}")
    return float("nan")
