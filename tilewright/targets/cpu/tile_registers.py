"""Who configures AMX's tile registers in a kernel, and when.

Products of tiles need the registers configured for their tiles' shape, which costs as much as a dozen full tiles.  So
where all such products of a kernel have tiles of one shape it is done once, when a thread enters the kernel, and again
behind each call of what may use the registers: the host, and through it Python.  Otherwise each product does it.
Nothing stays in the registers from one product to the next.  `enter` releases them whichever way the kernel ends, since
a thread whose registers are in use is slower to switch; after a memory fault the host does it (`host.fault_code`).
Tests: tests/targets/cpu/test_tiles.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.node import Module
from tilewright.ir.walk import ops_in
from tilewright.targets.cpu.schemes import choose
from tilewright.targets.llvm import amx
from tilewright.targets.llvm.amx import Shape
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import I64, PTR


@dataclass(frozen=True, slots=True)
class Tiles:
    """How a kernel configures the tile registers: once for `shape`, or, without one, for each product."""

    shape: Shape | None

    def renew(self, code: FunctionWriter) -> None:
        """Behind a call that may have left the registers in any state."""
        if self.shape is not None:
            amx.ensure(code, self.shape)

    def require(self, code: FunctionWriter, shape: Shape) -> None:
        """Before a product of tiles of that shape."""
        if self.shape is None:
            amx.ensure(code, shape)


def tiles_of(module: Module, isa: Isa) -> Tiles | None:
    """What the products of a kernel need; None if none of them is made of tiles."""
    shapes = {choose(isa, op).tiles for op in ops_in(module.entry.body) if op.name == "dot"} - {None}
    if not shapes:
        return None
    return Tiles(shapes.pop() if len(shapes) == 1 else None)


def enter(writer: ModuleWriter, tiles: Tiles, name: str, inner: str) -> None:
    """The kernel's entry `name`, which configures the tile registers, calls `inner` and releases them."""
    f = writer.function(name, [("slots", PTR), ("first", I64), ("last", I64), ("context", PTR)])
    if tiles.shape is not None:
        amx.configure(f, tiles.shape)
    f.do(f"call void @{inner}({', '.join(map(str, f.params))})")
    amx.release(f)
    f.ret()
