"""Kernels for the host's tests, written by hand: void kernel(ptr slots, i64 first, i64 last, ptr context)."""

import functools

from tilewright.targets.base import CodeObject
from tilewright.targets.cpu.host.choice import best_kind
from tilewright.targets.cpu.host.library import Library
from tilewright.targets.cpu.host.linux import LinuxHost
from tilewright.targets.cpu.host.portable import PortableHost
from tilewright.targets.cpu.host.records import Frame
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.client import CHILDREN
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import DOUBLE, I1, I32, I64, PTR, constant

MACHINE = toolchain.host_machine()
KINDS = ["portable", *(["linux"] if best_kind() == "linux" else [])]
WAITS = {"polls_cancel": True, "loops": [{"file": "user.py", "line": 7, "column": 4, "end_line": 7, "end_column": 9,
                                          "function": "my_kernel"}]}


def make(kind, threads=None, worth_help_ns=0, timeout_s=0.0):
    """A host that shares even the smallest work."""
    if kind == "portable":
        return PortableHost(threads, worth_help_ns, timeout_s)
    return LinuxHost(CHILDREN, threads, worth_help_ns, timeout_s, library=LIBRARY())


@functools.cache
def LIBRARY():
    """The native code of the Linux host, compiled once for all tests."""
    return Library(CHILDREN)


def kernel(body, **metadata):
    """A code object that runs body(f, pid, slots, context) for each program."""
    module = ModuleWriter(MACHINE.isa)
    f = module.function("kernel", [("slots", PTR), ("first", I64), ("last", I64), ("context", PTR)])
    slots, first, last, context = f.params

    def program(pid, _):
        f.do(f"store volatile {pid}, {f.gep(context, Frame.PROGRAM // 8, I64)}, align 8")
        body(f, pid, slots, context)
        return ()

    f.loop(first, last, constant(I64, 1), program)
    f.ret()
    compiled = toolchain.compile_object(module.text(), MACHINE)
    return CodeObject("cpu", "kernel", compiled.binary, metadata={"entry": "kernel", **metadata})


def word(f, base, index, t=I64):
    return f.load(f.gep(base, index, I64), t, 8)


def counted(f, pid, slots, context):
    """slots: counts (i32*), rounds, skew.  Adds 1 to the program's count after rounds + skew * id additions."""
    rounds = f.op("add", word(f, slots, 1), f.op("mul", word(f, slots, 2), pid))
    (busy,) = f.loop(constant(I64, 0), rounds, constant(I64, 1),
                     lambda i, v: (f.op("fadd", v[0], constant(DOUBLE, 1.0)),), (constant(DOUBLE, 0.0),))
    one = f.select(f.fcmp("oge", busy, constant(DOUBLE, 0.0)), constant(I32, 1), constant(I32, 0))
    cell = f.gep(word(f, slots, 0, PTR), pid, I32)
    f.store(f.op("add", f.load(cell, I32, 4), one), cell, 4)


def fail_at(f, pid, slots, context):
    """slots: an id.  The program of that id and those above it fail assertion 0."""
    def fail():
        status = word(f, context, 4, PTR)
        pair = f.emit(I64, f"cmpxchg {status}, i64 0, i64 1 monotonic monotonic")
        won = f.emit(I1, f"extractvalue {{ i64, i1 }} {pair.name}, 1")
        f.branch(won, lambda: f.store(pid, f.gep(status, 1, I64), 8) or ())
        return ()

    f.branch(f.icmp("sge", pid, word(f, slots, 0)), fail)


def wait_for_cancel(f, pid, slots, context):
    """Never ends but by the cancel word, as a `while` loop of a compiled kernel.  slots: a flag (i64*) that says that
    it runs."""
    f.store(constant(I64, 1), word(f, slots, 0, PTR), 8)
    cancel, function, left_at = word(f, context, 6, PTR), word(f, context, 7, PTR), f.gep(context, 8, I64)
    polled = f"load atomic i64, {cancel} monotonic, align 8"

    def body(_):
        left = f.op("sub", f.load(left_at, I64, 8), constant(I64, 1))
        f.store(left, left_at, 8)

        def call():
            f.store(constant(I64, 64), left_at, 8)
            f.branch(f.icmp("ne", function, constant(PTR, 0)),
                     lambda: f.do(f"call void {function.name}({context})") or ())
            return ()

        f.branch(f.icmp("slt", left, constant(I64, 0)), call)
        return ()

    f.while_loop((), lambda _: f.icmp("eq", f.emit(I64, polled), constant(I64, 0)), body)
    status = word(f, context, 4, PTR)
    f.store(constant(I64, 1), f.gep(status, 2, I64), 8)
    f.store(pid, f.gep(status, 3, I64), 8)
