"""Ops that look at a whole tile: sorting rows and counting.

A row is sorted by Batcher's bitonic network (1968) on the bits of the last coordinate: a step compares elements whose
coordinates differ in one bit, which are two registers of a thread, two lanes of a warp, or two warps.  Padding holds
the largest integer, so it ends up where padding belongs.
Before: a layout as `passes.special.sort_layout` makes it.  Tests: tests/targets/nvidia/test_sort.py;
tests/lang and tests/conform, on the engine ptx.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op
from tilewright.ir.types import I32 as IR_I32
from tilewright.ir.types import Tile
from tilewright.layout.linear import LANE, REGISTER
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import shared_address, shared_read, shared_write
from tilewright.targets.nvidia.emit.code import LANE_BITS, WARP_LANES
from tilewright.targets.nvidia.partial import shuffle
from tilewright.targets.nvidia.passes.special import owners_of
from tilewright.targets.nvidia.rearrange import index_in, limited
from tilewright.targets.nvidia.reduce import lane_flag
from tilewright.targets.nvidia.state import Kernel, inside


def sort(kernel: Kernel, op: Op) -> None:
    """The signed integers of each row of the last dimension in ascending order."""
    network = _Network(kernel, op)
    kernel.bind(op.result, [network.narrow(v) for v in network.run([network.wide(v) for v in network.padded()])])


class _Network:
    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel, self.op = kernel, op
        assert isinstance(op.result.type, Tile)
        self.type = op.result.type
        self.layout = layout_of(op.result)
        owners = owners_of(self.layout, len(self.layout.shape) - 1)
        assert owners is not None
        self.owners = owners
        self.given = kernel.registers(op.operands[0])[0].type

    def padded(self) -> list[LlvmValue]:
        """The elements, and the largest integer in padding."""
        registers = list(self.kernel.registers(self.op.operands[0]))
        largest = constant(registers[0].type, (1 << (registers[0].type.bits - 1)) - 1)
        for r, value in enumerate(registers):
            flag = inside(self.kernel, self.type, self.layout, r)
            if flag is False:
                registers[r] = largest
            elif flag is not True:
                registers[r] = self.kernel.code.select(flag, value, largest)
        return registers

    def wide(self, value: LlvmValue) -> LlvmValue:
        """A narrow integer as a word, in which there are min, max and shuffles.

        Widened for each of them, 16 rows of 2048 int8 in 8 warps take ptxas 157 s (13.0.88 for sm_80, 2026-12-01).
        """
        return self.kernel.code.cast("sext", value, I32) if value.type.bits < I32.bits else value

    def narrow(self, value: LlvmValue) -> LlvmValue:
        """The same number as it was."""
        return self.kernel.code.cast("trunc", value, self.given) if self.given != value.type else value

    def run(self, values: list[LlvmValue]) -> list[LlvmValue]:
        for stage in range(1, len(self.owners) + 1):
            for bit in reversed(range(stage)):
                values = self._step(values, bit, stage)
        return values

    def _step(self, values: list[LlvmValue], bit: int, stage: int) -> list[LlvmValue]:
        """Compare along coordinate bit `bit`; rows of 2**stage ascend and descend in turn, the last one ascends."""
        others = self._partners(values, bit)
        code, results = self.kernel.code, []
        for r, (mine, other) in enumerate(zip(values, others, strict=True)):
            less, more = code.binary_intrinsic("smin", mine, other), code.binary_intrinsic("smax", mine, other)
            upper = self._bit(r, bit)
            down = self._bit(r, stage) if stage < len(self.owners) else False
            if isinstance(upper, bool) and isinstance(down, bool):
                results.append(more if upper != down else less)
            elif isinstance(upper, bool) or isinstance(down, bool):
                turned, flag = (upper, down) if isinstance(upper, bool) else (down, upper)
                assert not isinstance(flag, bool)
                results.append(code.select(flag, less, more) if turned else code.select(flag, more, less))
            else:
                results.append(code.select(code.op("xor", upper, down), more, less))
        return results

    def _bit(self, register: int, bit: int) -> LlvmValue | bool:
        """Bit `bit` of the last coordinate."""
        name, place = self.owners[bit]
        if name == REGISTER:
            return bool(register >> place & 1)
        return lane_flag(self.kernel, place if name == LANE else LANE_BITS + place)

    def _partners(self, values: Sequence[LlvmValue], bit: int) -> list[LlvmValue]:
        name, place = self.owners[bit]
        if name == REGISTER:
            return [values[r ^ 1 << place] for r in range(len(values))]
        if name == LANE:
            return [shuffle(self.kernel, "shuffle_xor", v, constant(I32, 1 << place)) for v in values]
        return self._other_warp(values, 1 << LANE_BITS + place)

    def _other_warp(self, values: Sequence[LlvmValue], distance: int) -> list[LlvmValue]:
        """The values of the thread whose number differs by `distance`."""
        kernel, code, element = self.kernel, self.kernel.code, self.type.element
        threads = WARP_LANES * code.num_warps
        base = kernel.shared.begin(self.op).address
        partner = code.op("xor", code.tid, constant(I32, distance))

        def address(thread: LlvmValue, k: int) -> LlvmValue:
            return shared_address(kernel, base, code.op("add", thread, constant(I32, k * threads)), element.bytes)

        for k, v in enumerate(values):
            shared_write(kernel, address(code.tid, k), [self.narrow(v)], element)
        kernel.shared.meet()
        return [self.wide(shared_read(kernel, address(partner, k), element)) for k in range(len(values))]


def histogram(kernel: Kernel, op: Op) -> None:
    """Counts in shared memory: cleared by all, added to by the owners of elements, read by all."""
    code, source, mask = kernel.code, op.operands[0], op.operand("mask")
    bins, layout = op.attrs["bins"], layout_of(source)
    assert isinstance(source.type, Tile)
    base = kernel.shared.begin(op).address
    threads = WARP_LANES * code.num_warps
    for start in range(0, bins, threads):
        bin_number = code.op("add", code.tid, constant(I32, start))
        guard = None if start + threads <= bins else code.icmp("ult", bin_number, constant(I32, bins))
        shared_write(kernel, shared_address(kernel, base, bin_number, 4), [constant(I32, 0)], IR_I32, guard)
    kernel.shared.meet()
    free = layout.free()
    owner = code.thread_flag(dict(free))
    for r, value in enumerate(kernel.registers(source)):
        flag = inside(kernel, source.type, layout, r)
        if r & free[REGISTER] or flag is False:
            continue
        guard = code.both(owner, None if flag is True else flag)
        guard = code.both(guard, code.icmp("ult", value, constant(value.type, bins)))
        if mask is not None:
            guard = code.both(guard, kernel.registers(mask)[r])
        place = shared_address(kernel, base, code.cast("trunc", value, I32), 4)
        code.machine("red.shared", [], [place, constant(I32, 1)], guard=guard)
    kernel.shared.meet()
    result = layout_of(op.result)
    places = [limited(kernel, index_in(kernel, (bins,), result, r), bins) for r in range(result.size(REGISTER))]
    kernel.bind(op.result, [shared_read(kernel, shared_address(kernel, base, p, 4), IR_I32) for p in places])
