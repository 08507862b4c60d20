"""Kernels for the host's tests, written by hand: void kernel(ptr slots, i64 first, i64 last, ptr context)."""

from tilewright.targets.base import CodeObject
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import DOUBLE, I1, I32, I64, PTR, constant

MACHINE = toolchain.host_machine()


def kernel(body, **metadata):
    """A code object that runs body(f, pid, slots, context) for each program."""
    module = ModuleWriter(MACHINE.isa)
    f = module.function("kernel", [("slots", PTR), ("first", I64), ("last", I64), ("context", PTR)])
    slots, first, last, context = f.params

    def program(pid, _):
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
    """Never ends but by the cancel word.  slots: a flag (i64*) that says that it runs."""
    f.store(constant(I64, 1), word(f, slots, 0, PTR), 8)
    cancel = word(f, context, 6, PTR)
    polled = f"load atomic i64, {cancel} monotonic, align 8"
    f.while_loop((), lambda _: f.icmp("eq", f.emit(I64, polled), constant(I64, 0)), lambda _: ())
