"""The thread pool of Linux, as LLVM text: who runs which programs of a launch, and when threads sleep.

Launching takes the pool's lock or, when another thread has it, runs alone; `sharing_code` says how work is shared.
Work too small to be worth the others' help stays on the caller (`launch` measures its first programs to find out); half
as much is enough where they are awake, four times as much is asked for where they have slept for long.
Ctrl-C and the time limit are looked at by the caller alone, between chunks, while it waits and in `while` loops of
the kernel, which call `poll`; they set the cancel word, which everybody looks at.
Before: the records of `records.py`.  After `launch`: every program has run or the launch was stopped, and no thread is
in the kernel any more.  Tests: tests/targets/cpu_host/test_host.py, test_linux.py.
"""

from __future__ import annotations

from tilewright.targets.cpu.host.fault_code import FaultCode
from tilewright.targets.cpu.host.lone_code import LoneCode
from tilewright.targets.cpu.host.native import Jump, Native, NativeModule
from tilewright.targets.cpu.host.records import Cancel, Flags, Frame, Kernel, Pool
from tilewright.targets.cpu.host.sharing_code import FUTEX_WAKE, Machine, SharingCode, call_kernel, futex
from tilewright.targets.cpu.host.trial_code import TrialCode
from tilewright.targets.llvm.types import I1, I32, I64, PTR, VOID, Type, Value, constant

KEEP_LOCK_NS = 20_000           # shorter launches keep Python's lock: giving it away and back costs 40 ns
NEAR_NS = 30_000                # small launches that follow each other so closely keep helpers awake
DOZE_NS = 2_000_000             # helpers who sleep for longer come after 20 to 60 us, before that after 5 to 10
COLD_NS = 10_000                # programs that take longer do not do so for want of code and data in the caches
CHECK_NS = 20_000_000           # how often Ctrl-C and the clock are looked at
COUNTDOWN = 64                  # iterations of a kernel's loop between two polls
SMALL_SCRATCH = 4096            # scratch up to this is on the caller's stack


class PoolCode:
    """Writes the pool's functions into a module; `launch` is the public one."""

    def __init__(self, module: NativeModule, machine: Machine) -> None:
        self.module = module
        self.machine = machine
        self._declare()
        self._clock()
        self._stopped()
        self._release()
        self._poll()
        if machine.catches_faults:
            FaultCode(module)
        else:
            self._run_kernel()
        self._lap()
        self._timed()
        self._solo()
        self._scratch_block()
        LoneCode(module, machine)
        SharingCode(module, machine)
        TrialCode(module)
        self._measure()
        self._near()
        self._run()
        self._launch()
        self._stop()

    def _declare(self) -> None:
        m = self.module
        m.external("syscall", I64, I64, variadic=True)
        m.external("pthread_create", I32, PTR, PTR, PTR, PTR)
        m.external("pthread_detach", I32, I64)
        m.external("pthread_sigmask", I32, I32, PTR, PTR)
        m.external("sigfillset", I32, PTR)
        m.external("sigdelset", I32, PTR, I32)
        m.external("sched_getcpu", I32)
        m.external("sched_getaffinity", I32, I32, I64, PTR)
        m.external("sched_setaffinity", I32, I32, I64, PTR)
        m.external("clock_gettime", I32, I32, PTR)
        m.external("aligned_alloc", PTR, I64, I64)
        m.external("free", VOID, PTR)
        m.external("PyEval_SaveThread", PTR)
        m.external("PyEval_RestoreThread", VOID, PTR)
        m.external("PyGILState_Ensure", I32)
        m.external("PyGILState_Release", VOID, I32)
        m.external("PyErr_CheckSignals", I32)
        for text in (self.machine.pause, self.machine.fence):
            if "@" in text:
                name = text[text.index("@") + 1:text.index("(")]
                m.writer.declare(name, VOID, [I32] if "i32" in text else [])

    # -- small pieces

    def _clock(self) -> None:
        n = self.module.function("clock", [], I64)
        time = n.f.alloca(I64, 2, align=16)
        n.call("clock_gettime", constant(I32, 1), time)
        n.end(n.add(n.mul(n.get(time), 1_000_000_000), n.get(time, 8)))

    def _stopped(self) -> None:
        """Whether an assertion has failed or the launch was cancelled."""
        n = self.module.function("stopped", [("frame", PTR)], I1, inline=True)
        frame, = n.params
        status = n.atomic_get(frame, Frame.STATUS, order="monotonic")
        n.end(n.is_("ne", n.either(status, n.atomic_get(frame, Frame.CANCEL, order="monotonic")), 0))

    def _poll(self) -> None:
        """Look at the clock, and every `CHECK_NS` at the time limit and Ctrl-C."""
        n = self.module.function("poll", [("context", PTR)])
        frame = n.get(n.params[0], Frame.SELF, PTR)
        now = n.call("clock")
        due = n.get(frame, Frame.NEXT_CHECK)
        n.when(n.is_("ult", now, due), n.leave)
        n.put(frame, Frame.NEXT_CHECK, n.add(now, CHECK_NS))
        n.when(n.is_("eq", due, 0), n.leave)
        deadline = n.get(frame, Frame.DEADLINE)

        def too_late() -> None:
            n.atomic_put(frame, Frame.CANCEL, Cancel.TIMEOUT)
            n.leave()

        n.when(n.both(n.is_("ne", deadline, 0), n.is_("uge", now, deadline)), too_late)
        n.call("release", frame)        # a launch that was thought to be short is a long one
        lock = n.call("PyGILState_Ensure")
        failed = n.call("PyErr_CheckSignals")
        n.call("PyGILState_Release", lock)
        n.when(n.is_("ne", failed, 0), lambda: n.atomic_put(frame, Frame.CANCEL, Cancel.INTERRUPTED))
        n.end()

    def _release(self) -> None:
        """Give Python's lock away, unless that has been done."""
        n = self.module.function("release", [("frame", PTR)])
        frame, = n.params
        n.when(n.is_("eq", n.get(frame, Frame.THREAD), 0),
               lambda: n.put(frame, Frame.THREAD, n.as_int(n.call("PyEval_SaveThread"))))
        n.end()

    def _run_kernel(self) -> None:
        """Run programs first..last-1; `fault_code` has this for processors on which it catches faults."""
        n = self.module.function("run_kernel", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                                ("context", PTR)], inline=True)
        kernel, slots, first, last, context = n.params
        n.call_pointer(n.get(kernel, Kernel.ENTRY, PTR), VOID, slots, first, last, context)
        n.end()

    def _timed(self) -> None:
        """Run programs first..last-1 on the caller and note what they cost; the elapsed ns."""
        n = self.module.function("timed", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                           ("frame", PTR)], I64)
        kernel, slots, first, last, frame = n.params
        n.put(frame, Frame.LAP, n.call("clock"))
        n.end(n.call("lap", kernel, slots, first, last, frame))

    def _lap(self) -> None:
        """The same for programs that run right after others, at whose end the clock was read: that takes 30 to 100 ns.
        """
        n = self.module.function("lap", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                         ("frame", PTR)], I64, inline=True)
        kernel, slots, first, last, frame = n.params
        call_kernel(n, kernel, slots, first, last, frame)
        now = n.call("clock")
        elapsed = n.sub(now, n.get(frame, Frame.LAP))
        n.put(frame, Frame.LAP, now)
        cost = n.op("udiv", n.op("shl", elapsed, 10), n.sub(last, first))
        n.put(kernel, Kernel.COST, n.greatest(cost, 1))
        n.end(elapsed)

    def _solo(self) -> None:
        """Run programs first..last-1 here, in parts short enough for Ctrl-C."""
        n = self.module.function("solo", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                          ("frame", PTR)])
        kernel, slots, begin, last, frame = n.params
        pool = n.get(kernel, Kernel.POOL, PTR)
        first = n.variable(begin)

        def part(stop: Jump, _: Jump) -> None:
            now = n.read(first)
            n.when(n.is_("uge", now, last), stop)
            n.when(n.call("stopped", frame), stop)
            cost, left = n.get(kernel, Kernel.COST), n.sub(last, now)
            known = n.op("udiv", n.op("shl", n.get(pool, Pool.SLICE), 10), n.greatest(cost, 1))
            most = n.pick(n.is_("eq", cost, 0), 1, n.greatest(known, 1))

            def rest() -> None:
                call_kernel(n, kernel, slots, now, last, frame)
                stop()

            n.when(n.is_("ule", left, most), rest)
            end = n.add(now, most)
            n.call("timed", kernel, slots, now, end, frame)
            n.call("release", frame)
            n.call("poll", frame)
            n.write(first, end)

        n.loop(part)
        n.end()

    def _scratch_block(self) -> None:
        """A block of at least `bytes` bytes behind a head of 64: `old` if it is large enough, else a new one; null if
        there is no memory.  Blocks are 64-aligned; their first word is their capacity."""
        n = self.module.function("scratch_block", [("old", PTR), ("bytes", I64)], PTR)
        old, size = n.params
        is_null = n.is_("eq", n.as_int(old), 0)

        def fits() -> None:
            n.when(n.is_("uge", n.get(old), size), lambda: n.leave(old))

        n.when(n.f.not_(is_null), fits)
        n.call("free", old)
        rounded = n.both(n.add(size, 127), -64)
        new = n.call("aligned_alloc", 64, rounded)
        n.when(n.is_("ne", n.as_int(new), 0), lambda: n.put(new, 0, n.sub(rounded, 64)))
        n.end(new)

    def _measure(self) -> None:
        """Run some of the first programs of `total` to learn what one costs; how many were run.

        After a pause the first ones wait for code and data that have left the caches: what seems to have become slower
        is measured once more, else a small launch would wake the others, who sleep, too.
        """
        n = self.module.function("measure", [("kernel", PTR), ("slots", PTR), ("total", I64), ("frame", PTR)], I64)
        kernel, slots, total, frame = n.params
        most = n.greatest(n.op("lshr", total, 5), 1)
        first, before = n.variable(0), n.get(kernel, Kernel.COST)
        count = n.variable(n.pick(n.is_("eq", before, 0), 1, most))

        def step(stop: Jump, again: Jump) -> None:
            now = n.read(first)
            n.when(n.is_("uge", now, most), stop)
            n.when(n.call("stopped", frame), stop)
            end = n.add(now, n.least(n.read(count), n.sub(most, now)))
            elapsed = n.call("timed", kernel, slots, now, end, frame)
            n.write(first, end)
            n.when(n.is_("ugt", elapsed, 1_000), lambda: doubt(elapsed, stop))
            n.write(count, n.mul(end, 8))

        def doubt(elapsed: Value, stop: Jump) -> None:
            now, cost = n.read(first), n.get(kernel, Kernel.COST)
            slower = n.both(n.is_("ugt", cost, n.mul(before, 2)), n.is_("ne", before, 0))
            n.when(n.f.not_(n.both(slower, n.is_("ult", elapsed, COLD_NS))), stop)
            end = n.least(n.add(now, now), total)
            n.when(n.is_("uge", now, end), stop)
            n.call("timed", kernel, slots, now, end, frame)
            n.put(kernel, Kernel.COST, n.least(cost, n.get(kernel, Kernel.COST)))
            n.write(first, end)
            stop()

        n.loop(step)
        n.end(n.read(first))

    def _near(self) -> None:
        """Whether helpers are awake, or were wanted less than `window` ns ago for as little work, of which there is
        `work` now: who wakes them for one small launch waits for that."""
        n = self.module.function("near", [("pool", PTR), ("work", I64), ("window", I64)], I1)
        pool, work, window = n.params
        started = n.is_("ne", n.get(pool, Pool.STARTED, I32), 0)
        awake = n.both(started, n.is_("eq", n.atomic_get(pool, Pool.SLEEPERS, I32, "monotonic"), 0))
        n.when(awake, lambda: n.leave(1))
        now = n.call("clock")
        before = n.get(pool, Pool.RECENT)
        n.put(pool, Pool.RECENT, n.add(now, work))
        n.end(n.is_("slt", n.sub(now, before), window))

    def _run(self) -> None:
        """Run `total` programs where that is fastest."""
        n = self.module.function("run", [("kernel", PTR), ("slots", PTR), ("total", I64), ("frame", PTR)])
        kernel, slots, total, frame = n.params
        pool = n.get(kernel, Kernel.POOL, PTR)
        worth = n.get(pool, Pool.WORTH)

        def alone() -> None:
            calls = n.get(kernel, Kernel.CALLS)
            n.put(kernel, Kernel.CALLS, n.add(calls, 1))

            def sample() -> None:
                n.call("timed", kernel, slots, 0, 1, frame)
                n.leave()

            n.when(n.is_("eq", n.both(calls, 31), 0), sample)
            call_kernel(n, kernel, slots, n.value(0), n.value(1), frame)
            n.leave()

        n.when(n.is_("eq", total, 1), alone)

        def expected(count: Value) -> Value:
            return n.op("lshr", n.mul(n.least(count, 1 << 31), n.get(kernel, Kernel.COST)), 10)

        first = n.variable(0)
        much = n.mul(worth, 4)
        sure = n.both(n.is_("uge", expected(total), much), n.is_("ne", n.get(kernel, Kernel.COST), 0))
        n.when(n.f.not_(sure), lambda: n.write(first, n.call("measure", kernel, slots, total, frame)))
        done = n.read(first)
        n.when(n.is_("uge", done, total), n.leave)
        work = expected(n.sub(total, done))

        def share() -> None:
            n.call("share_if_it_pays", kernel, slots, done, total, frame)
            n.leave()

        def share_much() -> None:
            n.put(frame, Frame.SHARED, pool)
            share()

        def consider() -> None:
            n.when(n.is_("uge", work, much), share_much)
            window = n.pick(n.is_("uge", work, worth), DOZE_NS, NEAR_NS)
            n.when(n.is_("uge", n.mul(work, 2), worth), lambda: n.when(n.call("near", pool, work, window), share))

        n.when(n.is_("ugt", n.get(pool, Pool.THREADS), 1), consider)
        n.call("solo", kernel, slots, done, total, frame)
        n.end()

    def _launch(self) -> None:
        """Run every program of a grid; Python's lock is held before and after.  0, or the frame says what happened."""
        n = self.module.function("launch", [("kernel", PTR), ("slots", PTR), ("x", I64), ("y", I64), ("z", I64),
                                            ("frame", PTR)], I64, public=True)
        kernel, slots, x, y, z, frame = n.params
        pool, flags = n.get(kernel, Kernel.POOL, PTR), n.get(kernel, Kernel.FLAGS)
        total = n.mul(n.mul(x, y), z)
        n.when(n.is_("eq", total, 0), lambda: n.leave(0))
        for offset, value in enumerate((x, y, z)):
            n.put(frame, 8 * offset, value)
        n.put(frame, Frame.STATUS_AT, n.at(frame, Frame.STATUS))
        n.put(frame, Frame.CANCEL_AT, n.at(frame, Frame.CANCEL))
        n.put(frame, Frame.PRINT, n.get(kernel, Kernel.PRINT))
        n.put(frame, Frame.POLL, Value(PTR, "@poll"))
        n.put(frame, Frame.COUNTDOWN, COUNTDOWN)
        n.put(frame, Frame.SELF, frame)
        for offset in (*range(Frame.STATUS, Frame.STATUS + 32, 8), Frame.CANCEL, Frame.DEADLINE, Frame.NEXT_CHECK,
                       Frame.THREAD, Frame.ENTERED):
            n.put(frame, offset, 0)
        limit = n.get(pool, Pool.TIMEOUT)
        n.when(n.is_("ne", limit, 0), lambda: n.put(frame, Frame.DEADLINE, n.add(n.call("clock"), limit)))
        cost = n.get(kernel, Kernel.COST)
        long = n.is_("ugt", n.op("lshr", n.mul(n.least(total, 1 << 31), cost), 10), KEEP_LOCK_NS)
        free = n.either(n.either(long, n.is_("eq", cost, 0)),
                        n.is_("ne", n.both(flags, Flags.POLLS | Flags.CALLS_PYTHON), 0))
        n.when(free, lambda: n.call("release", frame))
        n.call("begin_atomics", kernel, frame)
        self._with_scratch(n, kernel, pool, frame, lambda: n.call("run", kernel, slots, total, frame))
        n.call("end_atomics", kernel, frame)
        fenced = n.is_("ne", n.both(flags, Flags.FENCE), 0)
        n.when(fenced, lambda: n.f.do(self.machine.fence))
        thread = n.get(frame, Frame.THREAD)
        n.when(n.is_("ne", thread, 0), lambda: n.call("PyEval_RestoreThread", n.as_pointer(thread)))
        n.end(n.either(n.get(frame, Frame.STATUS), n.get(frame, Frame.CANCEL)))

    def _with_scratch(self, n: Native, kernel: Value, pool: Value, frame: Value, run: Jump) -> None:
        """Run with scratch from the stack, or from the block that callers lend each other."""
        needed = n.get(kernel, Kernel.SCRATCH)
        small = n.f.alloca(Type("i8"), SMALL_SCRATCH, align=64)

        def on_stack() -> None:
            n.put(frame, Frame.SCRATCH, small)
            run()

        def in_block() -> None:
            old = n.as_pointer(n.atomic_change("xchg", pool, Pool.BLOCK, 0))
            block = n.call("scratch_block", old, needed)
            n.put(frame, Frame.SCRATCH, n.at(block, 64))
            n.when(n.is_("eq", n.as_int(block), 0), lambda: n.put(frame, Frame.CANCEL, Cancel.NO_MEMORY), run)
            other = n.atomic_change("xchg", pool, Pool.BLOCK, n.as_int(block))
            n.when(n.is_("ne", other, 0), lambda: n.call("free", n.as_pointer(other)))

        n.when(n.is_("ule", needed, SMALL_SCRATCH), on_stack, in_block)

    def _stop(self) -> None:
        """Let the pool's threads end, as soon as they have nothing to do."""
        n = self.module.function("stop", [("pool", PTR)], public=True)
        pool, = n.params
        n.atomic_put(pool, Pool.STOP, constant(I32, 1), order="seq_cst")
        n.atomic_change("add", pool, Pool.GENERATION, constant(I32, 1))
        futex(n, self.machine, n.at(pool, Pool.GENERATION), FUTEX_WAKE, constant(I32, 2**31 - 1), constant(PTR, 0))
        n.end()
