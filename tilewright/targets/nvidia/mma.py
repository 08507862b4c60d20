"""Which tensor-core instruction multiplies two tiles: mma.sync by types, precision and capability.

A fragment of an operand spans 8 * `width` elements along k: four lanes with `width` neighbours each, twice.  An
instruction takes `per_word` of them for each 32-bit register, so a fragment feeds `width // per_word` instructions; a
dot sums over k in any order, as long as both operands take the same.
Sources: PTX ISA 9.7.14.5, "mma.m16n8k*" (types and capabilities); the accumulator of fp8 on capability 9.0 keeps too
few bits for the row's bound, so fp8 is widened to f16 there, which is exact.
Tests: tests/targets/nvidia/test_matrix.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op
from tilewright.ir.ops.attributes import Precision
from tilewright.ir.types import BF16, F16, F32, F64, I8, Scalar, element_of, shape_of
from tilewright.layout import Layout, padded_shape
from tilewright.layout.mma import accumulator, operand
from tilewright.targets.nvidia.capability import Capability

ROWS, COLUMNS = 16, 8       # of an accumulator's fragment


@dataclass(frozen=True, slots=True)
class Mma:
    """One choice.

    `parts` is how many terms an operand is split into, and `products` which pairs are multiplied, the smallest first.
    Term number `parts` is the first one again, or 0 where the element is not finite: an infinity times what is left of
    the other operand, 0, would be a NaN.
    """

    shape: str              # m16n8k16
    operand: str            # PTX type of A and B
    result: str             # PTX type of C and D
    element: Scalar         # what the operands' elements are converted to
    width: int
    per_word: int
    rows: int = ROWS        # of one instruction
    parts: int = 1
    products: tuple[tuple[int, int], ...] = ((0, 0),)

    @property
    def span(self) -> int:
        """Elements along k of a fragment."""
        return 8 * self.width


_SPLIT = {
    Precision.TF32X3: ((1, 2), (2, 1), (0, 0)),
    Precision.BF16X3: ((1, 2), (2, 1), (0, 0)),
    Precision.BF16X6: ((2, 3), (1, 1), (3, 2), (1, 3), (3, 1), (0, 0)),
}


def choose(op: Op, capability: Capability) -> Mma | None:
    """The instruction for a `dot`; None if it is left to multiply-adds."""
    a, b, acc = (v.type for v in op.operands)
    element, other = element_of(a), element_of(b)
    rows, columns = padded_shape(shape_of(acc))[-2:]
    depth = shape_of(a)[-1]
    if rows < ROWS or columns < COLUMNS or depth & depth - 1:
        return None         # what lies past K would be multiplied, and need not be zero
    found = _by_type(element, other, op.attrs["precision"], depth, capability)
    return found if found is not None and depth % found.span == 0 else None


def _by_type(element: object, other: object, precision: Precision, depth: int, capability: Capability) -> Mma | None:
    if element in (F16, BF16):
        assert isinstance(element, Scalar)
        return Mma("m16n8k16", str(element), "f32", element, 2, 2)
    if element == I8:
        return Mma("m16n8k32", "s8", "s32", I8, 4, 4)
    if element == F64:
        return Mma("m8n8k4", "f64", "f64", F64, 1, 1, rows=8)
    if element == F32:
        return _by_precision(precision)
    if isinstance(element, Scalar) and isinstance(other, Scalar) and element.bits == other.bits == 8:
        return Mma("m16n8k16", "f16", "f32", F16, 4 if depth % 32 == 0 else 2, 2)
    return None


def _by_precision(precision: Precision) -> Mma | None:
    if precision is Precision.TF32:
        return Mma("m16n8k8", "tf32", "f32", F32, 1, 1)
    if precision is Precision.TF32X3:
        return Mma("m16n8k8", "tf32", "f32", F32, 1, 1, parts=2, products=_SPLIT[precision])
    if precision in (Precision.BF16X3, Precision.BF16X6):
        parts = 2 if precision is Precision.BF16X3 else 3
        return Mma("m16n8k16", "bf16", "f32", F32, 2, 2, parts=parts, products=_SPLIT[precision])
    return None


def of(op: Op, capability: Capability, num_warps: int) -> tuple[Mma, tuple[int, int]] | None:
    """The instruction and the warp grid of a dot that has layouts; None if tensor cores do not make it."""
    mma, warps = choose(op, capability), warps_of(layout_of(op.result), num_warps)
    return None if mma is None or warps is None else (mma, warps)


def warp_grid(rows: int, columns: int, warps: int, along_rows: bool) -> tuple[int, int]:
    """How many warps lie along m and along n.

    The fewest rows and columns a warp, since that is what it reads of the operands; with `along_rows` as many warps
    along m as there are fragments, so that a product's rows stay in a warp (they become the operand of another dot).
    """
    most_rows, most_columns = max(1, rows // ROWS), max(1, columns // COLUMNS)
    if along_rows:
        m = min(warps, most_rows)
        return m, warps // m
    splits = [(1 << i, warps >> i) for i in range(warps.bit_length())]

    def cost(split: tuple[int, int]) -> tuple[int, float, int]:
        m, n = split
        idle = max(1, m // most_rows) * max(1, n // most_columns)
        return idle, rows / min(m, most_rows) + columns / min(n, most_columns), n

    return min(splits, key=cost)


def accumulator_layout(op: Op, warps: tuple[int, int]) -> Layout:
    """The layout of a dot's accumulator and result."""
    return accumulator(padded_shape(shape_of(op.operands[2].type)), warps)


def warps_of(layout: Layout, warps: int) -> tuple[int, int] | None:
    """The warp grid of an accumulator's layout; None if it is no such layout."""
    for i in range(warps.bit_length()):
        grid = 1 << i, warps >> i
        if prod(grid) == warps and accumulator(layout.shape, grid) == layout:
            return grid
    return None


def operand_layout(which: str, op: Op, mma: Mma, warps: tuple[int, int]) -> Layout:
    """The layout of the fragments of operand "A" or "B"."""
    value = op.operands["AB".index(which)]
    return operand(which, padded_shape(shape_of(value.type)), mma.width, warps)
