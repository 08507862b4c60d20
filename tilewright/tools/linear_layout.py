"""`LinearLayout`: linear maps over GF(2) between named dimensions, as programs build them to look at layouts.

    layout = LinearLayout.from_bases([("register", [[1, 0], [0, 1]]), ("lane", [[2, 0], [0, 2]])], ["row", "column"])
    layout.apply({"register": 3, "lane": 2})        # {"row": 1, "column": 3}

Each bit of an input has an image, a coordinate in every output dimension; images of bits are added by exclusive or.
Sizes are powers of two.  It is triton's class of that name; layouts of Tilewright's own IR, which map to one index of a
tile, are `tilewright.layout.Layout`.  Wrong uses are a ValueError.  Tests: tests/compat/test_linear_layout.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tilewright.layout import f2
from tilewright.layout.linear import log2

Image = tuple[int, ...]


@dataclass(frozen=True)
class LinearLayout:
    """`inputs`: each input's name and the images of its bits, lowest first; `outputs`: each output's name and size."""

    inputs: tuple[tuple[str, tuple[Image, ...]], ...] = ()
    outputs: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for name, images in self.inputs:
            for image in images:
                if len(image) != len(self.outputs) or any(
                        not 0 <= c < size for c, (_, size) in zip(image, self.outputs, strict=True)):
                    raise ValueError(f"{name}: {list(image)} is no place in outputs of {self.out_dims}")
        for _, size in self.outputs:
            log2(size)

    # -- making ------------------------------------------------------------------------------------------------------

    @staticmethod
    def from_bases(bases: Sequence[tuple[str, Sequence[Sequence[int]]]], out_dim_names: Sequence[str],
                   out_dim_sizes: Sequence[int] | None = None, require_surjective: bool = True) -> LinearLayout:
        """The layout of these images; sizes that are not given are the least that hold all images."""
        inputs = tuple((name, tuple(tuple(map(int, image)) for image in images)) for name, images in bases)
        if out_dim_sizes is None:
            places = [image for _, images in inputs for image in images]
            out_dim_sizes = [1 << max((p[d].bit_length() for p in places if d < len(p)), default=0)
                             for d in range(len(out_dim_names))]
        made = LinearLayout(inputs, tuple(zip(out_dim_names, map(int, out_dim_sizes), strict=True)))
        if require_surjective and not made.is_surjective():
            raise ValueError(f"some places of {made.out_dims} have no input that leads there; say "
                             "require_surjective=False if that is meant")
        return made

    @staticmethod
    def identity_1d(size: int, inDim: str, outDim: str) -> LinearLayout:  # noqa: N803 (as in triton)
        """Input x leads to x."""
        return LinearLayout.strided_1d(size, 1, inDim, outDim)

    @staticmethod
    def strided_1d(size: int, stride: int, inDim: str, outDim: str) -> LinearLayout:  # noqa: N803
        """Input x leads to x * stride; both are powers of two."""
        images = tuple((stride << bit,) for bit in range(log2(size)))
        return LinearLayout(((inDim, images),), ((outDim, size * (1 << log2(stride))),))

    @staticmethod
    def zeros_1d(size: int, inDim: str, outDim: str, outDimSize: int = 1) -> LinearLayout:  # noqa: N803
        """Every input leads to 0."""
        return LinearLayout(((inDim, ((0,),) * log2(size)),), ((outDim, outDimSize),))

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def bases(self) -> list[tuple[str, list[list[int]]]]:
        return [(name, [list(image) for image in images]) for name, images in self.inputs]

    @property
    def out_dims(self) -> list[tuple[str, int]]:
        return list(self.outputs)

    @property
    def num_in_dims(self) -> int:
        return len(self.inputs)

    @property
    def num_out_dims(self) -> int:
        return len(self.outputs)

    def get_in_dim_names(self) -> list[str]:
        return [name for name, _ in self.inputs]

    def get_out_dim_names(self) -> list[str]:
        return [name for name, _ in self.outputs]

    def apply(self, inputs: Mapping[str, int]) -> dict[str, int]:
        """Where a place leads; all inputs are named."""
        if set(inputs) != set(self.get_in_dim_names()):
            raise ValueError(f"the inputs are {', '.join(self.get_in_dim_names())}, not {', '.join(inputs) or 'none'}")
        column, index = 0, 0
        for name, images in self.inputs:
            index |= (inputs[name] & (1 << len(images)) - 1) << column
            column += len(images)
        return dict(zip(self.get_out_dim_names(), self._place(f2.apply(self._columns(), index)), strict=True))

    def get_matrix_view(self) -> list[list[int]]:
        """The matrix: a row for each bit of the outputs, a column for each bit of the inputs, lowest first."""
        columns = self._columns()
        return [[column >> row & 1 for column in columns] for row in range(self._bits())]

    def get_shared_view(self, useHWPointOfView: bool) -> NoReturn:  # noqa: N803
        """Refused: triton draws a picture in text."""
        raise NotImplementedError("pictures of layouts are not drawn; str(layout) lists the images")

    get_distributed_view = get_shared_view

    def is_surjective(self) -> bool:
        """Whether every place of the outputs is reached."""
        return f2.rank(self._columns()) == self._bits()

    def is_injective(self) -> bool:
        """Whether no two inputs lead to one place."""
        return f2.rank(self._columns()) == len(self._columns())

    def is_invertible(self) -> bool:
        return self.is_surjective() and self.is_injective()

    # -- calculating -------------------------------------------------------------------------------------------------

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """Both side by side: bits of `other` follow those of this one, in the inputs and in the outputs of a name."""
        mine, sizes = dict(self.outputs), dict(self.outputs)
        for name, size in other.outputs:
            sizes[name] = sizes.get(name, 1) * size
        found: dict[str, list[Image]] = {name: [] for name, _ in (*self.inputs, *other.inputs)}
        for layout, shift in ((self, {}), (other, mine)):
            names = layout.get_out_dim_names()
            for name, images in layout.inputs:
                for image in images:
                    at = dict(zip(names, image, strict=True))
                    found[name].append(tuple(at.get(d, 0) * shift.get(d, 1) for d in sizes))
        return LinearLayout(tuple((name, tuple(images)) for name, images in found.items()), tuple(sizes.items()))

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """This one first, and then `outer`, whose inputs are this one's outputs."""
        if dict(self.outputs) != {n: 1 << len(images) for n, images in outer.inputs}:
            raise ValueError(f"the outputs {self.out_dims} of the first layout are not the inputs of the second, "
                             f"{[(n, 1 << len(images)) for n, images in outer.inputs]}")
        names = self.get_out_dim_names()
        return self._mapped(lambda image: tuple(outer.apply(dict(zip(names, image, strict=True))).values()),
                            outer.outputs)

    def invert(self) -> LinearLayout:
        """From the outputs back to the inputs; ValueError unless the layout is invertible."""
        if not self.is_invertible():
            raise ValueError("the layout is not invertible: some place is reached by no input, or by several")
        return self.pseudoinvert()

    def pseudoinvert(self) -> LinearLayout:
        """From each output to one input that leads there, where there is one; ValueError unless surjective."""
        if not self.is_surjective():
            raise ValueError("some places of the outputs are reached by no input")
        units = [[1 << bit if d == k else 0 for k in range(self.num_out_dims)]
                 for d, (_, size) in enumerate(self.outputs) for bit in range(log2(size))]
        back = iter([self._input_of(unit) for unit in units])
        return LinearLayout(tuple((name, tuple(next(back) for _ in range(log2(size)))) for name, size in self.outputs),
                            tuple((name, 1 << len(images)) for name, images in self.inputs))

    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout:
        """The layout from this one's inputs to those of `outer` that lead to the same places."""
        if dict(self.outputs) != dict(outer.outputs):
            raise ValueError(f"the layouts have other outputs: {self.out_dims} and {outer.out_dims}")
        order = [self.get_out_dim_names().index(name) for name in outer.get_out_dim_names()]
        return self._mapped(lambda image: outer._input_of([image[d] for d in order]),
                            tuple((name, 1 << len(images)) for name, images in outer.inputs))

    def __str__(self) -> str:
        inputs = "; ".join(f"{name}: {' '.join(map(str, images)) or 'one value'}" for name, images in self.inputs)
        return f"LinearLayout({inputs} -> {', '.join(f'{name} {size}' for name, size in self.outputs)})"

    __repr__ = __str__

    # -- as columns of bits ------------------------------------------------------------------------------------------

    def _bits(self) -> int:
        return sum(log2(size) for _, size in self.outputs)

    def _packed(self, place: Sequence[int]) -> int:
        packed, at = 0, 0
        for coordinate, (_, size) in zip(place, self.outputs, strict=True):
            packed |= coordinate << at
            at += log2(size)
        return packed

    def _place(self, packed: int) -> Image:
        place = []
        for _, size in self.outputs:
            place.append(packed & size - 1)
            packed >>= log2(size)
        return tuple(place)

    def _columns(self) -> list[int]:
        return [self._packed(image) for _, images in self.inputs for image in images]

    def _input_of(self, place: Sequence[int]) -> Image:
        """An input that leads to `place`."""
        columns = self._columns()
        _, chosen = f2.independent(columns)
        back = f2.linear_map([columns[i] for i in chosen], [1 << i for i in chosen], self._bits())
        assert back is not None     # what is independent can be taken anywhere
        index = f2.apply(back, self._packed(place))
        if f2.apply(columns, index) != self._packed(place):
            raise ValueError(f"{list(place)} is reached by no input")
        found = []
        for _, images in self.inputs:
            found.append(index & (1 << len(images)) - 1)
            index >>= len(images)
        return tuple(found)

    def _mapped(self, change: Callable[[Image], Image], outputs: tuple[tuple[str, int], ...]) -> LinearLayout:
        return LinearLayout(tuple((name, tuple(map(change, images))) for name, images in self.inputs), outputs)
