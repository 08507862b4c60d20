"""How a loop can be stopped: it looks at the launch's cancel word, and now and then calls the host.

The host's poll function (context word 7, or 0) looks at Ctrl-C and the time limit.  A `while` loop may wait for another
program: its head looks every time, and word 8 counts the iterations until the next call.  A `for` loop that may be
long looks and calls every so many iterations, fewer the more work one has.  A stopped loop writes its number and its
program into words 2 and 3 of the status record and leaves the kernel.
Tests: tests/targets/cpu/test_control.py, tests/targets/cpu_host/test_host.py, tests/runtime/test_long_loops.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.ir.node import Op
from tilewright.ir.types import Pointer, element_of, shape_of
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.schemes import choose
from tilewright.targets.llvm.types import I64, PTR, Value, constant, integer_value

ITERATIONS = 64     # from one call of the poll function to the next


# Elements computed by a `for` loop between two looks: some 10 us to 1 ms, of which a look takes 50 ns.
_WORK = 1 << 17
_MOST_ITERATIONS = 1 << 12
_UNKNOWN_TRIPS = 64     # how often an inner loop runs, where that is not known


def poll(walker: Walker, op: Op) -> None:
    """Emitted at the head of the `while` loop `op`."""
    kernel, code = walker.kernel, walker.code
    kernel.messages.waits = True
    left_at = code.gep(kernel.context, 8, I64)
    left = code.op("sub", code.here(I64, f"load i64, {left_at}, align 8"), constant(I64, 1))
    code.store(left, left_at, 8)

    def call() -> Sequence[Value]:
        code.store(constant(I64, ITERATIONS), left_at, 8)
        _ask(walker)
        return ()

    code.branch(code.icmp("slt", left, constant(I64, 0)), call, unlikely=True)
    _leave_if_stopped(walker, op)


def poll_sometimes(walker: Walker, op: Op, count: Value, trips: Value) -> None:
    """Emitted in the `for` loop `op`, of whose `trips` iterations `count` have been; nothing if it is short."""
    code = walker.code
    interval = _MOST_ITERATIONS
    work = _work_of(walker, op)
    while interval > 1 and interval * work > _WORK:
        interval //= 2
    known = integer_value(trips)
    if known is not None and known < interval:
        return

    def look() -> Sequence[Value]:
        _ask(walker)
        _leave_if_stopped(walker, op)
        return ()

    phase = code.op("and", count, constant(I64, interval - 1))
    code.branch(code.icmp("eq", phase, constant(I64, interval - 1)), look, unlikely=True)


def _work_of(walker: Walker, op: Op) -> int:
    """Roughly the elements that an iteration of a loop computes."""
    total = 1
    for region in op.regions:
        for inner in region.ops:
            if inner.name == "dot":
                each = 8 if choose(walker.code.isa, inner).tiles is None else 256
                total += math.prod(shape_of(inner.result.type)) * shape_of(inner.operands[0].type)[-1] // each
                continue
            if inner.regions:
                total += _work_of(walker, inner) * (_UNKNOWN_TRIPS if inner.name in ("for", "while") else 1)
            results = [v for v in inner.results if not isinstance(element_of(v.type), Pointer)]
            total += max((math.prod(shape_of(v.type)) for v in results), default=1)
    return total


def _ask(walker: Walker) -> None:
    """Call the host, if it wants that."""
    kernel, code = walker.kernel, walker.code
    function = kernel.context_word(7, PTR)

    def ask() -> Sequence[Value]:
        code.do(f"call void {function.name}({kernel.context})")
        kernel.renew_tiles()
        return ()

    code.branch(code.icmp("ne", function, constant(PTR, 0)), ask)


def _leave_if_stopped(walker: Walker, op: Op) -> None:
    kernel, code = walker.kernel, walker.code
    loops = kernel.messages.loops
    if op.loc not in loops:
        loops.append(op.loc)
    number = loops.index(op.loc) + 1
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
