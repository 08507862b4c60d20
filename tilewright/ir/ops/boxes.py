"""Boxes: what is known of pointers to a block of a described array, and copies of such blocks by hardware.

`box` stands in tile IR: its result is its first operand, and what follows says where the pointers come from.  It is a
promise as well: whoever loads or stores through it masks off exactly what lies outside of the array.  A target that has
no use for it forgets it (`passes.boxes`).  The other rows are a GPU's, behind layouts: there a thread starts the copy
of a whole block between global and shared memory.

A box's numbers (`Places`), all i64 scalars: where the block starts, how large the array is, and the distance between
neighbours in elements, a number for each dimension.  Tests: tests/lang, tests/targets/nvidia/test_boxes.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilewright.ir.ops.rules import require
from tilewright.ir.ops.staging import MEMORY, ON_A_GPU, memory_of, nothing, on_a_gpu
from tilewright.ir.ops.table import TABLE, Attribute, Effect, Operand, OpRow
from tilewright.ir.types import I1, I32, I64, Pointer, Tile, Type, element_of, shape_of

if TYPE_CHECKING:
    from tilewright.ir.node import Block

T = TypeVar("T")
Attrs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Places(Generic[T]):
    """The numbers of a box, slowest dimension first."""

    starts: tuple[T, ...]
    sizes: tuple[T, ...]
    strides: tuple[T, ...]

    @classmethod
    def of(cls, operands: Sequence[T]) -> Places[T]:
        """Taken from the last operands of an op with a box."""
        rank = len(operands) // 3
        return cls(tuple(operands[:rank]), tuple(operands[rank:2 * rank]), tuple(operands[2 * rank:]))


def _check_places(types: Sequence[Type], rank: int) -> None:
    require(len(types) == 3 * rank and all(t == I64 for t in types),
            f"a box of {rank} dimensions has {3 * rank} numbers, all i64")


def _check_base(base: Type, memory: Tile) -> None:
    require(isinstance(base, Pointer) and base.element == memory.element, f"{base} does not point to elements of "
                                                                          f"{memory}")


def _infer_box(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    pointers, base, *places = types
    require(isinstance(base, Pointer) and element_of(pointers) == base, f"{pointers} are no {base}")
    _check_places(places, len(shape_of(pointers)))
    return (pointers,)


_PLACES = Operand("places", "starts, sizes, strides", variadic=True)
TABLE.add(OpRow("box", (Operand("pointers"), Operand("base"), _PLACES), _infer_box, lambda call: (call.args[0],),
                "the pointers, which are those of a block of the array at `base`; accesses are masked by its sizes",
                "semantics of tl.make_tensor_descriptor"))


# --- a GPU's copies


def _infer_copy(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    base, address, mbarrier, *places = types
    _check_base(base, memory_of(attrs))
    require(address == mbarrier == I32, "the addresses are i32")
    if attrs["has_guard"]:
        require(places.pop(0) == I1, "the guard is an i1")
    _check_places(places, len(memory_of(attrs).shape))
    return ()


def _infer_store(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    base, value, *places = types
    memory = memory_of(attrs)
    _check_base(base, memory)
    require((shape_of(value), element_of(value)) == (memory.shape, memory.element), f"{value} is no tile of {memory}")
    _check_places(places, len(memory.shape))
    return ()


def _infer_mbarriers(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(attrs["count"] >= 1, f"{attrs['count']} mbarriers")
    return (I32,)


def _infer_arrive(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(list(types) == [I32, I1][:1 + attrs["has_guard"]], "the address is an i32, the guard an i1")
    return ()


def _infer_wait(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(list(types) == [I32, I32], "the address and the phase are i32")
    return ()


_SWIZZLE = Attribute("swizzle", int)
_GUARD = Operand("guard", optional=True)
TABLE.add(OpRow("box_copy", (Operand("pointer"), Operand("address"), Operand("mbarrier"), _GUARD, _PLACES), _infer_copy,
                on_a_gpu, "begin to copy a block of the array at `pointer` to shared memory, if `guard`; outside of "
                "the array it is zero, or NaN.  It is announced and comes in at the mbarrier",
                "PTX ISA cp.async.bulk.tensor", attributes=(MEMORY, _SWIZZLE, Attribute("nan", bool)),
                effects=Effect.READS, stages=ON_A_GPU))
TABLE.add(OpRow("mbarrier_alloc", (), _infer_mbarriers, on_a_gpu, "the address of `count` mbarriers in shared memory, "
                "at each of which one thread arrives; at the head of the kernel", "PTX ISA mbarrier.init",
                attributes=(Attribute("count", int),), effects=Effect.ORDERS, stages=ON_A_GPU))
TABLE.add(OpRow("mbarrier_arrive", (Operand("mbarrier"), _GUARD), _infer_arrive, on_a_gpu,
                "what is to come in in this phase of an mbarrier has been announced, if `guard`",
                "PTX ISA mbarrier.arrive", effects=Effect.ORDERS, stages=ON_A_GPU))
TABLE.add(OpRow("mbarrier_wait", (Operand("mbarrier"), Operand("phase")), _infer_wait, on_a_gpu,
                "wait for the end of the phase, 0 or 1 in turn, of an mbarrier", "PTX ISA mbarrier.try_wait",
                effects=Effect.ORDERS, stages=ON_A_GPU))
TABLE.add(OpRow("box_store", (Operand("pointer"), Operand("value"), _PLACES), _infer_store, on_a_gpu,
                "copy a tile through shared memory to a block of the array at `pointer`, unless it starts at a "
                "negative place or within 16 bytes of a row; `shared`: other accesses of the kernel may touch it, "
                "before or behind; `again`: an earlier `box_store` may",
                "PTX ISA cp.async.bulk.tensor; CUDA C++ Programming Guide, Using TMA",
                attributes=(MEMORY, _SWIZZLE, Attribute("shared", bool), Attribute("again", bool)),
                effects=Effect.WRITES, stages=ON_A_GPU))
TABLE.add(OpRow("proxy_fence", (), nothing, on_a_gpu,
                "copies of blocks that begin behind the next barrier see what this thread wrote to shared memory, and "
                "with `everywhere` to global memory", "PTX ISA fence.proxy.async",
                attributes=(Attribute("everywhere", bool),), effects=Effect.ORDERS, stages=ON_A_GPU))
