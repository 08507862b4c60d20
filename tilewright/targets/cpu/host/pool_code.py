"""The thread pool of Linux, as LLVM text: who runs which programs of a launch, and when threads sleep.

Launching takes the pool's lock or, when another thread has it, runs alone.  A shared launch is cut into chunks; each
participant owns a contiguous range of them, takes them from its head, and then steals from the tail of the fullest
range.  A range is one word that names its launch (generation << 32 | head << 16 | tail), changed by compare-exchange
only: a worker that wakes late finds another generation or nothing left, claims nothing, and nobody waits for it.  What
a worker reads of the launch it reads after a claim, which keeps the launch alive until the worker has said that the
chunk is done.
Work too small to be worth the others' help stays on the caller (`launch` measures its first programs to find out).
Idle workers spin for some pauses and then sleep in the kernel.  Linux likes to wake a thread on the CPU of the thread
that woke it, so workers are kept off the caller's CPU; their mask is changed only when the caller has moved.
Ctrl-C and the time limit are looked at by the caller alone, between chunks, while it waits and in `while` loops of
the kernel, which call `poll`; they set the cancel word, which everybody looks at.
Before: the records of `records.py`.  After `launch`: every program has run or the launch was stopped, and no thread is
in the kernel any more.  Tests: tests/targets/cpu_host/test_host.py, test_linux.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.cpu.host.native import Jump, Native, NativeModule, Variable
from tilewright.targets.cpu.host.records import Cancel, Flags, Frame, Kernel, Pool
from tilewright.targets.llvm.types import I1, I32, I64, PTR, VOID, Type, Value, constant

CHUNKS_EACH = 16                # chunks a participant's range is cut into
MOST_CHUNKS = 0xFFFF            # what a range's head and tail can count
HELP_NS = 4_000                 # work that a further participant is asked for
KEEP_LOCK_NS = 20_000           # shorter launches keep Python's lock: giving it away and back costs 40 ns
CHECK_NS = 20_000_000           # how often Ctrl-C and the clock are looked at
WAIT_NS = 5_000_000             # how long a caller sleeps at once while it waits for workers
COUNTDOWN = 64                  # iterations of a kernel's loop between two polls
SPIN_WAIT = 2_000               # pauses of a waiting caller before it sleeps
MOST_STEERED = 16               # more workers are left to the system: each takes a system call of 1 us
SMALL_SCRATCH = 4096            # scratch up to this is on the caller's stack
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129     # private


@dataclass(frozen=True, slots=True)
class Machine:
    """What differs between processors: system call numbers and two instructions."""

    futex: int
    gettid: int
    pause: str
    fence: str


MACHINES = {
    "x86_64": Machine(202, 186, "call void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse.sfence()"),
    "aarch64": Machine(98, 178, "call void @llvm.aarch64.hint(i32 1)", "fence release"),
}


class PoolCode:
    """Writes the pool's functions into a module; `launch` is the public one."""

    def __init__(self, module: NativeModule, machine: Machine) -> None:
        self.module = module
        self.machine = machine
        self._declare()
        self._clock()
        self._stopped()
        self._poll()
        self._release()
        self._timed()
        self._solo()
        self._scratch_block()
        self._join_launch()
        self._run_chunk()
        self._claim()
        self._work()
        self._worker()
        self._start()
        self._steer()
        self._wait()
        self._publish()
        self._share()
        self._measure()
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

    def _call_kernel(self, n: Native, kernel: Value, slots: Value, first: Value, last: Value, context: Value) -> None:
        n.call_pointer(n.get(kernel, Kernel.ENTRY, PTR), VOID, slots, first, last, context)

    def _timed(self) -> None:
        """Run programs first..last-1 on the caller and note what they cost; the elapsed ns."""
        n = self.module.function("timed", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                           ("frame", PTR)], I64)
        kernel, slots, first, last, frame = n.params
        start = n.call("clock")
        self._call_kernel(n, kernel, slots, first, last, frame)
        elapsed = n.sub(n.call("clock"), start)
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
                self._call_kernel(n, kernel, slots, now, last, frame)
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

    # -- a participant

    def _join_launch(self) -> None:
        """Fill a worker's context for the launch that it has claimed a part of; false if it lacks memory."""
        n = self.module.function("join_launch", [("pool", PTR), ("context", PTR), ("owner", PTR)], I1)
        pool, context, owner = n.params
        for offset in (0, 8, 16, Frame.STATUS_AT, Frame.PRINT, Frame.CANCEL_AT):
            n.put(context, offset, n.get(owner, offset))
        needed = n.get(n.get(pool, Pool.KERNEL, PTR), Kernel.SCRATCH)
        block = n.call("scratch_block", n.get(context, Frame.BLOCK, PTR), needed)
        n.put(context, Frame.BLOCK, block)
        n.put(context, Frame.SCRATCH, n.at(block, 64))
        n.end(n.is_("ne", n.as_int(block), 0))

    def _run_chunk(self) -> None:
        """Run chunk number `chunk` of the shared launch, unless it was stopped; `frame` is null on a worker."""
        n = self.module.function("run_chunk", [("pool", PTR), ("chunk", I64), ("context", PTR), ("frame", PTR)])
        pool, chunk, context, frame = n.params
        owner = n.get(pool, Pool.OWNER, PTR)
        n.when(n.call("stopped", owner), n.leave)
        kernel, slots = n.get(pool, Pool.KERNEL, PTR), n.get(pool, Pool.SLOTS, PTR)
        size = n.get(pool, Pool.CHUNK)
        first = n.add(n.get(pool, Pool.BEGIN), n.mul(chunk, size))
        last = n.least(n.add(first, size), n.get(pool, Pool.END))

        def caller() -> None:
            n.call("timed", kernel, slots, first, last, context)
            n.call("poll", context)

        def worker() -> None:
            def refuse() -> None:
                n.atomic_put(owner, Frame.CANCEL, Cancel.NO_MEMORY)
                n.leave()

            n.when(n.f.not_(n.call("join_launch", pool, context, owner)), refuse)
            self._call_kernel(n, kernel, slots, first, last, context)

        n.when(n.is_("ne", n.as_int(frame), 0), caller, worker)
        fenced = n.is_("ne", n.both(n.get(kernel, Kernel.FLAGS), Flags.FENCE), 0)
        n.when(fenced, lambda: n.f.do(self.machine.fence))
        n.end()

    def _range(self, n: Native, pool: Value, index: Value) -> Value:
        return n.at(pool, n.add(n.mul(index, Pool.RANGE_STRIDE), Pool.RANGE))

    def _left(self, n: Native, word: Value, generation: Value) -> Value:
        """Chunks left in a range's word; 0 if it is of another launch."""
        left = n.sub(n.both(word, 0xFFFF), n.both(n.op("lshr", word, 16), 0xFFFF))
        return n.pick(n.is_("eq", n.op("lshr", word, 32), generation), left, 0)

    def _claim(self) -> None:
        """The next chunk for the owner of range `own`, or -1."""
        n = self.module.function("claim", [("pool", PTR), ("own", I64), ("generation", I64)], I64)
        pool, own, generation = n.params
        mine = self._range(n, pool, own)

        def take(stop: Jump, again: Jump) -> None:
            word = n.atomic_get(mine)
            n.when(n.is_("eq", self._left(n, word, generation), 0), stop)
            n.when(n.exchange_if(mine, 0, word, n.add(word, 1 << 16)),
                   lambda: n.leave(n.both(n.op("lshr", word, 16), 0xFFFF)))

        n.loop(take)

        def steal(stop: Jump, again: Jump) -> None:
            most, victim, seen = n.variable(0), n.variable(0), n.variable(0)

            def look(index: Value) -> None:
                word = n.atomic_get(self._range(n, pool, index))
                left = self._left(n, word, generation)

                def best() -> None:
                    n.write(most, left)
                    n.write(victim, index)
                    n.write(seen, word)

                n.when(n.is_("ugt", left, n.read(most)), best)

            n.write(most, 0)
            n.count(0, n.least(n.get(pool, Pool.RANGES), Pool.MOST_THREADS), look)
            n.when(n.is_("eq", n.read(most), 0), stop)
            word = n.read(seen)
            n.when(n.exchange_if(self._range(n, pool, n.read(victim)), 0, word, n.sub(word, 1)),
                   lambda: n.leave(n.sub(n.both(word, 0xFFFF), 1)))

        n.loop(steal)
        n.end(-1)

    def _work(self) -> None:
        """Run chunks until none is left to claim; how many were run."""
        n = self.module.function("work", [("pool", PTR), ("own", I64), ("generation", I64), ("context", PTR),
                                          ("frame", PTR)], I32)
        pool, own, generation, context, frame = n.params
        done = n.variable(0, I32)

        def step(stop: Jump, again: Jump) -> None:
            chunk = n.call("claim", pool, own, generation)
            n.when(n.is_("slt", chunk, 0), stop)
            n.call("run_chunk", pool, chunk, context, frame)
            n.increase(done)

        n.loop(step)
        n.end(n.read(done))

    def _futex(self, n: Native, address: Value, operation: int, number: Value, timeout: Value) -> None:
        n.call("syscall", self.machine.futex, address, constant(I32, operation), number, timeout,
               constant(PTR, 0), constant(I32, 0), variadic="i64 (i64, ...)")

    def _worker(self) -> None:
        """A thread of the pool."""
        n = self.module.function("worker", [("pool", PTR)], PTR)
        pool, = n.params
        context = n.f.alloca(I64, Frame.SIZE // 8)
        for offset in range(0, Frame.SIZE, 8):
            n.put(context, offset, 0)
        tid = n.narrow(n.call("syscall", self.machine.gettid, variadic="i64 (i64, ...)"), I32)
        place = n.atomic_change("add", pool, Pool.TIDS, constant(I32, 1))
        n.put(n.item(pool, n.widen(place), I32), Pool.TID, tid)
        old = n.variable(n.atomic_get(pool, Pool.FIRST_GENERATION, I32))
        null = constant(PTR, 0)

        def serve(stop: Jump, again: Jump) -> None:
            self._await_launch(n, pool, old)
            generation = n.atomic_get(pool, Pool.GENERATION, I32)
            n.when(n.is_("ne", n.atomic_get(pool, Pool.STOP, I32), 0), stop)
            n.when(n.is_("eq", generation, n.read(old)), again)
            n.write(old, generation)
            ranges = n.greatest(n.get(pool, Pool.RANGES), 1)
            joined = n.widen(n.atomic_change("add", pool, Pool.JOINED, constant(I32, 1)))
            own = n.op("urem", joined, n.least(ranges, Pool.MOST_THREADS))
            done = n.call("work", pool, own, n.widen(generation), context, null)
            n.when(n.is_("eq", done, 0), again)
            n.atomic_change("add", pool, Pool.DONE, done)
            n.when(n.is_("ne", n.atomic_get(pool, Pool.WAITING, I32, "seq_cst"), 0),
                   lambda: self._futex(n, n.at(pool, Pool.DONE), _FUTEX_WAKE, constant(I32, 1), null))

        n.loop(serve)
        n.call("free", n.get(context, Frame.BLOCK, PTR))
        n.end(null)

    def _await_launch(self, n: Native, pool: Value, old: Variable) -> None:
        """Spin, then sleep, until the generation is another one than `old` (or for no reason)."""
        spins = n.variable(0)
        n.write(spins, 0)

        def spin(stop: Jump, again: Jump) -> None:
            n.when(n.is_("ne", n.atomic_get(pool, Pool.GENERATION, I32), n.read(old)), stop)
            n.f.do(self.machine.pause)
            n.increase(spins)
            n.when(n.is_("ult", n.read(spins), n.get(pool, Pool.SPIN)), again)
            n.atomic_change("add", pool, Pool.SLEEPERS, constant(I32, 1))
            self._futex(n, n.at(pool, Pool.GENERATION), _FUTEX_WAIT, n.read(old), constant(PTR, 0))
            n.atomic_change("sub", pool, Pool.SLEEPERS, constant(I32, 1))
            stop()

        n.loop(spin)

    # -- the caller's side

    def _start(self) -> None:
        """Make the threads that are missing, with all signals blocked; Python's threads take those."""
        n = self.module.function("start", [("pool", PTR)])
        pool, = n.params
        wanted = n.narrow(n.sub(n.get(pool, Pool.THREADS), 1), I32)
        n.when(n.is_("uge", n.get(pool, Pool.STARTED, I32), wanted), n.leave)
        n.atomic_put(pool, Pool.FIRST_GENERATION, n.get(pool, Pool.GENERATION, I32))
        every, before = n.f.alloca(I64, 16), n.f.alloca(I64, 16)
        thread = n.f.alloca(I64, align=8)
        n.call("sigfillset", every)
        n.call("pthread_sigmask", constant(I32, 2), every, before)

        def make(stop: Jump, again: Jump) -> None:
            started = n.get(pool, Pool.STARTED, I32)
            n.when(n.is_("uge", started, wanted), stop)
            failed = n.call("pthread_create", thread, constant(PTR, 0), Value(PTR, "@worker"), pool)
            n.when(n.is_("ne", failed, 0), stop)
            n.call("pthread_detach", n.get(thread))
            n.put(pool, Pool.STARTED, n.add(started, 1))

        n.loop(make)
        n.call("pthread_sigmask", constant(I32, 2), before, constant(PTR, 0))
        n.end()

    def _steer(self) -> None:
        """Keep the workers off the caller's CPU, when it is another one than last time and there are others."""
        n = self.module.function("steer", [("pool", PTR)])
        pool, = n.params
        cpu = n.widen(n.call("sched_getcpu"))
        tids = n.atomic_get(pool, Pool.TIDS, I32)
        n.when(n.is_("ugt", tids, MOST_STEERED), n.leave)
        state = n.either(n.op("shl", n.widen(tids), 32), cpu)
        n.when(n.is_("eq", state, n.get(pool, Pool.STEERED)), n.leave)
        n.put(pool, Pool.STEERED, state)
        mask = n.at(pool, Pool.MASK)
        got = n.call("sched_getaffinity", constant(I32, 0), Pool.MASK_BYTES, mask)
        n.when(n.either(n.is_("slt", got, 0), n.is_("uge", cpu, 8 * Pool.MASK_BYTES)), n.leave)
        others = n.variable(0)

        def copy(index: Value) -> None:
            bit = n.op("shl", 1, n.both(cpu, 63))
            here = n.is_("eq", index, n.op("lshr", cpu, 6))
            word = n.both(n.get(n.item(mask, index)), n.pick(here, n.op("xor", bit, -1), -1))
            n.put(n.item(pool, index), Pool.WORK_MASK, word)
            n.write(others, n.either(n.read(others), word))

        n.count(0, Pool.MASK_BYTES // 8, copy)
        n.when(n.is_("eq", n.read(others), 0), n.leave)
        n.count(0, n.widen(tids), lambda index: n.call(
            "sched_setaffinity", n.get(n.item(pool, index, I32), Pool.TID, I32), Pool.MASK_BYTES,
            n.at(pool, Pool.WORK_MASK)))
        n.end()

    def _wait(self) -> None:
        """Wait until workers have run `chunks` chunks: spinning first, then asleep, looking at Ctrl-C meanwhile."""
        n = self.module.function("wait", [("pool", PTR), ("chunks", I32), ("frame", PTR)])
        pool, chunks, frame = n.params
        spins = n.variable(0)
        timeout = n.f.alloca(I64, 2)
        n.put(timeout, 0, 0)
        n.put(timeout, 8, WAIT_NS)

        def look(stop: Jump, again: Jump) -> None:
            done = n.atomic_get(pool, Pool.DONE, I32)
            n.when(n.is_("uge", done, chunks), stop)
            n.f.do(self.machine.pause)
            n.increase(spins)
            n.when(n.is_("ult", n.read(spins), SPIN_WAIT), again)
            n.atomic_put(pool, Pool.WAITING, constant(I32, 1), order="seq_cst")
            now = n.atomic_get(pool, Pool.DONE, I32, "seq_cst")
            n.when(n.is_("uge", now, chunks), stop)
            self._futex(n, n.at(pool, Pool.DONE), _FUTEX_WAIT, now, timeout)
            n.call("poll", frame)

        n.loop(look)
        n.end()

    def _publish(self) -> None:
        """Describe the launch, cut it into ranges of chunks and wake helpers; the number of chunks."""
        n = self.module.function("publish", [("pool", PTR), ("kernel", PTR), ("slots", PTR), ("first", I64),
                                             ("last", I64), ("frame", PTR)], I64)
        pool, kernel, slots, first, last, frame = n.params
        count, cost = n.sub(last, first), n.get(kernel, Kernel.COST)
        expected = n.op("lshr", n.mul(n.least(count, 1 << 31), cost), 10)
        useful = n.greatest(n.op("udiv", expected, HELP_NS), 2)
        ranges = n.least(n.least(n.get(pool, Pool.THREADS), count), useful)
        even = n.divided_up(count, n.mul(ranges, CHUNKS_EACH))
        slice_ = n.greatest(n.op("udiv", n.op("shl", n.get(pool, Pool.SLICE), 10), n.greatest(cost, 1)), 1)
        chunk = n.greatest(n.least(even, slice_), n.divided_up(count, MOST_CHUNKS))
        chunks = n.divided_up(count, chunk)
        for offset, value in ((Pool.KERNEL, kernel), (Pool.SLOTS, slots), (Pool.BEGIN, first), (Pool.END, last),
                              (Pool.CHUNK, chunk), (Pool.RANGES, ranges), (Pool.OWNER, frame)):
            n.put(pool, offset, value)
        generation = n.add(n.atomic_get(pool, Pool.GENERATION, I32), 1)
        n.atomic_put(pool, Pool.DONE, constant(I32, 0))
        n.atomic_put(pool, Pool.WAITING, constant(I32, 0))
        n.atomic_put(pool, Pool.JOINED, constant(I32, 1))
        high = n.op("shl", n.widen(generation), 32)

        def cut(index: Value) -> None:
            head = n.op("udiv", n.mul(chunks, index), ranges)
            tail = n.op("udiv", n.mul(chunks, n.add(index, 1)), ranges)
            n.atomic_put(self._range(n, pool, index), 0, n.either(n.either(high, n.op("shl", head, 16)), tail))

        n.count(0, ranges, cut)
        n.atomic_put(pool, Pool.GENERATION, generation, order="seq_cst")
        asleep = n.atomic_get(pool, Pool.SLEEPERS, I32, "seq_cst")
        n.when(n.is_("ne", asleep, 0),
               lambda: self._futex(n, n.at(pool, Pool.GENERATION), _FUTEX_WAKE, n.narrow(n.sub(ranges, 1), I32),
                                   constant(PTR, 0)))
        n.end(chunks)

    def _share(self) -> None:
        """Run programs first..last-1 with the workers' help, or alone if they help another launch."""
        n = self.module.function("share", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                           ("frame", PTR)])
        kernel, slots, first, last, frame = n.params
        pool = n.get(kernel, Kernel.POOL, PTR)
        n.call("release", frame)

        def alone() -> None:
            n.call("solo", kernel, slots, first, last, frame)
            n.leave()

        n.when(n.is_("ne", n.atomic_change("xchg", pool, Pool.LOCK, constant(I32, 1)), 0), alone)
        n.call("start", pool)
        n.call("steer", pool)
        chunks = n.call("publish", pool, kernel, slots, first, last, frame)
        generation = n.widen(n.atomic_get(pool, Pool.GENERATION, I32))
        mine = n.call("work", pool, 0, generation, frame, frame)
        n.call("wait", pool, n.sub(n.narrow(chunks, I32), mine), frame)
        n.atomic_put(pool, Pool.LOCK, constant(I32, 0))
        n.end()

    def _measure(self) -> None:
        """Run some of the first programs of `total` to learn what one costs; how many were run."""
        n = self.module.function("measure", [("kernel", PTR), ("slots", PTR), ("total", I64), ("frame", PTR)], I64)
        kernel, slots, total, frame = n.params
        most = n.greatest(n.op("lshr", total, 5), 1)
        first = n.variable(0)
        count = n.variable(n.pick(n.is_("eq", n.get(kernel, Kernel.COST), 0), 1, most))

        def step(stop: Jump, again: Jump) -> None:
            now = n.read(first)
            n.when(n.is_("uge", now, most), stop)
            n.when(n.call("stopped", frame), stop)
            end = n.add(now, n.least(n.read(count), n.sub(most, now)))
            elapsed = n.call("timed", kernel, slots, now, end, frame)
            n.write(first, end)
            n.when(n.is_("ugt", elapsed, 1_000), stop)
            n.write(count, n.mul(end, 8))

        n.loop(step)
        n.end(n.read(first))

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
            self._call_kernel(n, kernel, slots, n.value(0), n.value(1), frame)
            n.leave()

        n.when(n.is_("eq", total, 1), alone)

        def expected(count: Value) -> Value:
            return n.op("lshr", n.mul(n.least(count, 1 << 31), n.get(kernel, Kernel.COST)), 10)

        first = n.variable(0)
        sure = n.both(n.is_("uge", expected(total), n.mul(worth, 4)), n.is_("ne", n.get(kernel, Kernel.COST), 0))
        n.when(n.f.not_(sure), lambda: n.write(first, n.call("measure", kernel, slots, total, frame)))
        done = n.read(first)
        n.when(n.is_("uge", done, total), n.leave)
        large = n.is_("uge", expected(n.sub(total, done)), worth)
        n.when(n.both(large, n.is_("ugt", n.get(pool, Pool.THREADS), 1)),
               lambda: n.call("share", kernel, slots, done, total, frame),
               lambda: n.call("solo", kernel, slots, done, total, frame))
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
                       Frame.THREAD):
            n.put(frame, offset, 0)
        limit = n.get(pool, Pool.TIMEOUT)
        n.when(n.is_("ne", limit, 0), lambda: n.put(frame, Frame.DEADLINE, n.add(n.call("clock"), limit)))
        cost = n.get(kernel, Kernel.COST)
        long = n.is_("ugt", n.op("lshr", n.mul(n.least(total, 1 << 31), cost), 10), KEEP_LOCK_NS)
        free = n.either(n.either(long, n.is_("eq", cost, 0)),
                        n.is_("ne", n.both(flags, Flags.POLLS | Flags.CALLS_PYTHON), 0))
        n.when(free, lambda: n.call("release", frame))
        self._with_scratch(n, kernel, pool, frame, lambda: n.call("run", kernel, slots, total, frame))
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
        self._futex(n, n.at(pool, Pool.GENERATION), _FUTEX_WAKE, constant(I32, 2**31 - 1), constant(PTR, 0))
        n.end()
