"""Whether a launch with atomic operations is shared among threads or stays alone, as LLVM text: it is tried.

Alone, a thread adds without locks (`lone_code`); together, each addition locks, and threads that want the same cache
line wait for each other.  What that costs depends on how much else a kernel does, and on its data: from nothing to
tens of times.  So one launch in `EVERY` is a trial: some programs run without locks, as many with them, and if all
threads together would then still be faster, a part of the launch is shared, where they meet.  The ratio of the times
that a program took with and without locks decides until the next trial: sharing pays while it is less than the number
of threads.  It says nothing about results, which are those of some order of the programs either way.
Before: the functions of `lone_code` and `sharing_code`.  After `share_if_it_pays`: as after `share`.
Tests: tests/targets/cpu_host/test_lone.py.
"""

from __future__ import annotations

from tilewright.targets.cpu.host.native import Native, NativeModule
from tilewright.targets.cpu.host.records import Flags, Frame, Held, Kernel, Pool
from tilewright.targets.llvm.types import I64, PTR, Value

EVERY = 64                  # launches from one trial to the next
SAMPLE_NS = 16_000          # what runs without locks and with them, at most a sixteenth of the launch each
FEWEST = 4                  # programs; fewer are shared untried
ONE = 1 << 10               # a ratio of 1


class TrialCode:
    """Writes `try_locks` and `share_if_it_pays`."""

    def __init__(self, module: NativeModule) -> None:
        self.module = module
        self._try_locks()
        self._share_if_it_pays()

    def _participants(self, n: Native, kernel: Value, programs: Value) -> Value:
        return n.least(n.get(n.get(kernel, Kernel.POOL, PTR), Pool.THREADS), programs)

    def _try_locks(self) -> None:
        """Run some of the programs first..last-1 and note what locks cost; the first that is left."""
        n = self.module.function("try_locks", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                               ("frame", PTR)], I64)
        kernel, slots, begin, last, frame = n.params
        left = n.sub(last, begin)
        known = n.op("udiv", n.value(SAMPLE_NS << 10), n.greatest(n.get(kernel, Kernel.COST), 1))
        sample = n.greatest(n.least(known, n.op("lshr", left, 4)), 1)
        second, third = n.add(begin, sample), n.add(begin, n.mul(sample, 2))
        n.put(kernel, Kernel.TRIAL, EVERY)
        alone = n.greatest(n.call("timed", kernel, slots, begin, second, frame), 1)
        n.when(n.call("stopped", frame), lambda: n.leave(second))
        n.put(frame, Frame.ALONE, 0)
        locked = n.call("timed", kernel, slots, second, third, frame)
        n.put(frame, Frame.ALONE, 1)
        ratio = n.op("udiv", n.mul(locked, ONE), alone)
        n.put(kernel, Kernel.RATIO, ratio)
        part = n.op("lshr", left, 3)
        pays = n.is_("ult", ratio, n.mul(self._participants(n, kernel, part), ONE))
        n.when(n.f.not_(n.both(pays, n.is_("ugt", part, 1))), lambda: n.leave(third))
        end = n.add(third, part)
        n.call("share", kernel, slots, third, end, frame)
        together = n.op("udiv", n.mul(n.get(kernel, Kernel.COST), n.mul(sample, ONE)), n.mul(alone, 1 << 10))
        n.put(kernel, Kernel.RATIO, n.greatest(ratio, together))
        n.call("part_atomics", kernel, frame)
        n.end(end)

    def _share_if_it_pays(self) -> None:
        """Run programs first..last-1 with the workers' help, or alone if that is faster."""
        n = self.module.function("share_if_it_pays", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                                      ("frame", PTR)])
        kernel, slots, begin, last, frame = n.params
        first = n.variable(begin)

        def share() -> None:
            n.call("share", kernel, slots, n.read(first), last, frame)
            n.leave()

        is_atomic = n.is_("ne", n.both(n.get(kernel, Kernel.FLAGS), Flags.ATOMICS), 0)
        n.when(n.f.not_(n.both(is_atomic, n.is_("eq", n.get(frame, Frame.HELD), Held.ALONE))), share)
        until = n.get(kernel, Kernel.TRIAL)
        few = n.is_("ult", n.sub(last, begin), FEWEST)

        def trial() -> None:
            n.when(few, share)
            n.write(first, n.call("try_locks", kernel, slots, begin, last, frame))

        n.when(n.is_("eq", until, 0), trial, lambda: n.put(kernel, Kernel.TRIAL, n.sub(until, 1)))
        left = n.sub(last, n.read(first))
        n.when(n.is_("ult", n.get(kernel, Kernel.RATIO), n.mul(self._participants(n, kernel, left), ONE)), share)
        n.call("solo", kernel, slots, n.read(first), last, frame)
        n.end()
