"""Along which dimensions a tile of addresses is regular: affine, so that its ends are at the first and last index.

`regular(kernel, pointer)` gives the dimensions of a tile along which every address is a constant distance from the
one before, the distance being the same along the whole dimension (it may differ between rows); so whoever looks for
the extremes of the addresses looks at two indices of such a dimension.  Distances are bounded statically, so that no
multiple of one leaves 64 bits.  Tests: tests/targets/cpu/test_regular.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1, I32, I64, Pointer, Scalar, element_of, shape_of
from tilewright.targets.cpu.lanes import Lane
from tilewright.targets.cpu.state import Kernel, Virtual

_MOST_BITS = 62
_SAME = ("hint", "bitcast", "ext_s")

# For each dimension the bits of the step between neighbours: 0 if they are equal, None if there is no such step.
Steps = tuple[int | None, ...]


def regular(kernel: Kernel, pointer: Value) -> frozenset[int]:
    """The dimensions along which `pointer`, a tile, is regular."""
    return frozenset(d for d, bits in enumerate(_Steps(kernel).of(pointer))
                     if bits is not None and bits + shape_of(pointer.type)[d].bit_length() <= _MOST_BITS)


def constant_along(kernel: Kernel, value: Value) -> frozenset[int]:
    """The dimensions along which all elements of a tile are equal."""
    return frozenset(d for d, bits in enumerate(_Steps(kernel).of(value)) if bits == 0)


class _Steps:
    """Steps of tiles, found once each."""

    def __init__(self, kernel: Kernel, through: frozenset[Value] = frozenset()) -> None:
        self._kernel = kernel
        self._bindings = kernel.bindings
        self._through = through         # int32 values that do not wrap
        self._known: dict[Value, Steps] = {}

    def of(self, value: Value) -> Steps:
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: Value) -> Steps:
        shape, binding = shape_of(value.type), self._bindings[value]
        if isinstance(binding, Virtual):
            found = self._of_op(binding.op, len(shape))
        else:
            found = (None,) * len(shape)
        element = element_of(value.type)
        if isinstance(element, Scalar) and element != I64 and value not in self._through:
            # what moves little either does not wrap or leaves its argument, at an end too (`Evaluator.offset`)
            most = element.bits - 4 if element == I32 else 0
            found = tuple(bits if not bits or bits + size.bit_length() <= most else None
                          for size, bits in zip(shape, found, strict=True))
        return tuple(0 if size == 1 else bits for size, bits in zip(shape, found, strict=True))

    def _of_op(self, op: Op, rank: int) -> Steps:
        name = op.name
        if name == "splat":
            return (0,) * rank
        if name == "iota":
            return (1,)
        if name == "broadcast" or (name in _SAME and not _of_flags(op)):
            inner = self.of(op.operands[0])
            return inner if name != "ext_s" or op.operands[0] in self._through else _where_equal([inner], rank)
        if name == "expand_dims":
            inner, axis = self.of(op.operands[0]), op.attrs["axis"]
            return (*inner[:axis], 0, *inner[axis:])
        if name == "permute":
            inner = self.of(op.operands[0])
            return tuple(inner[d] for d in op.attrs["order"])
        if name in ("add", "sub", "ptr_add") and not _of_flags(op):
            return self._sum(op)
        if name == "mul" and not _of_flags(op):
            return self._product(op)
        if name == "load" or op.row.elementwise:        # equal where all operands are
            return _where_equal([self.of(v) for v in op.operands], rank)
        return (None,) * rank

    def _sum(self, op: Op) -> Steps:
        if op.name == "ptr_add":
            a = self.of(op.operands[0])
            b = _Steps(self._kernel, self._kernel.offsets.through(op.operands[1])).of(op.operands[1])
            pointer = element_of(op.operands[0].type)
            assert isinstance(pointer, Pointer)
            b = tuple(n if not n else n + pointer.element.bytes.bit_length() for n in b)
        else:
            a, b = (self.of(v) for v in op.operands)
        return tuple(None if x is None or y is None else max(x, y) + 1 if x and y else x + y
                     for x, y in zip(a, b, strict=True))

    def _product(self, op: Op) -> Steps:
        """A number times steps; the number may be another one in each row that lies across them."""
        (a, b), (x, y) = (self.of(v) for v in op.operands), op.operands
        return tuple(_scaled(m, n, self._bits(y)) if n == 0 else _scaled(n, m, self._bits(x))
                     for m, n in zip(a, b, strict=True))

    def _bits(self, value: Value) -> int:
        """|value| <= 2**bits."""
        binding = self._bindings[value]
        if isinstance(binding, Lane) and binding.known is not None:
            return max(1, abs(binding.known).bit_length())
        if isinstance(binding, Virtual) and binding.op.name in ("splat", "broadcast", "expand_dims", "ext_s", "hint"):
            inner = binding.op.operands[0]
            return self._bits(inner) if element_of(inner.type) != I1 else 1
        return element_of(value.type).bits - 1


def _of_flags(op: Op) -> bool:
    element = element_of(op.operands[0].type)
    return isinstance(element, Scalar) and (element == I1 or element.is_float)


def _scaled(steps: int | None, other: int | None, bits: int) -> int | None:
    """Steps times a number of so many bits, if `other`, the number's own steps, are none."""
    if other != 0 or steps is None:
        return None
    return steps + bits if steps else 0


def _where_equal(operands: Sequence[Steps], rank: int) -> Steps:
    return tuple(0 if all(steps[d] == 0 for steps in operands if len(steps) == rank) else None for d in range(rank))
