"""How a matrix product is computed on a machine: the types that its operands are brought into, and the instruction.

Most products multiply and add element by element, in the type in which sums are kept.  Where a machine has an
instruction that sums a group of neighbouring narrow products in each lane, the right operand is packed so that the
group lies side by side, and the left one is read as it is, a group at once.  (Bytes are widened to words for that where
only words can be multiplied so: half as many instructions as with 32 bits.)  Where an instruction multiplies whole
tiles (AMX), the operands lie in memory in just that way (`tiled`).
Tests: tests/targets/cpu/test_dot.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.node import Op
from tilewright.ir.types import BF16, F32, I8, I16, I32, Element, Scalar, element_of, shape_of
from tilewright.targets.llvm import amx, convert
from tilewright.targets.llvm.amx import Shape
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import I32 as LLVM_I32
from tilewright.targets.llvm.types import Type, Value, constant

GROUPED_LANES = 16     # of the grouping instructions, which work on whole registers of 512 bits


@dataclass(frozen=True, slots=True)
class Scheme:
    """Element types in memory of the left and the right operand and of the sums; `group` products are summed at once.

    `bias` is added to every left element to make it positive: -bias times the sum of a right column has to be
    added to the result.  `tiles`: the shape of the tiles that one instruction multiplies, if it is that kind.
    """

    left: Scalar
    right: Scalar
    total: Scalar
    group: int = 1
    bias: int = 0
    tiles: Shape | None = None

    @property
    def left_step(self) -> Type:
        """What is read of the left operand for a row: one element, or a group as one number."""
        return convert.register_type(self.left) if self.group == 1 else LLVM_I32

    def right_vector(self, lanes: int) -> Type:
        """A vector of columns of the right operand."""
        return convert.register_type(self.right, lanes if lanes > 1 else 0) if self.group == 1 else (
            LLVM_I32._replace(lanes=lanes))

    def step(self, code: FunctionWriter, spread: Value, right: Value, total: Value) -> Value:
        """`total` + the products of a left step, which is in all lanes, and a vector of columns."""
        if self.group == 1:
            if total.type.is_float:
                return code.fma(spread, right, total)
            return code.op("add", code.op("mul", spread, right), total)
        if self.right == I16:
            return code.op("add", total, self._words(code, spread, right))
        element, name = _INSTRUCTIONS[self.right]
        narrow = Type(element, GROUPED_LANES * self.group)
        args = [total, code.bitcast(spread, narrow), code.bitcast(right, narrow)]
        code.module.declare(name, total.type, [a.type for a in args])
        return code.call(name, total.type, args)

    def _words(self, code: FunctionWriter, spread: Value, right: Value) -> Value:
        """The sums of the products of two words: in 32 bits, which those of bytes never leave."""
        lanes = right.type.lanes
        args = [code.bitcast(v, Type("i16", lanes * self.group)) for v in (spread, right)]
        name = _WORDS[lanes]
        code.module.declare(name, right.type, [a.type for a in args])
        return code.call(name, right.type, args)

    def biased(self, count: int) -> Value:
        """A left step of nothing but the bias, for each of `count` lanes."""
        return constant(Type("i32", count), self.bias * 0x01010101)


_INSTRUCTIONS = {BF16: ("bfloat", "llvm.x86.avx512bf16.dpbf16ps.512"), I8: ("i8", "llvm.x86.avx512.vpdpbusd.512")}


_WORDS = {8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}     # by lanes of the sums


def sums_in(accumulator: Element) -> Scalar:
    """The type in which products are summed."""
    assert isinstance(accumulator, Scalar)
    return F32 if convert.is_narrow_float(accumulator) else accumulator


def choose(isa: Isa, op: Op) -> Scheme:
    """The scheme for a `dot` op."""
    a, b, acc = op.operands
    total = sums_in(element_of(acc.type))
    element = element_of(a.type)
    rows, (depth, columns) = shape_of(a.type)[-2], shape_of(b.type)[-2:]
    if element == element_of(b.type) and columns % GROUPED_LANES == 0:
        if element == BF16 and total == F32:
            tiles = _tiles(isa, rows, depth * 2)
            if tiles is not None or (isa.bf16 and depth % 2 == 0):
                return Scheme(BF16, BF16, F32, 2, tiles=tiles)
        if element == I8 and total == I32:
            tiles = _tiles(isa, rows, depth)
            if tiles is not None or (isa.vnni and depth % 4 == 0):
                return Scheme(I8, I8, I32, 4, bias=0 if tiles else 128, tiles=tiles)
    lanes = isa.word_lanes
    if lanes and element == element_of(b.type) == I8 and total == I32 and columns % lanes == 0 and depth % 2 == 0:
        return Scheme(I16, I16, I32, 2)
    return Scheme(total, total, total)


def _tiles(isa: Isa, rows: int, row_bytes: int) -> Shape | None:
    """Equal tiles that make up the left operand, as large as they can be; None if that is too small to be worth it.

    A quarter of a full tile takes as long as a full one, and as long as its products by the other instructions.
    """
    if not isa.tiles or row_bytes % 4:
        return None
    height = next(h for h in range(amx.MOST_ROWS, 0, -1) if rows % h == 0)
    width = next(w for w in range(amx.MOST_BYTES, 0, -4) if row_bytes % w == 0)
    return Shape(height, width) if 4 * height * width >= amx.MOST_ROWS * amx.MOST_BYTES else None
