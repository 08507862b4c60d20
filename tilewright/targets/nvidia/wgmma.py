"""Which instruction of a warpgroup multiplies two tiles: wgmma by types, sides, warps and capability.

Four warps that follow each other are a warpgroup.  It multiplies 64 rows of A, from shared memory or from registers, by
up to 256 columns of B, from shared memory, where a *descriptor* says how an operand lies.  The operands lie as
`layout.shared.nvmma` has them, with rows of 128, 64 or 32 bytes along k (*K-major*), or along the other dimension.
Warpgroups lie along m as far as there are rows, since each reads all of B that it multiplies.
Sources: PTX ISA 9.7.15 (shapes, types, descriptors), measured on an H200, 2026-08: all forms of `Placed.descriptor`.
Tests: tests/targets/nvidia/test_warpgroup.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Op
from tilewright.ir.types import BF16, F16, Scalar, element_of, shape_of
from tilewright.ir.walk import ops_in
from tilewright.layout import Layout, f2, padded_shape
from tilewright.layout.access import best_access
from tilewright.layout.families import WARP_SIZE
from tilewright.layout.linear import OFFSET, pack
from tilewright.layout.mma import WARPGROUP_ROWS, warpgroup_accumulator, warpgroup_operand
from tilewright.layout.plan import Kind, plan
from tilewright.layout.shared import SWIZZLE_WIDTHS, nvmma
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.registers import most_registers

ROWS = 64               # of an instruction
ALIGNMENT = 1024        # eight rows of the widest swizzle
_MOST_COLUMNS, _LEAST_COLUMNS = 256, 32     # of an instruction
_LEAST_WORK = 1 << 16   # multiply-adds of a warpgroup in a dot; below, mma.sync has less latency (`choose`)
_MOST_SUMS = 128        # registers of a thread for one accumulator: more of them spill
BESIDE = 48            # registers beside them; ptxas refuses an instruction for which too few are left (C7602)
_STEP_BYTES = 32        # of k in an instruction, whatever the type
_ATOM = 8               # rows that a swizzle permutes
_MODES = {128: 1, 64: 2, 32: 3}


@dataclass(frozen=True, slots=True)
class Wgmma:
    """One choice, for operands of `rows` x `depth` and `depth` x `columns` in all."""

    element: Scalar
    result: str             # PTX type of D
    rows: int
    columns: int
    depth: int
    groups: tuple[int, int]     # of warps, along m and along n

    @property
    def step(self) -> int:
        """Elements along k of an instruction."""
        return _STEP_BYTES // self.element.bytes

    @property
    def width(self) -> int:
        """Columns of an instruction."""
        return min(_MOST_COLUMNS, self.columns // self.groups[1])

    @property
    def warps(self) -> tuple[int, int]:
        return WARPGROUP_ROWS * self.groups[0], self.groups[1]

    @property
    def accumulator(self) -> Layout:
        """The layout of the accumulator and of the result."""
        return warpgroup_accumulator((self.rows, self.columns), self.warps)

    @property
    def left(self) -> Layout:
        """The layout of A in registers."""
        return warpgroup_operand((self.rows, self.depth), 4 // self.element.bytes, self.warps)

    def takes(self, layout: Layout, capability: Capability) -> bool:
        """Whether A comes from registers of `layout` without shared memory."""
        way = plan(layout, self.left, self.element.bytes, stores=capability.stmatrix,
                   scratch_limit=capability.shared_bytes)
        return way.kind is not Kind.SHARED

    def shape(self, which: int) -> tuple[int, int]:
        """The sides of operand 0 or 1."""
        return (self.depth, self.columns) if which else (self.rows, self.depth)

    def placed(self, which: int, fast: int) -> Placed | None:
        """How an operand lies in shared memory if its dimension `fast` is the contiguous one; None if it cannot."""
        along_k = fast == 1 - which
        if not along_k and self.element.bytes != 2:
            return None
        side = self.depth if along_k else self.width if which else ROWS
        width = min(SWIZZLE_WIDTHS[0], side * self.element.bytes)
        if width not in SWIZZLE_WIDTHS:
            return None
        shape = self.shape(which)
        return Placed(self, which, fast, width, nvmma(shape, self.element.bytes, width, (fast, 1 - fast)))

    def in_scratch(self, which: int, layout: Layout) -> Placed:
        """How an operand in registers of `layout` is to lie that threads write: the way that takes them least."""
        ways = [p for p in map(self.placed, (which, which), (1 - which, which)) if p is not None]
        return min(ways, key=lambda p: best_access(layout, p.layout, self.element.bytes, store=True).cost)

    def placed_as(self, which: int, layout: Layout) -> Placed:
        """The same for an operand that lies somewhere already."""
        found = [p for p in map(self.placed, (which, which), (0, 1)) if p is not None and p.layout == layout]
        return found[0]


@dataclass(frozen=True, slots=True)
class Placed:
    """An operand in shared memory, in panels of `width` bytes along its dimension `fast`."""

    product: Wgmma
    which: int
    fast: int
    width: int
    layout: Layout

    @property
    def bytes(self) -> int:
        return self.layout.numel * self.product.element.bytes

    @property
    def align(self) -> int:
        return _ATOM * self.width

    @property
    def turned(self) -> bool:
        """Whether the operand is not K-major."""
        return self.fast != 1 - self.which

    @property
    def descriptor(self) -> int:
        """The bits of the operand's descriptor, but for its address (PTX ISA 9.7.15.5.1)."""
        rows = self.layout.shape[1 - self.fast]
        leading = rows * self.width if self.turned else 16      # ignored for K-major operands
        return leading >> 4 << 16 | self.align >> 4 << 32 | _MODES[self.width] << 62

    def offset(self, at: int, k: int) -> int:
        """Where the block that begins at row (of B: column) `at` and at `k` begins, in bytes."""
        index = pack(self.layout.shape, (k, at) if self.which else (at, k))
        return f2.apply(self.layout.inverse().columns, index) * self.product.element.bytes


def choose(op: Op, capability: Capability, num_warps: int) -> Wgmma | None:
    """The instruction for a `dot` of a program of `num_warps` warps; None if warpgroups do not make it.

    Speed beside mma.sync (H200, 2026-11-30, bf16, four warps, three stages): 0.98 for tiles of 64 x 16 x 32 and 0.96 of
    64 x 32 x 16; 1.02 to 1.05 of 64 x 32 x 32, 1.05 of 64 x 64 x 16, 0.98 to 1.09 of 64 x 64 x 32, 1.1 to 1.2 of 64 x
    64 x 64, and more beyond.
    """
    a, b, acc = (v.type for v in op.operands)
    element, shape = element_of(a), padded_shape(shape_of(acc))
    if not capability.wgmma or num_warps % WARPGROUP_ROWS or len(shape) != 2:
        return None
    if element not in (F16, BF16) or element_of(b) != element:
        return None
    assert isinstance(element, Scalar)
    (rows, columns), depth = shape, shape_of(a)[-1]
    if rows < ROWS or depth & depth - 1 or depth * element.bytes < _STEP_BYTES:
        return None         # what lies past K would be multiplied, and need not be zero
    groups = num_warps // WARPGROUP_ROWS
    along_m = min(groups, rows // ROWS)
    along_n = groups // along_m
    if columns // along_n < _LEAST_COLUMNS or rows * columns * depth < _LEAST_WORK * groups:
        return None
    sums, limit = rows * columns // (WARP_SIZE * num_warps), min(capability.registers, most_registers(num_warps))
    if sums > _MOST_SUMS or sums + BESIDE > limit:
        return None
    return Wgmma(element, "f32", rows, columns, depth, (along_m, along_n))


def of(op: Op, capability: Capability, num_warps: int) -> Wgmma | None:
    """The same for a `dot` that has layouts, which must be these."""
    found = choose(op, capability, num_warps)
    return found if found is not None and layout_of(op.operands[2]) == found.accumulator else None


def is_shared(layout: Layout) -> bool:
    """Whether a tile of this layout lies in shared memory: its one register is the address."""
    return layout.names == (OFFSET,)


def alignment_of(body: Block, capability: Capability, num_warps: int) -> int:
    """The alignment of shared memory that the dots of `body` need; 0 if they need none."""
    dots = (op for op in ops_in(body) if op.name in ("dot", "warpgroup_dot"))
    return ALIGNMENT if capability.wgmma and any(of(op, capability, num_warps) for op in dots) else 0
