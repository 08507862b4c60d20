"""How a `while` loop can be stopped: its head looks at the launch's cancel word, and now and then calls the host.

The host's poll function (context word 7, or 0) looks at Ctrl-C and the time limit; word 8 counts the iterations until
its next call.  A stopped loop writes its number and its program into words 2 and 3 of the status record and leaves
the kernel.  Tests: tests/targets/cpu/test_control.py, tests/targets/cpu_host/test_host.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Op
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.llvm.types import I64, PTR, Value, constant

ITERATIONS = 64     # from one call of the poll function to the next


def poll(walker: Walker, op: Op) -> None:
    """Emitted at the head of loop `op`."""
    kernel, code = walker.kernel, walker.code
    loops = kernel.messages.loops
    if op.loc not in loops:
        loops.append(op.loc)
    number = loops.index(op.loc) + 1
    left_at = code.gep(kernel.context, 8, I64)
    left = code.op("sub", code.here(I64, f"load i64, {left_at}, align 8"), constant(I64, 1))
    code.store(left, left_at, 8)

    def call() -> Sequence[Value]:
        code.store(constant(I64, ITERATIONS), left_at, 8)
        function = kernel.context_word(7, PTR)

        def ask() -> Sequence[Value]:
            code.do(f"call void {function.name}({kernel.context})")
            return ()

        code.branch(code.icmp("ne", function, constant(PTR, 0)), ask)
        return ()

    code.branch(code.icmp("slt", left, constant(I64, 0)), call)
    stop = code.here(I64, f"load volatile i64, {kernel.context_word(6, PTR)}, align 8")

    def record() -> None:
        status = kernel.context_word(4, PTR)
        place = code.gep(status, 2, I64)
        old = code.here(I64, f"cmpxchg {place}, i64 0, i64 {number} monotonic monotonic")
        won = code.here(stop.type.of("i1"), f"extractvalue {{ i64, i1 }} {old.name}, 1")

        def note() -> Sequence[Value]:
            code.store(kernel.program[3], code.gep(status, 3, I64), 8)
            return ()

        code.branch(won, note)

    code.leave_if(code.icmp("ne", stop, constant(I64, 0)), record)
