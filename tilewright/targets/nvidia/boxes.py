"""Copies of whole blocks between global and shared memory by hardware (cp.async.bulk.tensor), on behalf of one thread.

At an mbarrier the first thread alone arrives: each block adds the bytes that are to come, and all threads wait until
the phase is over.  A store copies its tile to scratch, and the first thread waits until the hardware has read it before
the next barrier.  Maps are parameters of the kernel, one for each array and kind of block (`tensor_maps`).
Before: the rows of `ir.ops.boxes`.  Tests: tests/targets/nvidia/test_boxes.py; the PTX machine finds copies that are
read too early, or see too little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.ops.boxes import Places
from tilewright.ir.types import Tile, element_of
from tilewright.layout.access import best_access
from tilewright.targets.llvm.types import I1, I32, I64, PTR, Type, constant, integer_value
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.conversion import write_registers
from tilewright.targets.nvidia.scratch import MBARRIER_BYTES
from tilewright.targets.nvidia.state import Kernel
from tilewright.targets.nvidia.tensor_maps import ALIGNMENT, Numbers, box_bytes

PARAMETER = Type('ptr byval([128 x i8]) align 64 "nvvm.grid_constant"')     # else LLVM copies it to local memory
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1       # of a coordinate


def mbarrier_alloc(kernel: Kernel, op: Op) -> None:
    """Shared memory that stays taken, its mbarriers ready behind the next barrier."""
    code, count = kernel.code, op.attrs["count"]
    address = kernel.shared.begin(op).address
    kernel.bind(op.result, [address])
    first = code.is_first_thread()
    for k in range(count):
        at = code.op("add", address, constant(I32, MBARRIER_BYTES * k)) if k else address
        code.machine("mbarrier.init", [], [at], guard=first)
    code.machine("fence.mbarrier_init", [], [], guard=first)


def mbarrier_arrive(kernel: Kernel, op: Op) -> None:
    kernel.code.machine("mbarrier.arrive", [], [kernel.scalar(op.operands[0])], guard=_first_thread(kernel, op))


def mbarrier_wait(kernel: Kernel, op: Op) -> None:
    code, (barrier, phase) = kernel.code, map(kernel.scalar, op.operands)

    def is_missing(_: tuple[LlvmValue, ...]) -> LlvmValue:
        (over,) = code.machine("mbarrier.wait", [I1], [barrier, phase])
        return code.op("xor", over, constant(I1, 1))

    code.while_loop((), is_missing, lambda _: ())


def _first_thread(kernel: Kernel, op: Op) -> LlvmValue | None:
    guard = op.operand("guard")
    return kernel.code.both(kernel.code.is_first_thread(), None if guard is None else kernel.scalar(guard))


def box_copy(kernel: Kernel, op: Op) -> None:
    """Begin to copy a block to shared memory."""
    code, memory = kernel.code, op.attrs["memory"]
    address, barrier = map(kernel.scalar, op.operands[1:3])
    first, numbers = _first_thread(kernel, op), op.operands[4 if op.attrs["has_guard"] else 3:]
    code.machine("mbarrier.expect", [], [barrier, constant(I32, box_bytes(memory))], guard=first)
    coordinates = _coordinates(kernel, op, numbers)
    inputs = [address, _map(kernel, op, numbers, op.attrs["nan"]), barrier]
    space = "shared::cta" if kernel.capability.tma_within_cta else "shared::cluster"
    code.machine("tensor.load", [], [*inputs, *coordinates], guard=first, groups=(3, len(coordinates)),
                 rank=str(len(coordinates)), space=space)


def box_store(kernel: Kernel, op: Op) -> None:
    """Copy a tile to a block of an array."""
    code, memory, value = kernel.code, op.attrs["memory"], op.operands[1]
    assert memory.layout is not None
    base = kernel.shared.begin(op).address
    access = best_access(layout_of(value), memory.layout, memory.element.bytes, store=True)
    write_registers(kernel, access, base, kernel.registers(value), element_of(value.type))
    fence(kernel, op.attrs["shared"])
    kernel.shared.meet()
    first = code.is_first_thread()
    coordinates = _coordinates(kernel, op, op.operands[2:])
    if op.attrs["again"]:       # of two stores to one place the later one wins
        code.machine("bulk.wait", [], [], guard=first, read="")
    code.machine("tensor.store", [], [_map(kernel, op, op.operands[2:], False), base, *coordinates],
                 guard=_if_stored(kernel, first, coordinates, memory.element.bytes), groups=(2, len(coordinates)),
                 rank=str(len(coordinates)))
    code.machine("bulk.commit", [], [], guard=first)
    code.machine("bulk.wait", [], [], guard=first, read="" if op.attrs["shared"] else ".read")


def _if_stored(kernel: Kernel, guard: LlvmValue, coordinates: Sequence[LlvmValue], item: int) -> LlvmValue:
    """`guard`, where the hardware stores a block that starts at these coordinates, fastest dimension first."""
    code = kernel.code
    for coordinate in coordinates:
        known = integer_value(coordinate)
        if known is None or known < 0:
            guard = code.op("and", guard, code.icmp("sge", coordinate, constant(I32, 0)))
    first, inside = coordinates[0], constant(I32, ALIGNMENT // item - 1)
    if item < ALIGNMENT and ((known := integer_value(first)) is None or known * item % ALIGNMENT):
        guard = code.op("and", guard, code.icmp("eq", code.op("and", first, inside), constant(I32, 0)))
    return guard


def proxy_fence(kernel: Kernel, op: Op) -> None:
    fence(kernel, op.attrs["everywhere"])


def fence(kernel: Kernel, everywhere: bool) -> None:
    """Let copies of blocks see what this thread wrote; without `everywhere`, which waits for all of this thread's
    accesses to global memory, that is shared memory alone."""
    kernel.code.machine("fence.proxy.async", [], [], space="" if everywhere else ".shared::cta")


def _coordinates(kernel: Kernel, op: Op, numbers: Sequence[Value]) -> list[LlvmValue]:
    """Where the block starts, fastest dimension first.  What 32 bits cannot hold is outside of every array."""
    code, found = kernel.code, []
    for start in reversed(Places.of(numbers).starts):
        place, known = kernel.scalar(start), integer_value(kernel.scalar(start))
        if known is not None:
            found.append(constant(I32, min(max(known, _LEAST), _MOST)))
            continue
        source = kernel.ops.get(start)
        if source is not None and source.name == "ext_s" and kernel.scalar(source.operands[0]).type == I32:
            found.append(kernel.scalar(source.operands[0]))
            continue
        low = code.select(code.icmp("sgt", place, constant(I64, _LEAST)), place, constant(I64, _LEAST))
        low = code.select(code.icmp("slt", low, constant(I64, _MOST)), low, constant(I64, _MOST))
        found.append(code.cast("trunc", low, I32))
    return found


def _map(kernel: Kernel, op: Op, numbers: Sequence[Value], nan: bool) -> LlvmValue:
    """The address of the op's tensor map."""
    description = _description(kernel, op, Places.of(numbers), nan)
    if description not in kernel.tensor_maps:
        kernel.tensor_maps.append(description)
    return LlvmValue(PTR, f"%{name_of(kernel.tensor_maps.index(description))}")


def name_of(number: int) -> str:
    """The name of a map's parameter."""
    return f"map{number}"


def _description(kernel: Kernel, op: Op, places: Places[Value], nan: bool) -> Mapping[str, Any]:
    """What the host needs to make the map, as plain data (`tensor_maps.resolved`)."""
    numbers, memory = Numbers(kernel.module.entry, kernel.ops), op.attrs["memory"]
    assert isinstance(memory, Tile)
    return {"base": numbers.param(op.operands[0]), "element": str(memory.element),
            "sizes": [numbers.expression(v) for v in places.sizes],
            "strides": [numbers.expression(v) for v in places.strides[:-1]],
            "box": list(memory.shape), "swizzle": op.attrs["swizzle"], "nan": nan}
