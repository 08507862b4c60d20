"""The part of the pool that shares one launch among threads, as LLVM text (see `pool_code`).

A shared launch is cut into chunks; each participant owns a contiguous range of them, takes them from its head, and
then steals from the tail of the fullest range.  A range is one word that names its launch (generation << 32 |
head << 16 | tail), changed by compare-exchange only: a worker that wakes late finds another generation or nothing
left, claims nothing, and nobody waits for it.  What a worker reads of the launch it reads after a claim, which keeps
the launch alive until the worker has said that the chunk is done.
Idle workers spin for some pauses and then sleep in the kernel.  Linux likes to wake a thread on the CPU of the thread
that woke it, so workers are kept off the caller's CPU; their mask is changed only when the caller has moved.
Before: `pool_code`'s small functions are in the module.  Tests: tests/targets/cpu_host/test_host.py, test_linux.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.cpu.host.native import Jump, Native, NativeModule, Variable
from tilewright.targets.cpu.host.records import Cancel, Flags, Frame, Kernel, Pool
from tilewright.targets.llvm.types import I1, I32, I64, PTR, Value, constant

MOST_EACH, FEWEST_EACH = 64, 4  # chunks a participant's range is cut into: as many as take `CHUNK_NS`, between these
CHUNK_NS = 20_000               # a chunk costs 0.1 to 0.2 us, and who is done first waits for half of one
MOST_CHUNKS = 0xFFFF            # what a range's head and tail can count
HELP_NS = 4_000                 # work that a further participant is asked for
WAIT_NS = 5_000_000             # how long a caller sleeps at once while it waits for workers
SPIN_WAIT = 2_000               # pauses of a waiting caller before it sleeps
MOST_STEERED = 16               # more workers are left to the system: each takes a system call of 1 us
FUTEX_WAIT, FUTEX_WAKE = 128, 129     # private


@dataclass(frozen=True, slots=True)
class Machine:
    """What differs between processors: system call numbers and two instructions."""

    futex: int
    gettid: int
    pause: str
    fence: str
    catches_faults: bool        # whether `fault_code` knows this processor


MACHINES = {
    "x86_64": Machine(202, 186, "call void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse.sfence()", True),
    "aarch64": Machine(98, 178, "call void @llvm.aarch64.hint(i32 1)", "fence release", False),
}
UNBLOCKED = (4, 7, 8, 11)       # SIGILL, SIGBUS, SIGFPE, SIGSEGV: blocked, they would end the process without a handler


def call_kernel(n: Native, kernel: Value, slots: Value, first: Value, last: Value, context: Value) -> None:
    """Run programs first..last-1 with a context."""
    n.call("run_kernel", kernel, slots, first, last, context)


def futex(n: Native, machine: Machine, address: Value, operation: int, number: Value, timeout: Value) -> None:
    """Sleep on a word in memory, or wake those who do."""
    n.call("syscall", machine.futex, address, constant(I32, operation), number, timeout, constant(PTR, 0),
           constant(I32, 0), variadic="i64 (i64, ...)")


class SharingCode:
    """Writes `share` and what it needs; `worker` is what the pool's threads run."""

    def __init__(self, module: NativeModule, machine: Machine) -> None:
        self.module = module
        self.machine = machine
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
        self._rouse()

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
        generation = n.widen(n.atomic_get(pool, Pool.GENERATION, I32))
        entered = n.is_("eq", n.get(context, Frame.GENERATION), generation)
        n.put(context, Frame.ENTERED, n.pick(entered, n.get(context, Frame.ENTERED), 0))
        n.put(context, Frame.GENERATION, generation)
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
            n.call("lap", kernel, slots, first, last, context)
            due = n.is_("uge", n.get(context, Frame.LAP), n.get(context, Frame.NEXT_CHECK))
            n.when(due, lambda: n.call("poll", context))

        def worker() -> None:
            def refuse() -> None:
                n.atomic_put(owner, Frame.CANCEL, Cancel.NO_MEMORY)
                n.leave()

            n.when(n.f.not_(n.call("join_launch", pool, context, owner)), refuse)
            call_kernel(n, kernel, slots, first, last, context)

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
                   lambda: futex(n, self.machine, n.at(pool, Pool.DONE), FUTEX_WAKE, constant(I32, 1), null))

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
            futex(n, self.machine, n.at(pool, Pool.GENERATION), FUTEX_WAIT, n.read(old), constant(PTR, 0))
            n.atomic_change("sub", pool, Pool.SLEEPERS, constant(I32, 1))
            stop()

        n.loop(spin)

    # -- the caller's side

    def _start(self) -> None:
        """Make the threads that are missing, with signals blocked but their own faults; Python's threads take those."""
        n = self.module.function("start", [("pool", PTR)])
        pool, = n.params
        wanted = n.narrow(n.sub(n.get(pool, Pool.THREADS), 1), I32)
        n.when(n.is_("uge", n.get(pool, Pool.STARTED, I32), wanted), n.leave)
        n.atomic_put(pool, Pool.FIRST_GENERATION, n.get(pool, Pool.GENERATION, I32))
        every, before = n.f.alloca(I64, 16), n.f.alloca(I64, 16)
        thread = n.f.alloca(I64, align=8)
        n.call("sigfillset", every)
        for signal in UNBLOCKED:
            n.call("sigdelset", every, constant(I32, signal))
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
            futex(n, self.machine, n.at(pool, Pool.DONE), FUTEX_WAIT, now, timeout)
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
        small, large = (n.divided_up(count, n.mul(ranges, each)) for each in (MOST_EACH, FEWEST_EACH))

        def programs_in(time: Value) -> Value:
            return n.greatest(n.op("udiv", n.op("shl", time, 10), n.greatest(cost, 1)), 1)

        even = n.greatest(small, n.least(large, programs_in(n.value(CHUNK_NS))))
        chunk = n.greatest(n.least(even, programs_in(n.get(pool, Pool.SLICE))), n.divided_up(count, MOST_CHUNKS))
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
               lambda: futex(n, self.machine, n.at(pool, Pool.GENERATION), FUTEX_WAKE, n.narrow(n.sub(ranges, 1), I32),
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
        n.call("share_atomics", kernel, frame)
        n.call("start", pool)
        n.call("steer", pool)
        chunks = n.call("publish", pool, kernel, slots, first, last, frame)
        generation = n.widen(n.atomic_get(pool, Pool.GENERATION, I32))
        n.put(frame, Frame.LAP, n.call("clock"))
        mine = n.call("work", pool, 0, generation, frame, frame)
        n.call("wait", pool, n.sub(n.narrow(chunks, I32), mine), frame)
        n.atomic_put(pool, Pool.LOCK, constant(I32, 0))
        n.end()

    def _rouse(self) -> None:
        """Wake those who helped last, ahead of a launch that will want them: they need 20 us and more to come, and
        find it while they spin."""
        n = self.module.function("rouse", [("pool", PTR)], public=True)
        pool, = n.params
        n.when(n.is_("eq", n.atomic_get(pool, Pool.SLEEPERS, I32), 0), n.leave)
        n.when(n.is_("ne", n.atomic_change("xchg", pool, Pool.LOCK, constant(I32, 1)), 0), n.leave)
        n.call("steer", pool)
        futex(n, self.machine, n.at(pool, Pool.GENERATION), FUTEX_WAKE,
              n.narrow(n.sub(n.get(pool, Pool.RANGES), 1), I32), constant(PTR, 0))
        n.atomic_put(pool, Pool.LOCK, constant(I32, 0))
        n.end()
