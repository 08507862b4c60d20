"""Where a laid-out program's buffers and scratch lie in shared memory, worked out before its code is written.

Before: laid-out IR with its barriers.  After: an `Allocation`, by which code is written (`shared.SharedMemory`).
Tests: tests/targets/nvidia/test_scratch.py.
"""

from __future__ import annotations

from tilewright.ir.node import Block, Module, Op
from tilewright.ir.walk import ops_in
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.scratch import BUFFERS, NEEDS, Program
from tilewright.targets.nvidia.shared import Allocation, Stack, Use, alignment
from tilewright.targets.nvidia.wgmma import alignment_of

_JOINS = frozenset({"for", "while", "if"})


def allocate(module: Module, capability: Capability, num_warps: int) -> Allocation:
    """What the kernel `module` takes of shared memory in `num_warps` warps, and where."""
    walk = _Walk(Program(module, capability, num_warps))
    walk.block(module.entry.body)
    swizzle = max((int(op.attrs.get("swizzle", 0)) for op in ops_in(module.entry.body)), default=0)
    align = max(alignment(swizzle), alignment_of(module.entry.body, capability, num_warps))
    return Allocation(walk.stack.size, align, walk.uses)


class _Walk:
    """The ops of a program, in the order in which their code is written; those of regions on elements, which take no
    part of it, are left out."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.stack = Stack()
        self.uses: list[tuple[Op, Use]] = []

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.name in _JOINS:
                self._joining(op)
            elif op.name in BUFFERS:
                self.uses.append((op, self.stack.allocate(BUFFERS[op.name](op))))
            elif op.name == "shared_free":
                self.stack.free()
            elif op.name == "barrier":
                self.stack.barrier()
            elif op.name in NEEDS:
                self.uses += [(op, self.stack.use(need)) for need in NEEDS[op.name](self._program, op)]

    def _joining(self, op: Op) -> None:
        """Each branch begins where control flow joins or parts, and so does what follows; a `while` tests behind its
        head, and goes on from there."""
        for number, region in enumerate(op.regions):
            if op.name != "while" or number == 0:
                self.stack.forget()
            self.block(region)
        self.stack.forget()
