"""Launches that are the only ones with atomic operations, as LLVM text: they need not lock the bus.

A locked instruction takes 20 cycles or more, ten times a plain read, addition and write.  While one thread runs all of
a launch, and no other launch of this process with atomic operations runs, plain ones do the same.  One word of the
process says who runs: 0 nobody, a positive number so many launches that lock, a negative one the thread that does not.
`begin_atomics` makes a launch one of them, after waiting for a thread that does not lock; `share_atomics` makes it one
that locks, before other threads help, and `part_atomics` one that does not, when they have gone (`trial_code` asks for
both); `end_atomics` takes it out.  What waits for other programs (a `while` loop) or
calls Python always locks, so that it keeps nobody waiting.  A launch within another one of the same thread
is as alone as that is.  Operations of scope "sys" always lock: other processes may work on the same memory.
Before: `pool_code`'s small functions are in the module.  Tests: tests/targets/cpu_host/test_lone.py.
"""

from __future__ import annotations

from tilewright.targets.cpu.host.native import Jump, Native, NativeModule
from tilewright.targets.cpu.host.records import Flags, Frame, Held, Kernel, Pool
from tilewright.targets.cpu.host.sharing_code import Machine
from tilewright.targets.llvm.types import I64, PTR, Value

SPINS = 1_000       # pauses of a waiting launch between two looks at Ctrl-C


class LoneCode:
    """Writes the four functions; a kernel reads `Frame.ALONE`."""

    def __init__(self, module: NativeModule, machine: Machine) -> None:
        self.module = module
        self.machine = machine
        module.external("pthread_self", I64)
        module.external("sched_yield", I64.of("i32"))
        self._begin()
        self._share()
        self._part()
        self._end()

    def _word(self, n: Native, kernel: Value) -> Value:
        return n.get(n.get(kernel, Kernel.POOL, PTR), Pool.LONE_AT, PTR)

    def _leave_unless_atomic(self, n: Native, kernel: Value) -> None:
        n.when(n.is_("eq", n.both(n.get(kernel, Kernel.FLAGS), Flags.ATOMICS), 0), n.leave)

    def _begin(self) -> None:
        n = self.module.function("begin_atomics", [("kernel", PTR), ("frame", PTR)], inline=True)
        kernel, frame = n.params
        n.put(frame, Frame.ALONE, 0)
        n.put(frame, Frame.HELD, Held.NOTHING)
        self._leave_unless_atomic(n, kernel)
        word, self_ = self._word(n, kernel), n.sub(0, n.call("pthread_self"))
        waits = n.is_("ne", n.both(n.get(kernel, Kernel.FLAGS), Flags.POLLS | Flags.CALLS_PYTHON), 0)
        spins = n.variable(0)

        def alone() -> None:
            n.put(frame, Frame.ALONE, 1)
            n.put(frame, Frame.HELD, Held.ALONE)
            n.leave()

        def with_others() -> None:
            n.put(frame, Frame.HELD, Held.WITH_OTHERS)
            n.leave()

        def within() -> None:
            n.put(frame, Frame.ALONE, 1)
            n.leave()

        def attempt(stop: Jump, again: Jump) -> None:
            state = n.atomic_get(word)
            n.when(n.is_("eq", state, self_), within)
            free = n.both(n.is_("eq", state, 0), n.f.not_(waits))
            n.when(free, lambda: n.when(n.exchange_if(word, 0, state, self_), alone, again))
            n.when(n.is_("sge", state, 0), lambda: n.when(n.exchange_if(word, 0, state, n.add(state, 1)), with_others,
                                                          again))
            n.call("release", frame)        # who runs may need Python's lock
            n.f.do(self.machine.pause)
            n.increase(spins)
            n.when(n.is_("ult", n.read(spins), SPINS), again)
            n.write(spins, 0)
            n.call("sched_yield")
            n.call("poll", frame)
            n.when(n.call("stopped", frame), stop)

        n.loop(attempt)
        n.end()

    def _share(self) -> None:
        n = self.module.function("share_atomics", [("kernel", PTR), ("frame", PTR)], inline=True)
        kernel, frame = n.params
        self._leave_unless_atomic(n, kernel)
        n.put(frame, Frame.ALONE, 0)

        def let_in() -> None:
            n.put(frame, Frame.HELD, Held.WITH_OTHERS)
            n.atomic_put(self._word(n, kernel), 0, 1)

        n.when(n.is_("eq", n.get(frame, Frame.HELD), Held.ALONE), let_in)
        n.end()

    def _part(self) -> None:
        """After helpers have gone: alone again, if no other launch has come meanwhile."""
        n = self.module.function("part_atomics", [("kernel", PTR), ("frame", PTR)])
        kernel, frame = n.params

        def alone() -> None:
            n.put(frame, Frame.ALONE, 1)
            n.put(frame, Frame.HELD, Held.ALONE)

        n.when(n.is_("ne", n.get(frame, Frame.HELD), Held.WITH_OTHERS), n.leave)
        n.when(n.exchange_if(self._word(n, kernel), 0, n.value(1), n.sub(0, n.call("pthread_self"))), alone)
        n.end()

    def _end(self) -> None:
        n = self.module.function("end_atomics", [("kernel", PTR), ("frame", PTR)], inline=True)
        kernel, frame = n.params
        self._leave_unless_atomic(n, kernel)
        held, word = n.get(frame, Frame.HELD), self._word(n, kernel)
        n.when(n.is_("eq", held, Held.ALONE), lambda: n.atomic_put(word, 0, 0))
        n.when(n.is_("eq", held, Held.WITH_OTHERS), lambda: n.atomic_change("sub", word, 0, 1))
        n.end()
