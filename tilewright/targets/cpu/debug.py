"""`device_print` and `device_assert` in compiled code.

A print puts its operands into scratch and calls the host's callback with their addresses.  A failed assertion claims
the launch's status record for itself and leaves the kernel; the host raises the error.
Tests: tests/targets/cpu/test_debug.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.diagnostics import NotOnThisTargetError, location_record
from tilewright.ir.node import Op, Value
from tilewright.ir.ops.assembly import only_on_gpus
from tilewright.ir.types import I1, I8, I64, Pointer, Tile, shape_of
from tilewright.targets.cpu import access
from tilewright.targets.cpu.evaluate import Evaluator, Index
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.lanes import Form, Lane
from tilewright.targets.cpu.nest import Nest
from tilewright.targets.cpu.state import Buffer
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import PTR, constant
from tilewright.targets.llvm.types import Value as LlvmValue


def device_print(walker: Walker, op: Op) -> None:
    """Pass the operands' addresses to the host's callback, in program order."""
    kernel, code = walker.kernel, walker.code
    number = len(kernel.messages.prints)
    kernel.messages.prints.append({"prefix": op.attrs["prefix"], "hex": op.attrs["hex"],
                                   "signed": list(op.attrs["signed"]), "types": [str(v.type) for v in op.operands]})
    buffers = [_in_scratch(walker, v) for v in op.operands]
    table = kernel.new_buffer(Tile((max(1, len(buffers)),), I64))
    base = _address(walker, table)
    for k, buffer in enumerate(buffers):
        code.store(_address(walker, buffer), code.gep(base, k, LLVM_I64), 8)
    callback = code.emit(PTR, f"inttoptr {kernel.context_word(5, LLVM_I64)} to ptr")
    present = code.icmp("ne", kernel.context_word(5, LLVM_I64), constant(LLVM_I64, 0))

    def call() -> Sequence[LlvmValue]:
        code.do(f"call void {callback.name}(i64 {number}, {kernel.program[3]}, {base})")
        kernel.renew_tiles()
        return ()

    code.branch(present, call)
    for buffer in (*buffers, table):
        kernel.free(buffer)


def _in_scratch(walker: Walker, value: Value) -> Buffer:
    """A copy of a value in scratch, for the time of one call."""
    t = value.type if isinstance(value.type, Tile) else Tile((1,), value.type)
    buffer = walker.kernel.new_buffer(t)
    if isinstance(value.type, Tile):
        walker.keep([value], [buffer])
    else:
        with walker.code.scope() as floor:
            e = Evaluator(walker.kernel, 1, floor)
            access.store_lane(e, Lane(Pointer(I8), Form.UNIFORM, walker.kernel.scratch_base, buffer.offset),
                              e.at(value, ()), None)
    return buffer


def _address(walker: Walker, buffer: Buffer) -> LlvmValue:
    return walker.code.gep(walker.kernel.scratch_base, buffer.offset, LLVM_I64.of("i8"))


def device_assert(walker: Walker, op: Op) -> None:
    """Leave the kernel unless every element holds."""
    kernel, code = walker.kernel, walker.code
    number = len(kernel.messages.asserts) + 1
    kernel.messages.asserts.append({
        "message": op.attrs["message"],
        "location": location_record(op.loc)})
    holds = _all_true(walker, op.operands[0])
    status = kernel.context_word(4, PTR)

    def record() -> None:
        old = code.here(LLVM_I64, f"cmpxchg {status}, i64 0, i64 {number} monotonic monotonic")
        won = code.here(holds.type, f"extractvalue {{ i64, i1 }} {old.name}, 1")

        def note() -> Sequence[LlvmValue]:
            code.store(kernel.program[3], code.gep(status, 1, LLVM_I64), 8)
            return ()

        code.branch(won, note)

    code.leave_if(code.not_(holds), record)


def _all_true(walker: Walker, condition: Value) -> LlvmValue:
    """Whether every element of an i1 value is true."""
    if not isinstance(condition.type, Tile):
        return walker.scalar_value(condition)
    kernel, code = walker.kernel, walker.code
    flag = kernel.new_buffer(Tile((1,), I1))
    address = _address(walker, flag)
    byte = LLVM_I64.of("i8")
    code.store(constant(byte, 1), address, 1)
    shape = shape_of(condition.type)

    def emit(nest: Nest) -> Sequence[LlvmValue]:
        def body(e: Evaluator, index: Index) -> None:
            lane = e.at(condition, index)
            holds = e.scalar(lane) if lane.is_uniform else code.all_lanes(e.full(lane))
            so_far = code.here(byte, f"load i8, {address}, align 1")
            code.store(code.op("and", so_far, code.cast("zext", holds, byte)), address, 1)

        walker.iterate(nest, body)
        return ()

    walker.nest([condition], shape, walker.prepare([condition], shape), emit)
    result = code.icmp("ne", code.here(byte, f"load i8, {address}, align 1"), constant(byte, 0))
    kernel.free(flag)
    return result


def assume(walker: Walker, op: Op) -> None:
    """A promise needs no code."""


def refuse_assembly(walker: Walker, op: Op) -> None:
    """PTX is for GPUs; what orders launches has nothing to do where each ends before the next begins."""
    if not op.attrs.get("nothing_elsewhere"):
        raise NotOnThisTargetError(only_on_gpus(op.attrs["name"]), op.loc)
