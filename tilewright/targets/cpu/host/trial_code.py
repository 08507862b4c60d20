"""Whether a launch with atomic operations is shared among threads or stays alone, as LLVM text: it is tried.

Alone, a thread adds without locks (`lone_code`); together, each addition locks, and threads that want the same cache
line wait for each other.  What that costs depends on how much else a kernel does, and on its data: from nothing to
tens of times.  So one launch in `EVERY` is a trial: some programs run without locks, as many with them, and if all
threads together would then still be faster, a part of the launch is shared, where they meet.  The ratio of the times
that a program took with and without locks decides until the next trial: sharing pays while it is well below the number
of threads.  A shared launch whose programs took longer than that makes the next one a trial.  Results are those of some
order of the programs either way.
Before: the functions of `lone_code` and `sharing_code`.  After `share_if_it_pays`: as after `share`.
Tests: tests/targets/cpu_host/test_lone.py.
"""

from __future__ import annotations

from tilewright.targets.cpu.host.native import Native, NativeModule
from tilewright.targets.cpu.host.records import Flags, Frame, Held, Kernel, Pool
from tilewright.targets.llvm.types import I64, PTR, Value

EVERY = 64                  # launches from one trial to the next
SAMPLE_NS = 8_000           # what runs without locks and with them, twice each; at most a 32nd of the launch
FEWEST = 8                  # programs; fewer are shared untried
ONE = 1 << 10               # a ratio of 1


class TrialCode:
    """Writes `try_locks` and `share_if_it_pays`."""

    def __init__(self, module: NativeModule) -> None:
        self.module = module
        self._try_locks()
        self._share_if_it_pays()

    def _participants(self, n: Native, kernel: Value, programs: Value) -> Value:
        return n.least(n.get(n.get(kernel, Kernel.POOL, PTR), Pool.THREADS), programs)

    def _ratio(self, n: Native, kernel: Value) -> Value:
        """What locks cost, if programs took as long with them as was measured last."""
        return n.op("udiv", n.mul(n.get(kernel, Kernel.COST), ONE), n.greatest(n.get(kernel, Kernel.ALONE), 1))

    def _pays(self, n: Native, kernel: Value, ratio: Value, programs: Value) -> Value:
        """Whether so many programs are faster together; threads that meet wait for longer than a trial may see."""
        threads = n.least(n.get(n.get(kernel, Kernel.POOL, PTR), Pool.THREADS), programs)
        return n.is_("ult", n.op("udiv", n.mul(ratio, 3), 2), n.mul(threads, ONE))

    def _try_locks(self) -> None:
        """Run some of the programs first..last-1 and note what locks cost; the first that is left."""
        n = self.module.function("try_locks", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                               ("frame", PTR)], I64)
        kernel, slots, begin, last, frame = n.params
        left = n.sub(last, begin)
        known = n.op("udiv", n.value(SAMPLE_NS << 10), n.greatest(n.get(kernel, Kernel.COST), 1))
        sample = n.greatest(n.least(known, n.op("lshr", left, 5)), 1)
        first, least = n.variable(begin), [n.variable(-1), n.variable(-1)]      # with locks, and without
        n.put(kernel, Kernel.TRIAL, EVERY)

        def run(alone: int) -> None:
            now = n.read(first)
            end = n.add(now, sample)
            n.put(frame, Frame.ALONE, alone)
            n.call("timed", kernel, slots, now, end, frame)
            n.put(frame, Frame.ALONE, 1)
            n.write(least[alone], n.least(n.read(least[alone]), n.get(kernel, Kernel.COST)))
            n.write(first, end)
            n.when(n.call("stopped", frame), lambda: n.leave(end))

        def both_ways(_: Value) -> None:
            run(1)
            run(0)

        n.count(0, 2, both_ways)
        n.put(kernel, Kernel.ALONE, n.read(least[1]))
        n.put(kernel, Kernel.COST, n.read(least[0]))
        ratio, part, now = self._ratio(n, kernel), n.op("lshr", left, 3), n.read(first)
        n.put(kernel, Kernel.RATIO, ratio)
        end = n.add(now, part)
        n.when(n.f.not_(n.both(self._pays(n, kernel, ratio, part), n.is_("ult", end, last))), lambda: n.leave(now))
        n.call("share", kernel, slots, now, end, frame)
        n.put(kernel, Kernel.RATIO, n.greatest(ratio, self._ratio(n, kernel)))
        n.call("part_atomics", kernel, frame)
        n.end(end)

    def _share_if_it_pays(self) -> None:
        """Run programs first..last-1 with the workers' help, or alone if that is faster."""
        n = self.module.function("share_if_it_pays", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                                      ("frame", PTR)])
        kernel, slots, begin, last, frame = n.params
        first = n.variable(begin)
        is_atomic = n.is_("ne", n.both(n.get(kernel, Kernel.FLAGS), Flags.ATOMICS), 0)

        def untried() -> None:
            n.call("share", kernel, slots, begin, last, frame)
            n.leave()

        n.when(n.f.not_(n.both(is_atomic, n.is_("eq", n.get(frame, Frame.HELD), Held.ALONE))), untried)
        until = n.get(kernel, Kernel.TRIAL)

        def trial() -> None:
            n.when(n.is_("ult", n.sub(last, begin), FEWEST), untried)
            n.write(first, n.call("try_locks", kernel, slots, begin, last, frame))

        n.when(n.is_("eq", until, 0), trial, lambda: n.put(kernel, Kernel.TRIAL, n.sub(until, 1)))
        left = n.sub(last, n.read(first))

        def share() -> None:
            n.call("share", kernel, slots, n.read(first), last, frame)
            n.when(n.f.not_(self._pays(n, kernel, self._ratio(n, kernel), left)),
                   lambda: n.put(kernel, Kernel.TRIAL, 0))      # other data, or a trial that was disturbed
            n.leave()

        n.when(self._pays(n, kernel, n.get(kernel, Kernel.RATIO), left), share)
        n.call("solo", kernel, slots, n.read(first), last, frame)
        n.end()
