"""Loading and launching CPU kernels anywhere Python runs: llvmlite's loader and Python threads.

A kernel is `void entry(ptr slots, i64 first, i64 last, ptr context)` and runs the programs first..last-1.  The
context is 16 words: grid x, y, z; scratch; status; print callback; cancel word; the rest is reserved, but for two that
the kernel writes: the program's linear id in word 11, and in word 13 that a thread has entered a launch.  The host
makes that 0 again where a thread enters the next one: until then scratch may hold something of this launch.
Before: a `CodeObject` of the cpu target.  After `launch`: every program has run, or an error has been raised and no
thread is in the kernel any more.  Any number of Python threads may launch at once.
Tests: tests/targets/cpu_host/.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.targets.base import CodeObject, LoadedKernel
from tilewright.targets.cpu.host.pool import Ranges, ThreadPool
from tilewright.targets.cpu.host.records import Cancel, Status
from tilewright.targets.cpu.host.reports import Printer, Reports
from tilewright.targets.cpu.host.tile_permission import require_tiles
from tilewright.targets.llvm.toolchain import Loader

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_FRAME = ctypes.c_int64 * 32
_STATUS, _CANCEL = 16, 24      # words of a frame; the context is words 0..15
_ENTERED = 13
_ALIGN = 64

# Less work than this stays on the caller: sharing costs 50-80 us on the reference machine, 2 vCPUs (2026-11-30).
WORTH_HELP_NS = 150_000
# Work expected to take so many times longer is shared at once, without measuring a first part again.
_SURE = 10
# A part handed to a thread lasts at least so long: each is a native call that takes and gives the interpreter lock.
_PART_NS = 25_000
# What such a call costs by itself.
_CALL_NS = 400
# The longest native call between two looks at Ctrl-C, for kernels that do not poll.
SLICE_NS = 20_000_000


class Frame:
    """What one thread passes to native code: context, status and cancel words, and its scratch memory."""

    def __init__(self, scratch_bytes: int) -> None:
        self.words = _FRAME()
        self.address = ctypes.addressof(self.words)
        self.deadline = 0.0     # 0 is no limit
        self._scratch = ctypes.create_string_buffer(scratch_bytes + _ALIGN) if scratch_bytes else None
        if self._scratch is not None:
            self.words[3] = -(-ctypes.addressof(self._scratch) // _ALIGN) * _ALIGN

    def prepare(self, grid: tuple[int, int, int], callback: int, owner: Frame) -> None:
        """Fill the context for a launch whose status and cancel words are `owner`'s."""
        words = self.words
        words[0], words[1], words[2] = grid
        words[4] = owner.address + 8 * _STATUS
        words[5] = callback
        words[6] = owner.address + 8 * _CANCEL
        words[_ENTERED] = 0
        if owner is self:
            words[_CANCEL] = words[_STATUS] = words[_STATUS + 2] = 0

    def cancel(self, why: int = Cancel.INTERRUPTED) -> None:
        self.words[_CANCEL] = why

    def look_at_clock(self) -> None:
        """Cancel a launch that is over its time limit."""
        if self.deadline and time.monotonic() >= self.deadline:
            self.cancel(Cancel.TIMEOUT)

    @property
    def stopped(self) -> bool:
        """Whether an assertion has failed or the launch was cancelled."""
        return bool(self.words[_STATUS] or self.words[_CANCEL])


class PortableHost:
    """Loads kernels into this process and lends them threads.

    Work that seems to take less than `worth_help_ns` stays on the calling thread.
    """

    launchers: Any = None       # every launch goes through Python

    def __init__(self, threads: int | None = None, worth_help_ns: int = WORTH_HELP_NS,
                 timeout_s: float = 0.0) -> None:
        self.threads = threads if threads is not None else available_threads()
        self.worth_help_ns = worth_help_ns
        self.timeout_s = timeout_s
        self.pool = ThreadPool()
        self._loader = Loader()

    def load(self, code: CodeObject) -> PortableKernel:
        require_tiles(code)
        entry = str(code.metadata["entry"])
        return PortableKernel(self, self._loader.load(code.binary, entry), code.metadata)


def available_threads() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class PortableKernel(LoadedKernel):
    """Machine code in memory with its messages.

    `metadata["polls_cancel"]` says that the code has `while` loops, which poll the cancel word: launched from the main
    thread or with a time limit, such a kernel runs on pool threads alone, so that its caller can look at Ctrl-C and
    the clock meanwhile.  So does one with long `for` loops (`metadata["loops"]`), until its programs prove short.
    """

    def __init__(self, host: PortableHost, loaded: Any, metadata: Mapping[str, Any]) -> None:
        self.host = host
        self._loaded = loaded          # keeps the code mapped
        self.entry = _ENTRY(loaded.address)
        self._scratch_bytes = int(metadata.get("scratch_bytes", 0))
        self._reports = Reports(metadata)
        self._polls = bool(metadata.get("polls_cancel", False))
        self._has_loops = bool(metadata.get("loops", ()))
        self._frames: list[Frame] = []
        self.ns_per_program = 0.0     # of the last launch; decides where the next one runs, never what it computes

    def launch(self, grid: tuple[int, int, int], slots: Sequence[int]) -> None:
        """See `LoadedKernel.launch`."""
        total = grid[0] * grid[1] * grid[2]
        if total <= 0:
            return
        arguments = (ctypes.c_int64 * len(slots))(*slots)
        frame = self.take_frame()
        if self._reports.prints:
            printer = Printer(self._reports.prints, grid, frame.cancel)
            frame.prepare(grid, printer.address, frame)
        else:
            printer = None
            frame.prepare(grid, 0, frame)
        limit = self.host.timeout_s
        frame.deadline = time.monotonic() + limit if limit else 0.0
        try:
            self._run(grid, total, arguments, frame)
        except KeyboardInterrupt:
            status = frame.words[_STATUS:_STATUS + 8]
            raise self._reports.interrupt(status[Status.LOOP] - 1, status[Status.LOOP_PROGRAM], grid) from None
        status = frame.words[_STATUS:_STATUS + 8]
        late = frame.words[_CANCEL] == Cancel.TIMEOUT
        self.give_back(frame)
        if printer is not None:
            printer.reraise()
        if status[Status.FAILED]:
            raise self._reports.failure(status, grid)
        if late:
            raise self._reports.timeout(limit, status[Status.LOOP] - 1, status[Status.LOOP_PROGRAM], grid)

    def _run(self, grid: tuple[int, int, int], total: int, arguments: Any, frame: Frame) -> None:
        threads, worth = self.host.threads, self.host.worth_help_ns
        may_be_long = self._polls or (self._has_loops and not 0 < self.ns_per_program * total < SLICE_NS)
        if may_be_long and (frame.deadline or threading.current_thread() is threading.main_thread()):
            _SharedRun(self, grid, (0, total), min(threads, total), arguments, frame, leads=False).run()
            return
        first, known = 0, self.ns_per_program > 0
        if threads > 1 and total > 1:
            if not known or self.ns_per_program * total < _SURE * worth:    # the arguments may have changed
                first = self._measure(arguments, max(1, total // (32 * threads)), frame)
            if self.ns_per_program * (total - first) >= worth:
                places = min(threads, total - first)
                _SharedRun(self, grid, (first, total), places, arguments, frame, leads=True).run()
                return
        self._run_alone(arguments, first, total, frame, known)

    def _measure(self, arguments: Any, most: int, frame: Frame) -> int:
        """Run some programs from the first on, `most` or fewer if they take long; how many were run."""
        first, count = 0, 1 if not self.ns_per_program else most
        while first < most and not frame.stopped:
            count = min(count, most - first)
            cost = self._run_timed(arguments, first, first + count, frame)
            first += count
            if cost * count >= _PART_NS:
                break
            count = 8 * first
        return first

    def _run_alone(self, arguments: Any, first: int, last: int, frame: Frame, known: bool) -> None:
        """Run programs first..last-1 here, in parts short enough for Ctrl-C.

        Unless the cost is known, no part is longer than a few times what has run, since programs may differ.
        """
        while first < last and not frame.stopped:
            cost, count = self.ns_per_program, last - first
            if cost * count > SLICE_NS:
                count = max(1, int(SLICE_NS / cost))
            if not known:
                count = min(count, 8 * max(first, 1))
            self._run_timed(arguments, first, first + count, frame)
            frame.look_at_clock()
            first += count

    def _run_timed(self, arguments: Any, first: int, last: int, frame: Frame) -> float:
        """Run programs first..last-1 on this thread; nanoseconds a program."""
        start = time.perf_counter_ns()
        self.entry(arguments, first, last, frame.address)
        elapsed = time.perf_counter_ns() - start
        self.ns_per_program = cost = max(1, elapsed - _CALL_NS) / (last - first)
        return cost

    def give_back(self, frame: Frame) -> None:
        self._frames.append(frame)

    def take_frame(self) -> Frame:
        """A frame that no other thread uses."""
        try:
            return self._frames.pop()
        except IndexError:
            return Frame(self._scratch_bytes)


class _SharedRun:
    """A range of programs that pool threads and, if it `leads`, the calling thread run together."""

    def __init__(self, kernel: PortableKernel, grid: tuple[int, int, int], programs: tuple[int, int],
                 participants: int, arguments: Any, frame: Frame, *, leads: bool) -> None:
        self._kernel = kernel
        self._grid = grid
        self._arguments = arguments
        self._frame = frame
        self._leads = leads
        self._helpers = participants - leads
        cost = max(kernel.ns_per_program, 1.0)
        even = (programs[1] - programs[0]) // (16 * participants)
        chunk = min(max(even, int(_PART_NS / cost)), int(SLICE_NS / cost))
        self._ranges = Ranges(*programs, participants, leads, max(1, chunk))
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run all programs.  On an interrupt the launch is cancelled, waited for, and the interrupt raised."""
        try:
            self._kernel.host.pool.submit(self._help, self._helpers)
            if self._leads:
                self._lead()
            else:
                self._ranges.wait_until_drained(self._frame.look_at_clock, 0.05 if self._frame.deadline else 1.0)
        except BaseException as error:
            self._frame.cancel()
            self._error = error
        while True:     # helpers use the caller's memory, so nothing may cut this wait short
            try:
                self._ranges.close()
                break
            except KeyboardInterrupt as error:
                self._frame.cancel()
                self._error = error
        if self._error is not None:
            raise self._error

    def _lead(self) -> None:
        self._work(0, self._frame)

    def _work(self, place: int, frame: Frame) -> None:
        """Run what this place's range and the others' have left, and note what a program cost."""
        elapsed = done = 0
        while not self._frame.stopped and (part := self._ranges.claim(place)):
            start = time.perf_counter_ns()
            self._kernel.entry(self._arguments, *part, frame.address)
            self._frame.look_at_clock()
            elapsed += max(1, time.perf_counter_ns() - start - _CALL_NS)
            done += part[1] - part[0]
        if done:
            self._kernel.ns_per_program = elapsed / done

    def _help(self) -> None:
        place = self._ranges.join()
        if place is None:
            return
        try:
            frame = self._kernel.take_frame()
            frame.prepare(self._grid, self._frame.words[5], self._frame)
            self._work(place, frame)
            self._kernel.give_back(frame)
        except BaseException as error:      # no memory for scratch: the launch fails, the thread lives on
            self._frame.cancel()
            self._error = error
        finally:
            self._ranges.leave()
