"""Ops of later stages: what a GPU's threads do to hold tiles together.  None of them stands in fresh tile IR.

`convert` gives a tile another layout: the same elements, in other registers, lanes or warps.  `barrier` is where all
threads of a program meet: what any of them did to memory before it is seen by all of them after it.  The rows of
shared memory come from software pipelining; which copy is done when, and seen by whom, is checked by the PTX machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir.ops.attributes import Precision
from tilewright.ir.ops.reduce import infer_dot
from tilewright.ir.ops.rules import require
from tilewright.ir.ops.table import TABLE, Attribute, Call, Effect, Operand, OpRow, Stage
from tilewright.ir.types import I1, I32, Pointer, Tile, Type, element_of, shape_of

if TYPE_CHECKING:
    from tilewright.ir.node import Block

ON_A_GPU = Stage.LAID_OUT | Stage.STAGED


def _infer_convert(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    (given,), wanted = types, attrs["to"]
    require(isinstance(given, Tile), f"converts a tile, not {given}")
    assert isinstance(given, Tile)
    require((given.shape, given.element) == (wanted.shape, wanted.element), f"{given} and {wanted} differ in more than "
                                                                            "their layout")
    return (wanted,)


TABLE.add(OpRow("convert", (Operand("x"),), _infer_convert, lambda call: (call.args[0],),
                "x in the layout of the type `to`", "docs/design.md, Stages", attributes=(Attribute("to", Tile),),
                stages=ON_A_GPU))


def nothing(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    """The type rule of an op without operands and results."""
    return ()


def _barrier(call: Call) -> tuple[()]:
    return ()


TABLE.add(OpRow("barrier", (), nothing, _barrier,
                "all threads of the program arrive; memory accesses before it come before those behind it",
                "PTX ISA bar.sync", effects=Effect.ORDERS, stages=ON_A_GPU))


# --- blocks.  Where a block of threads runs several programs one after another (`targets.nvidia.passes.persist`), it
# has a number of its own.  An interpreter has a block for each program.


def _infer_block(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    require(attrs["axis"] in (0, 1, 2), f"axis {attrs['axis']} is not 0, 1 or 2")
    return (I32,)


TABLE.add(OpRow("block_id", (), _infer_block, lambda call: (call.machine.program_id(call.attrs["axis"]),),
                "index of this block of threads along an axis", "PTX ISA %ctaid", attributes=(Attribute("axis", int),),
                stages=ON_A_GPU))
TABLE.add(OpRow("num_blocks", (), _infer_block, lambda call: (call.machine.num_programs(call.attrs["axis"]),),
                "how many blocks of threads there are along an axis", "PTX ISA %nctaid",
                attributes=(Attribute("axis", int),), stages=ON_A_GPU))


# --- shared memory.  A buffer is the address, an i32, of `count` tiles that lie one after another; `memory` says what
# such a tile is: its layout has the one input `offset`.


def memory_of(attrs: Mapping[str, Any]) -> Tile:
    """The attribute `memory`, checked."""
    memory = attrs["memory"]
    require(memory.layout is not None and memory.layout.names == ("offset",), f"{memory} is no tile in shared memory")
    assert isinstance(memory, Tile)
    return memory


def on_a_gpu(call: Call) -> tuple[Any, ...]:
    """The meaning of a row that no interpreter runs."""
    raise NotImplementedError("ops on shared memory run on a GPU or on the PTX machine, not in an interpreter")


def _infer_alloc(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    memory_of(attrs)
    require(attrs["count"] >= 1, f"{attrs['count']} tiles")
    require(attrs["align"] >= 128 and attrs["align"].bit_count() == 1, f"at a multiple of {attrs['align']} bytes")
    return (I32,)


def _infer_free(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    require(list(types) == [I32], "the address is an i32")
    return ()


def _infer_copy(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    memory, (pointer, address, guard, *mask) = memory_of(attrs), types
    require(address == I32 and guard == I1, "the address is an i32, the guard an i1")
    require(isinstance(pointer, Tile) and isinstance(pointer.element, Pointer)
            and (pointer.shape, pointer.element.element) == (memory.shape, memory.element),
            f"{pointer} does not point to the elements of {memory}")
    require(not mask or (shape_of(mask[0]) == memory.shape and element_of(mask[0]) == I1), "the mask is no mask of it")
    return ()


def _infer_shared_load(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    memory, wanted = memory_of(attrs), attrs["to"]
    require(list(types) == [I32], "the address is an i32")
    require((wanted.shape, wanted.element) == (memory.shape, memory.element), f"{wanted} is no tile of {memory}")
    return (wanted,)


MEMORY = Attribute("memory", Tile)
TABLE.add(OpRow("shared_alloc", (), _infer_alloc, on_a_gpu, "the address of `count` tiles of shared memory",
                "docs/design.md, Stages",
                attributes=(MEMORY, Attribute("count", int), Attribute("align", int, 128, required=False)),
                effects=Effect.ORDERS, stages=ON_A_GPU))
TABLE.add(OpRow("shared_free", (Operand("address"),), _infer_free, on_a_gpu, "the buffer at the address is needed no "
                "longer; the last one that is allocated goes first", "docs/design.md, Stages", effects=Effect.ORDERS,
                stages=ON_A_GPU))
_COPIED = (Operand("pointer"), Operand("address"), Operand("guard"), Operand("mask", optional=True))
TABLE.add(OpRow("async_copy", _COPIED, _infer_copy, on_a_gpu,
                "begin to copy a tile to shared memory where `guard`; zero where not `mask`", "PTX ISA cp.async",
                attributes=(MEMORY,), effects=Effect.READS, stages=ON_A_GPU))
TABLE.add(OpRow("async_commit", (), nothing, on_a_gpu, "the copies begun since the last one become a group",
                "PTX ISA cp.async.commit_group", effects=Effect.ORDERS, stages=ON_A_GPU))
TABLE.add(OpRow("async_wait", (), nothing, on_a_gpu, "wait until at most `pending` groups of this thread are "
                "under way", "PTX ISA cp.async.wait_group", attributes=(Attribute("pending", int),),
                effects=Effect.ORDERS, stages=ON_A_GPU))
TABLE.add(OpRow("shared_load", (Operand("address"),), _infer_shared_load, on_a_gpu,
                "a tile of shared memory in the layout of the type `to`; `now`: all of it at once, not when it is "
                "needed", "docs/design.md, Stages",
                attributes=(MEMORY, Attribute("to", Tile), Attribute("now", bool, False, required=False)),
                effects=Effect.ORDERS, stages=ON_A_GPU))


def _infer_shared_store(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    memory = memory_of(attrs)
    require(types[1] == I32, "the address is an i32")
    require((shape_of(types[0]), element_of(types[0])) == (memory.shape, memory.element),
            f"{types[0]} is no tile of {memory}")
    return ()


TABLE.add(OpRow("shared_store", (Operand("value"), Operand("address")), _infer_shared_store, on_a_gpu,
                "write a tile to shared memory", "docs/design.md, Stages", attributes=(MEMORY,), effects=Effect.ORDERS,
                stages=ON_A_GPU))


# --- products of warpgroups, which run while the program goes on


def _infer_wait(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
    require(isinstance(types[0], Tile), f"the sums of a product are a tile, not {types[0]}")
    return (types[0],)


TABLE.add(OpRow("warpgroup_dot", (Operand("a", "[M, K]"), Operand("b", "[K, N]"), Operand("acc", "[M, N]")), infer_dot,
                on_a_gpu, "begin a @ b + acc: the result may go to a `warpgroup_wait` only", "PTX ISA wgmma.mma_async",
                attributes=(Attribute("precision", Precision, Precision.IEEE, required=False),), stages=ON_A_GPU))
TABLE.add(OpRow("warpgroup_wait", (Operand("sums"),), _infer_wait, on_a_gpu,
                "wait until at most `pending` products of this warpgroup are under way; the sums, which are `done` "
                "then or still under way", "PTX ISA wgmma.wait_group",
                attributes=(Attribute("pending", int), Attribute("done", bool, True, required=False)), stages=ON_A_GPU))
