"""Loading and launching CPU kernels on Linux: own object loader, own thread pool in native code.

It does what `portable` does, which says how a kernel is called, without llvmlite and with launches that cost
nanoseconds: threads, scratch, Ctrl-C and the time limit are the business of native code (`pool_code`).
Before: a `CodeObject` of the cpu target.  After `launch`: every program has run, or an error has been raised and no
thread is in the kernel any more.  Any number of Python threads may launch at once; after a fork the child's first
shared launch makes new threads.  Tests: tests/targets/cpu_host/test_host.py, test_linux.py.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.computed import computed
from tilewright.diagnostics import OutOfResources
from tilewright.locks import NO_FORK
from tilewright.targets.base import CodeObject, LoadedKernel
from tilewright.targets.cpu.host.elf import Image
from tilewright.targets.cpu.host.library import Library, ObjectStore, keep_for_ever, lone_word
from tilewright.targets.cpu.host.records import WORD, Cancel, Flags, Frame, Kernel, Pool, Status
from tilewright.targets.cpu.host.reports import Grid, Printer, Reports
from tilewright.targets.cpu.host.tile_permission import require_tiles
from tilewright.targets.llvm.machine import Compiler

if TYPE_CHECKING:
    from tilewright.targets.cpu.host.launcher import Launchers

# Less work than this stays on the caller, or half of it if workers are awake, since sharing costs 1 to 3 us then; up to
# four times as much does if they have slept for long, since they take 20 to 60 us to come.
WORTH_HELP_NS = 10_000
# The longest native call between two looks at Ctrl-C, for kernels that do not poll.
SLICE_NS = 20_000_000
# Pauses before an idle worker sleeps.
SPIN = 1_000

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_FRAME = ctypes.c_int64 * (Frame.SIZE // WORD)
_KERNEL = ctypes.c_int64 * (Kernel.SIZE // WORD)


class LinuxHost:
    """Loads kernels into this process and runs them on `threads` threads, the caller's among them.

    Work that seems to take less than `worth_help_ns` stays on the calling thread.  A launch that takes longer than
    `timeout_s` is stopped; 0 is no limit.  With `catches_faults` a memory fault in a kernel is an error.  `perf` is how
    Linux's perf is told of the code (`perf.KINDS`; empty: not).
    """

    def __init__(self, compiler: Compiler, threads: int | None = None, worth_help_ns: int = WORTH_HELP_NS,
                 timeout_s: float = 0.0, store: ObjectStore | None = None, library: Library | None = None,
                 catches_faults: bool = True, perf: str = "") -> None:
        usable = threads if threads is not None else len(os.sched_getaffinity(0))
        self.threads = min(usable, Pool.MOST_THREADS)
        self.timeout_s = timeout_s
        self._perf = perf
        self._is_debugged = False
        self._compiler = compiler
        self._store = store
        self._catches_faults = catches_faults
        self.library = library if library is not None else Library(compiler, store)
        memory = mmap.mmap(-1, Pool.SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)    # a forked process has its own
        keep_for_ever(memory)       # threads of the pool look at it even after the host has gone
        self.pool = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for offset, value in ((Pool.THREADS, self.threads), (Pool.WORTH, worth_help_ns), (Pool.SLICE, SLICE_NS),
                              (Pool.TIMEOUT, int(timeout_s * 1e9)), (Pool.SPIN, SPIN), (Pool.STEERED, -1),
                              (Pool.LONE_AT, lone_word()), (Pool.ROUSE, self.library.image.symbols["rouse"])):
            ctypes.c_int64.from_address(self.pool + offset).value = value
        pool, this = self.pool, weakref.ref(self)

        def renew() -> None:
            if this() is not None:
                _forget_threads(pool)

        os.register_at_fork(after_in_child=renew)
        weakref.finalize(self, self.library.stop, pool).atexit = False

    @computed
    def launchers(self) -> Launchers | None:
        """What makes native launchers for this host's kernels; None where this Python does not allow for any."""
        with NO_FORK:
            from tilewright.targets.cpu.host.launcher import (  # by kernels launched more than once
                Launchers,
                is_supported,
            )
        made = Launchers(self.library, self._compiler, self._store) if is_supported() else None
        if made is not None:
            self._show(made.image, self._is_debugged)
        return made

    def load(self, code: CodeObject) -> LinuxKernel:
        require_tiles(code)
        if self._catches_faults:
            self.library.catch_faults()
        image = Image(code.binary, self.library.symbols)
        self._show(image, bool(code.metadata.get("line_info")))
        return LinuxKernel(self, image, code.metadata)

    def _show(self, image: Image, lines: bool) -> None:
        """Tell debuggers and profilers of code, if that is wanted; of the host's own code as soon as a kernel is."""
        if lines:
            with NO_FORK:
                from tilewright.targets.cpu.host.debugger import DEBUGGER
            self._is_debugged = True
            DEBUGGER.add(self.library.image)
            DEBUGGER.add(image)
        if self._perf:
            with NO_FORK:
                from tilewright.targets.cpu.host.perf import recorder
            recorder(self._perf).add(self.library.image)
            recorder(self._perf).add(image)


def _forget_threads(pool: int) -> None:
    """In a forked process: the pool has no threads, and nobody holds its lock or borrows its scratch."""
    for offset in (Pool.LOCK, Pool.STARTED, Pool.TIDS, Pool.SLEEPERS):
        ctypes.c_int32.from_address(pool + offset).value = 0
    ctypes.c_int64.from_address(pool + Pool.STEERED).value = -1
    ctypes.c_int64.from_address(lone_word()).value = 0


class LinuxKernel(LoadedKernel):
    """Machine code in memory with its messages."""

    def __init__(self, host: LinuxHost, image: Image, metadata: Mapping[str, Any]) -> None:
        self.host = host
        self._image = image         # keeps the code mapped
        self._reports = Reports(metadata)
        self._record = _KERNEL()
        # Printing takes a callback a launch, which only `launch` makes.
        self._address = ctypes.addressof(self._record)
        self.record = 0 if self._reports.prints else self._address
        flags = (Flags.POLLS * bool(metadata.get("polls_cancel")) | Flags.CALLS_PYTHON * bool(metadata.get("prints"))
                 | Flags.FENCE * bool(metadata.get("nontemporal")) | Flags.ATOMICS * bool(metadata.get("atomics"))
                 | Flags.TILES * bool(metadata.get("tiles")))
        self.scratch_bytes = int(metadata.get("scratch_bytes", 0))
        for offset, value in ((Kernel.LAUNCH, host.library.launch_address),
                              (Kernel.ENTRY, image.symbols[str(metadata["entry"])]),
                              (Kernel.SCRATCH, self.scratch_bytes), (Kernel.FLAGS, flags), (Kernel.POOL, host.pool),
                              (Kernel.CODE, image.base), (Kernel.CODE_SIZE, image.size)):
            self._record[offset // WORD] = value

    @property
    def entry(self) -> Any:
        """The machine code as a Python function (slots, first, last, context), for those who make their own context."""
        return _ENTRY(self._record[Kernel.ENTRY // WORD])

    @property
    def ns_per_program(self) -> float:
        """What a program took lately; decides where the next launch runs, never what it computes."""
        return self._record[Kernel.COST // WORD] / 1024

    def launch(self, grid: Grid, slots: Sequence[int]) -> None:
        """See `LoadedKernel.launch`."""
        if grid[0] * grid[1] * grid[2] > 2**62:
            raise ValueError(f"a grid of {grid[0]} x {grid[1]} x {grid[2]} programs would never end")
        arguments = (ctypes.c_int64 * max(1, len(slots)))(*slots)
        frame = _FRAME()
        try:
            if self._reports.prints:
                self._launch_printing(grid, arguments, frame)
            elif self.host.library.launch(self._address, arguments, *grid, frame):
                raise self.failure(grid, ctypes.addressof(frame))
        except KeyboardInterrupt:
            raise self._interrupt(grid, frame) from None

    def _launch_printing(self, grid: Grid, arguments: Any, frame: Any) -> None:
        """With a kernel record of this launch's own, which names its callback."""
        record = _KERNEL(*self._record)

        def cancel() -> None:
            frame[Frame.CANCEL // WORD] = Cancel.INTERRUPTED

        printer = Printer(self._reports.prints, grid, cancel)
        record[Kernel.PRINT // WORD] = printer.address
        failed = self.host.library.launch(ctypes.addressof(record), arguments, *grid, frame)
        self._record[Kernel.COST // WORD] = record[Kernel.COST // WORD]
        printer.reraise()
        if failed:
            raise self.failure(grid, ctypes.addressof(frame))

    def failure(self, grid: Grid, frame: int) -> BaseException:
        """The error that the frame at address `frame` tells of, after a launch that did not return 0."""
        words = _FRAME.from_address(frame)
        status, why = Frame.STATUS // WORD, words[Frame.CANCEL // WORD]
        if why == Cancel.INTERRUPTED:
            return self._interrupt(grid, words)
        if words[status]:
            return self._reports.failure(words[status:status + 8], grid)
        if why == Cancel.NO_MEMORY:
            return OutOfResources(self.scratch_bytes, 0, "memory for a thread's scratch")
        return self._reports.timeout(self.host.timeout_s, words[status + 2] - 1, words[status + 3], grid)

    def _interrupt(self, grid: Grid, words: Any) -> KeyboardInterrupt:
        """What Ctrl-C raises, from the words of the launch's frame."""
        loop, program = (words[Frame.STATUS // WORD + number] for number in (Status.LOOP, Status.LOOP_PROGRAM))
        return self._reports.interrupt(loop - 1, program, grid)
