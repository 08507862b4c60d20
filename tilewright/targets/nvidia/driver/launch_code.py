"""The native launch of a kernel on a GPU, as LLVM text for the processor: what a native launcher calls.

`launch(record, slots, x, y, z, frame)` makes the kernel's context current where it is not, asks torch for its stream
(a function of its stable C interface; where that is not there or fails, `_cuda_getCurrentRawStream`, through Python),
points at the slots, and calls cuLaunchKernel.  Python's lock is held.
A kernel that loops over programs (`BLOCKS`, how many of its blocks the GPU runs at once, is not 0) gets as many
blocks along x as there are, at most one a program, and the number of programs as a parameter behind the slots.
A kernel with assertions gets the address of its status record there (`STATUS`); it never loops over programs.
The record's words are `launch_record.Record`; `frame` gets the driver's error code.
A grid with more than `Record.MOST_PROGRAMS` along an axis is for other code, and where a failed assertion waits to be
raised (`Record.FAILURES`), that is Python's business: `Record.BY_PYTHON` launches or raises.
A grid without programs is no launch, which the driver would refuse.
Of a kernel with tensor maps, `Record.TABLE` has the slots of its last launch and then the addresses of the maps that
belong to them; where the slots are others now, `Record.FILL` is called, which is Python's.
Tests: tests/targets/nvidia/driver/test_launch_code.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import I1, I8, I32, I64, PTR, Type, Value, constant
from tilewright.targets.nvidia.driver.launch_record import MOST_PARAMS, Record

NULL = constant(PTR, 0)
_SYMBOLS: tuple[tuple[str, Type, tuple[Type, ...]], ...] = (
    ("cuCtxGetCurrent", I32, (PTR,)), ("cuCtxPushCurrent_v2", I32, (PTR,)), ("cuCtxPopCurrent_v2", I32, (PTR,)),
    ("cuLaunchKernel", I32, (PTR, *(I32,) * 7, PTR, PTR, PTR)),
    ("PyObject_Vectorcall", PTR, (PTR, PTR, I64, PTR)), ("PyLong_AsVoidPtr", PTR, (PTR,)),
    ("Py_DecRef", Type("void"), (PTR,)),
)


def text() -> str:
    """The module's text."""
    module = ModuleWriter(Isa())
    for name, result, params in _SYMBOLS:
        module.declare(name, result, params)
    f = module.function("launch", [("record", PTR), ("slots", PTR), ("x", I64), ("y", I64), ("z", I64),
                                   ("frame", PTR)], I64)
    record, slots, x, y, z, frame = f.params
    _have_programs(f, (x, y, z))
    pushed = _enter_context(f, record)
    _may_launch(f, record, slots, (x, y, z), pushed)
    _have_maps(f, record, slots, (x, y, z), pushed)
    stream = _stream(f, record, pushed)
    arguments = _arguments(f, record, slots, x)
    blocks = _blocks(f, record, x, f.op("mul", y, z))
    sizes = [f.cast("trunc", v, I32) for v in (blocks, y, z, _word(f, record, Record.THREADS))]
    shared = f.cast("trunc", _word(f, record, Record.SHARED), I32)
    one = constant(I32, 1)
    code = _call(f, "cuLaunchKernel", (_word(f, record, Record.FUNCTION, PTR), *sizes, one, one, shared, stream,
                                       arguments, NULL))
    wide = f.cast("zext", code, I64)
    f.store(wide, frame, 8)
    _leave(f, pushed, wide)
    return module.text()


def _word(f: FunctionWriter, record: Value, offset: int, t: Type = I64) -> Value:
    return f.load(f.gep(record, constant(I64, offset), I8), t, 8)


def _call(f: FunctionWriter, name: str, args: Sequence[Value]) -> Value:
    result = next(r for n, r, _ in _SYMBOLS if n == name)
    return f.emit(result, f"call {result} @{name}({', '.join(map(str, args))})")


def _have_programs(f: FunctionWriter, grid: Sequence[Value]) -> None:
    """Return if there is nothing to launch."""
    x, y, z = (f.icmp("eq", size, constant(I64, 0)) for size in grid)
    none, go = f.label("none"), f.label("some")
    f.cond_br(f.op("or", f.op("or", x, y), z), none, go)
    f.place(none)
    f.ret(constant(I64, 0))
    f.place(go)


def _enter_context(f: FunctionWriter, record: Value) -> Value:
    """Make the kernel's context current; whether it was not."""
    current = f.alloca(PTR, align=8)
    f.store(NULL, current, 8)
    _call(f, "cuCtxGetCurrent", (current,))
    wanted = _word(f, record, Record.CONTEXT, PTR)
    other = f.icmp("ne", f.load(current, PTR, 8), wanted)
    push, go = f.label("push"), f.label("go")
    f.cond_br(other, push, go)
    f.place(push)
    _call(f, "cuCtxPushCurrent_v2", (wanted,))
    f.br(go)
    f.place(go)
    return other


def _leave(f: FunctionWriter, pushed: Value, result: Value) -> None:
    """Return, the former context current again."""
    pop, end = f.label("pop"), f.label("end")
    f.cond_br(pushed, pop, end)
    f.place(pop)
    _call(f, "cuCtxPopCurrent_v2", (f.alloca(PTR, align=8),))
    f.br(end)
    f.place(end)
    f.ret(result)


def _may_launch(f: FunctionWriter, record: Value, slots: Value, grid: Sequence[Value], pushed: Value) -> None:
    """Return if the grid is one for other code, or a failed assertion waits: then Python launches or raises."""
    limit = _word(f, record, Record.MOST_PROGRAMS)
    x, y, z = (f.icmp("ugt", size, limit) for size in grid)
    other, go = f.label("by_python"), f.label("few")
    f.cond_br(f.op("or", _has_failed(f, record), f.op("or", f.op("or", x, y), z)), other, go)
    f.place(other)
    function = _word(f, record, Record.BY_PYTHON, PTR)
    _leave(f, pushed, f.emit(I64, f"call i64 {function.name}({', '.join(map(str, (slots, *grid)))})"))
    f.place(go)


def _has_failed(f: FunctionWriter, record: Value) -> Value:
    """Whether one of the words that tell of failed assertions does; kernels on GPUs write them."""
    listed = f.load(_word(f, record, Record.FAILURES, PTR), PTR, 8)
    zero, one = constant(I64, 0), constant(I64, 1)

    def add(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        words = f.load(f.gep(listed, f.op("add", k, one), I64), PTR, 8)
        return (f.op("or", carried[0], f.load(words, I64, 8)),)

    (numbers,) = f.loop(zero, f.load(listed, I64, 8), one, add, (zero,))
    return f.icmp("ne", numbers, zero)


def _have_maps(f: FunctionWriter, record: Value, slots: Value, grid: Sequence[Value], pushed: Value) -> None:
    """Let the table have the maps for these slots; return if the launch has been done without."""
    fill, table = (_word(f, record, offset, PTR) for offset in (Record.FILL, Record.TABLE))
    compare, ask, other, go = (f.label(name) for name in ("compare", "fill", "done", "filled"))
    f.cond_br(f.icmp("eq", fill, NULL), go, compare)
    f.place(compare)

    def equal(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        here, there = (f.load(f.gep(p, k, I64), I64, 8) for p in (slots, table))
        return (f.op("and", carried[0], f.icmp("eq", here, there)),)

    zero, one = constant(I64, 0), constant(I64, 1)
    (same,) = f.loop(zero, _word(f, record, Record.PARAMS), one, equal, (constant(I1, 1),))
    f.cond_br(same, go, ask)
    f.place(ask)
    answer = f.emit(I64, f"call i64 {fill.name}({', '.join(map(str, (slots, *grid)))})")
    f.cond_br(f.icmp("eq", answer, one), go, other)
    f.place(other)
    _leave(f, pushed, answer)
    f.place(go)


def _stream(f: FunctionWriter, record: Value, pushed: Value) -> Value:
    """The stream to launch on; if torch's Python function raises, so does the launch."""
    native, function = (_word(f, record, offset, PTR) for offset in (Record.NATIVE_STREAM, Record.STREAM))
    said = f.alloca(PTR, align=8)
    natively, told, by_python, ask, answered, raised, go = (f.label(name) for name in (
        "natively", "told", "by_python", "ask", "answered", "raised", "launch"))
    f.cond_br(f.icmp("eq", native, NULL), by_python, natively)
    f.place(natively)
    number = f.cast("trunc", _word(f, record, Record.DEVICE_NUMBER), I32)
    failed = f.emit(I32, f"call i32 {native.name}({number}, {said})")
    f.cond_br(f.icmp("eq", failed, constant(I32, 0)), told, by_python)
    f.place(told)
    stream_said = f.load(said, PTR, 8)
    f.br(go)
    f.place(by_python)
    f.cond_br(f.icmp("eq", function, NULL), go, ask)
    f.place(ask)
    device = f.gep(record, constant(I64, Record.DEVICE), I8)
    answer = _call(f, "PyObject_Vectorcall", (function, device, constant(I64, 1), NULL))
    f.cond_br(f.icmp("eq", answer, NULL), raised, answered)
    f.place(raised)
    _leave(f, pushed, constant(I64, -1))
    f.place(answered)
    stream = _call(f, "PyLong_AsVoidPtr", (answer,))
    f.do(f"call void @Py_DecRef({answer})")
    f.br(go)
    f.place(go)
    return f.phi(PTR, [(stream_said, told), (NULL, by_python), (stream, answered)])


def _blocks(f: FunctionWriter, record: Value, programs: Value, others: Value) -> Value:
    """The blocks along x: `blocks_along_x`."""
    one = constant(I64, 1)
    at_once = _word(f, record, Record.BLOCKS)
    each = f.op("udiv", at_once, f.select(f.icmp("eq", others, constant(I64, 0)), one, others))
    least = f.select(f.icmp("ult", each, one), one, each)
    fewer = f.select(f.icmp("ult", least, programs), least, programs)
    return f.select(f.icmp("eq", at_once, constant(I64, 0)), programs, fewer)


def _arguments(f: FunctionWriter, record: Value, slots: Value, programs: Value) -> Value:
    """The addresses of the parameters' values; that of the status' address, or else of the number of programs, is one
    more than some kernels take."""
    addresses = f.alloca(PTR, MOST_PARAMS + 1, align=8)
    zero, one = constant(I64, 0), constant(I64, 1)

    def address(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        f.store(f.gep(slots, k, I64), f.gep(addresses, k, PTR), 8)
        return ()

    count = _word(f, record, Record.PARAMS)
    f.loop(zero, count, one, address, ())
    last, status = f.alloca(I64, align=8), _word(f, record, Record.STATUS)
    f.store(f.select(f.icmp("eq", status, zero), programs, status), last, 8)
    f.store(last, f.gep(addresses, count, PTR), 8)
    table, first = _word(f, record, Record.TABLE, PTR), _word(f, record, Record.FIRST_MAP)

    def copy(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        given = f.load(f.gep(table, f.op("add", count, k), I64), PTR, 8)
        f.store(given, f.gep(addresses, f.op("add", first, k), PTR), 8)
        return ()

    f.loop(zero, _word(f, record, Record.MAPS), one, copy, ())
    return addresses
