"""Tensor descriptors: a strided array and the shape of the blocks that are read and written in it (semantics §5).

`tl.make_tensor_descriptor` makes one in a kernel; a `TensorDescriptor` among a launch's arguments arrives as one.
Loads fill with zero (or NaN) outside of the array, stores and atomics leave out what lies there.  Offsets may be of 64
bits, and blocks of any size.  Tests: tests/lang/test_blocks.py, tests/lang/test_values_blocks.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import atomics, blocks, memory_ops
from tilewright.language.block_pointers import padding
from tilewright.language.builder import Builder
from tilewright.language.builtin import Builtin, builtin, give_methods
from tilewright.language.casting import cast
from tilewright.language.constexpr import constexpr, unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.structures import structure
from tilewright.language.tensor import tensor
from tilewright.language.tuples import tuple as language_tuple
from tilewright.language.types import Scalar, block_type, dtype, int32, int64, pointer_type
from tilewright.language.values import describe, emit, known, shape, to_tensor

_MOST_DIMENSIONS = 5


class tensor_descriptor(structure):
    """Parts: base, shape, strides (integers), block shape, padding option."""

    # a tensor that is out of bounds, say, is known to who launched by the name of the argument
    part_names = ("", ".shape", ".strides", ".block_shape", ".padding")

    @property
    def base(self) -> tensor:
        return self[0]  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Scalar:
        """The type of an element."""
        pointer = self.base.dtype
        assert isinstance(pointer, pointer_type)
        return pointer.element_ty

    @property
    def shape(self) -> Any:
        """The array's sizes, as int32."""
        return language_tuple(self._number(v, int32) for v in self[1])

    @property
    def strides(self) -> Any:
        """The array's strides in elements, as int64."""
        return language_tuple(self._number(v, int64) for v in self[2])

    def _number(self, value: Any, kind: Scalar) -> tensor:
        return cast(self.base.builder, to_tensor(self.base.builder, value), kind)

    @property
    def block_shape(self) -> Any:
        """The sizes of a block, as constexprs."""
        return self[3]

    @property
    def block_type(self) -> block_type:
        return block_type(self.dtype, tuple(unwrap(s) for s in self[3]))

    @property
    def type(self) -> Any:
        return self.block_type

    def access(self, builder: Builder, offsets: Any, what: str) -> tuple[tensor, tensor | None]:
        """The pointers of the block at `offsets`, and the mask of those inside the array."""
        places = blocks.items(offsets, f"offsets of {what}")
        if len(places) != len(self[1]):
            raise LanguageValueError(f"{what} of a descriptor with {len(self[1])} dimensions needs as many offsets, "
                                     f"but got {len(places)}")
        pointers, mask = blocks.block_access(builder, self.base, [
            blocks.Dimension(place, unwrap(self[3][d]), self[2][d], self[1][d]) for d, place in enumerate(places)])
        numbers = [blocks.wide(builder, number, "a number") for number in (*places, *self[1], *self[2])]
        return emit(builder, "box", (pointers, self.base, *numbers), pointers.type), mask

    def rows(self, builder: Builder, x_offsets: Any, y_offset: Any, what: str) -> tuple[tensor, tensor | None]:
        """The same for the rows `x_offsets`, from column `y_offset` on."""
        rows = unwrap(x_offsets)
        sizes = [unwrap(s) for s in self[3]]
        if len(sizes) != 2 or sizes[0] != 1:
            raise LanguageValueError(f"{what} needs a descriptor of blocks of one row, (1, n), but its blocks are "
                                     f"{tuple(sizes)}")
        if not isinstance(rows, tensor) or len(shape(rows)) != 1 or not (
                isinstance(rows.dtype, dtype) and rows.dtype.is_int()):
            raise LanguageTypeError(f"x_offsets of {what} must be a tile of row numbers, not {describe(x_offsets)}")
        return blocks.block_access(builder, self.base, [
            blocks.Dimension(0, shape(rows)[0], self[2][0], self[1][0], chosen=rows),
            blocks.Dimension(y_offset, sizes[1], self[2][1], self[1][1])])


@builtin
def make_tensor_descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero", *,
                           _builder: Builder) -> tensor_descriptor:
    """A descriptor of the array of sizes `shape` at `base`, whose blocks have the shape `block_shape`.

    `strides` counts elements between neighbours; the last must be 1, known at compile time.  One to five dimensions.
    `padding_option` ("zero" or, for floats, "nan") says what a load gives outside of the array.  A
    `triton.tools.tensor_descriptor.TensorDescriptor` among the arguments of a launch arrives as one.  The descriptor
    has `shape`, `strides`, `block_shape`, `dtype`, and the methods `load(offsets)`, `store(offsets, value)`,
    `gather(x_offsets, y_offset)`, `scatter(value, x_offsets, y_offset)` and `atomic_add`, `atomic_max`, `atomic_min`,
    `atomic_and`, `atomic_or`, `atomic_xor` `(offsets, value)`.
    """
    what = "tl.make_tensor_descriptor"
    pointer = blocks.scalar_base(base, what)
    sizes, steps = blocks.items(shape, f"shape of {what}"), blocks.items(strides, f"strides of {what}")
    rank = len(sizes)
    if not 1 <= rank <= _MOST_DIMENSIONS:
        raise LanguageValueError(f"{what} describes 1 to {_MOST_DIMENSIONS} dimensions, not {rank}")
    if len(steps) != rank:
        raise LanguageValueError(f"Expected {rank} strides but got {len(steps)}: {what} needs as many as sizes")
    if isinstance(unwrap(steps[-1]), tensor) or unwrap(steps[-1]) != 1:
        raise LanguageValueError(f"Tensor descriptor last dim must be 1 but got {describe(steps[-1])}: the last stride "
                                 "of a descriptor is the literal 1")
    block = blocks.known_block_shape(block_shape, rank, f"block_shape of {what}")
    option = known(padding_option, "padding_option")
    padding(option, _element(pointer))
    for value in (*sizes, *steps):
        blocks.wide(_builder, value, f"an element of shape or strides of {what}")
    return tensor_descriptor((pointer, language_tuple(map(blocks.part, sizes)), language_tuple(map(blocks.part, steps)),
                              language_tuple(map(constexpr, block)), constexpr(option)))


def _element(pointer: tensor) -> Scalar:
    assert isinstance(pointer.dtype, pointer_type)
    return pointer.dtype.element_ty


def _descriptor(desc: Any, what: str) -> tensor_descriptor:
    value = unwrap(desc)
    if not isinstance(value, tensor_descriptor):
        raise LanguageTypeError(f"{what} takes a tensor descriptor (tl.make_tensor_descriptor), not {describe(desc)}")
    return value


def _value_of_block(builder: Builder, value: Any, sizes: tuple[int, ...], what: str) -> tensor:
    x = to_tensor(builder, value)
    if shape(x) != sizes:
        raise LanguageValueError(f"value of {what} must have the shape {list(sizes)} of the block, but it is {x}")
    return x


def _load(builder: Builder, desc: tensor_descriptor, where: tuple[tensor, tensor | None], cache: Any,
          eviction: Any) -> tensor:
    pointers, mask = where
    fill = padding(desc[4], desc.dtype)
    return memory_ops.load_tile(builder, pointers, mask, fill, True, cache, eviction)


@builtin
def load_tensor_descriptor(desc: Any, offsets: Any, cache_modifier: Any = "", eviction_policy: Any = "", *,
                           _builder: Builder) -> tensor:
    """The block of the array `desc` at `offsets`, one integer a dimension; its padding outside of the array."""
    array = _descriptor(desc, "tl.load_tensor_descriptor")
    return _load(_builder, array, array.access(_builder, offsets, "load"), cache_modifier, eviction_policy)


@builtin
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any, *, _builder: Builder) -> None:
    """Write `value`, converted to the element type, at `offsets`; nothing outside of the array.

    Refused: a value of another shape than the block's.
    """
    array = _descriptor(desc, "tl.store_tensor_descriptor")
    x = _value_of_block(_builder, value, array.block_type.shape, "store")
    pointers, mask = array.access(_builder, offsets, "store")
    memory_ops.store.call(_builder, (pointers, x, mask))


@builtin
def _gather(desc: Any, x_offsets: Any, y_offset: Any, *, _builder: Builder) -> tensor:
    """The rows `x_offsets` of the array, from column `y_offset` on: a tile of as many rows as wide as the block."""
    array = _descriptor(desc, "gather")
    return _load(_builder, array, array.rows(_builder, x_offsets, y_offset, "gather"), "", "")


@builtin
def _scatter(desc: Any, value: Any, x_offsets: Any, y_offset: Any, *, _builder: Builder) -> None:
    """Write the rows of `value` to the rows `x_offsets` of the array, from column `y_offset` on."""
    array = _descriptor(desc, "scatter")
    pointers, mask = array.rows(_builder, x_offsets, y_offset, "scatter")
    x = _value_of_block(_builder, value, shape(pointers), "scatter")
    memory_ops.store.call(_builder, (pointers, x, mask))


def _atomic(name: str) -> Builtin:
    """`atomic_<name>` on a block: its old elements are not given."""
    function: Builtin = getattr(atomics, f"atomic_{name}")

    def meaning(desc: Any, offsets: Any, value: Any, *, _builder: Builder) -> None:
        array = _descriptor(desc, f"atomic_{name}")
        x = _value_of_block(_builder, value, array.block_type.shape, f"atomic_{name}")
        pointers, mask = array.access(_builder, offsets, f"atomic_{name}")
        function.call(_builder, (pointers, x, mask))

    meaning.__name__ = meaning.__qualname__ = f"atomic_{name}"
    meaning.__doc__ = f"`tl.atomic_{name}` of the block at `offsets` with `value`, element by element."
    return Builtin(meaning)


give_methods(tensor_descriptor, {
    "load": load_tensor_descriptor, "store": store_tensor_descriptor, "gather": _gather, "scatter": _scatter,
    **{f"atomic_{name}": _atomic(name) for name in ("add", "max", "min", "and", "or", "xor")},
})
