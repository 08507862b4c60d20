"""`device_print` and `device_assert`.

A print is the device's `vprintf` (CUDA C++ Programming Guide, Formatted output), a call for each element, made by its
owner.  A failed assertion puts its number and the program into the launch's status record, if none is there, and all
threads of the program leave the kernel; the host raises the error.
Tests: tests/lang and tests/conform, on the engine ptx.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.diagnostics import location_record
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1 as IR_I1
from tilewright.ir.types import Element, Pointer, Scalar, Tile, element_of
from tilewright.layout.linear import REGISTER
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import DOUBLE, I32, I64, PTR, Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.rearrange import coordinates
from tilewright.targets.nvidia.state import Kernel, inside

_WORD = 8


def device_print(kernel: Kernel, op: Op) -> None:
    """A line for each element, in the form of `interpret.printing`."""
    kernel.messages.prints.append({"prefix": op.attrs["prefix"], "hex": op.attrs["hex"],
                                   "signed": list(op.attrs["signed"]), "types": [str(v.type) for v in op.operands]})
    head = op.attrs["prefix"].strip()
    first = kernel.code.is_first_thread()
    if not op.operands:
        _line(kernel, first, head, [], [])
        return
    head += "" if head.endswith(":") else ":"
    for number, value in enumerate(op.operands):
        label = f"{head} (operand {number})" if len(op.operands) > 1 else head
        _print_value(kernel, op, value, label, op.attrs["signed"][number])


def _print_value(kernel: Kernel, op: Op, value: Value, label: str, signed: bool) -> None:
    code, element = kernel.code, element_of(value.type)
    signed = signed and not op.attrs["hex"]
    form = _form(element, op.attrs["hex"], signed)
    if not isinstance(value.type, Tile):
        shown = _shown(kernel, kernel.scalar(value), element, signed)
        _line(kernel, code.is_first_thread(), f"idx () {label} {form}", [], [shown])
        return
    layout = layout_of(value)
    free = layout.free()
    owner = code.thread_flag(dict(free))
    place = ", ".join(["%lld"] * value.type.rank)
    for r, v in enumerate(kernel.registers(value)):
        flag = inside(kernel, value.type, layout, r)
        if r & free[REGISTER] or flag is False:
            continue
        guard = code.both(owner, None if flag is True else flag)
        _line(kernel, guard, f"idx ({place}) {label} {form}", coordinates(kernel, layout, r),
              [_shown(kernel, v, element, signed)])


def _form(element: Element, hex: bool, signed: bool) -> str:
    """printf's conversion for an element in 64 bits."""
    if isinstance(element, Scalar) and element.is_float:
        return "%a" if hex else "%f"
    if hex or isinstance(element, Pointer):
        return f"0x%0{max(1, element.bits // 4)}llx"
    return "%lld" if signed and element != IR_I1 else "%llu"


def _shown(kernel: Kernel, value: LlvmValue, element: Element, signed: bool) -> LlvmValue:
    """An element as a double or an i64."""
    code = kernel.code
    if isinstance(element, Pointer):
        return code.cast("ptrtoint", value, I64)
    if element.is_float:
        return code.cast("fpext", convert.widen(code, value, element), DOUBLE)
    return code.cast("sext" if signed and element != IR_I1 else "zext", value, I64)


def _line(kernel: Kernel, guard: LlvmValue | None, text: str, place: Sequence[LlvmValue],
          values: Sequence[LlvmValue]) -> None:
    """One call of vprintf where `guard`: the program, then `text` with its numbers."""
    code = kernel.code
    program = [code.machine(f"ctaid.{a}", [I32], [])[0] for a in "xyz"]
    words = [code.cast("zext", v, I64) if v.type == I32 else v for v in (*program, *place, *values)]
    format_name = _format(kernel, f"pid (%lld, %lld, %lld) {text}\n")

    def call() -> Sequence[LlvmValue]:
        buffer = code.alloca(I64, len(words), align=_WORD)
        for k, word in enumerate(words):
            code.store(word, code.gep(buffer, k, I64), _WORD)
        code.machine("vprintf", [I32], [LlvmValue(PTR, format_name), buffer])
        return ()

    if guard is None:
        call()
    else:
        code.branch(guard, call)


def _format(kernel: Kernel, text: str) -> str:
    """The address of a format string in global memory, as a generic pointer."""
    module = kernel.code.module
    data = text.encode() + b"\0"
    body = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)
    name = f"tilewright_format_{kernel.formats.setdefault(text, len(kernel.formats))}"
    module.add_global(f'@{name} = internal addrspace(1) constant [{len(data)} x i8] c"{body}"')
    return f"addrspacecast (ptr addrspace(1) @{name} to ptr)"


def device_assert(kernel: Kernel, op: Op) -> None:
    """Leave the kernel, all threads together, unless every element holds."""
    code, condition = kernel.code, op.operands[0]
    kernel.messages.asserts.append({"message": op.attrs["message"], "location": location_record(op.loc)})
    number = len(kernel.messages.asserts)
    holds = _holds_everywhere(kernel, condition)
    out, on = code.label("failed"), code.label("holds")
    code.cond_br(holds, on, out)
    code.place(out)
    code.branch(code.is_first_thread(), lambda: _record(kernel, number))
    code.ret()
    code.place(on)


def _holds_everywhere(kernel: Kernel, condition: Value) -> LlvmValue:
    """Whether an i1 value is true in all elements: the same answer in all threads."""
    if not isinstance(condition.type, Tile):
        return kernel.scalar(condition)
    code, layout = kernel.code, layout_of(condition)
    mine: LlvmValue | None = None
    for r, value in enumerate(kernel.registers(condition)):
        flag = inside(kernel, condition.type, layout, r)
        if flag is False:
            continue
        mine = code.both(mine, value if flag is True else code.op("or", value, code.not_(flag)))
    assert mine is not None
    t = Type("i1")
    if code.num_warps == 1:
        return code.machine("vote_all", [t], [constant(I32, -1), mine])[0]
    return code.machine("barrier_and", [t], [constant(I32, 0), mine])[0]


def _record(kernel: Kernel, number: int) -> Sequence[LlvmValue]:
    """Assertion `number` failed in this program: into the status record, if it is the first."""
    code = kernel.code
    status = code.cast("inttoptr", kernel.hidden("status"), PTR)
    (old,) = code.machine("atom.cas", [I64], [status, constant(I64, 0), constant(I64, number)], how=".relaxed.gpu",
                          kind="b64")
    won = code.icmp("eq", old, constant(I64, 0))
    for k, axis in enumerate("xyz", 1):
        (place,) = code.machine(f"ctaid.{axis}", [I32], [])
        word = code.gep(status, k, I64)
        code.machine("st", [], [word, code.cast("zext", place, I64)], guard=won, space=".global", hints="", vector="",
                     kind="b64")
    return ()
