"""What a host tells the user of a launch: prints, failed assertions, and launches that were stopped.

Tests: tests/targets/cpu_host/test_host.py.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.diagnostics import (
    BadAccess,
    KernelAssertionError,
    MemoryFaultError,
    OutOfBoundsError,
    TritonError,
    recorded_location,
    render,
)
from tilewright.targets.cpu.host.printing import PrintSite
from tilewright.targets.cpu.host.records import Status

Grid = tuple[int, int, int]
_MASK = (1 << 64) - 1
_PRINT = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class Reports:
    """The messages of one kernel, from what the code generator left in its metadata."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._name = str(metadata.get("name", metadata["entry"]))
        self._asserts: Sequence[Mapping[str, Any]] = metadata.get("asserts", ())
        self._accesses: Sequence[Mapping[str, Any]] = metadata.get("accesses", ())
        self._slots = int(metadata.get("slots", 0))
        self._location = recorded_location(metadata.get("location"))
        self._loops: Sequence[Any] = metadata.get("loops", ())
        self.prints = [PrintSite(p) for p in metadata.get("prints", ())]

    def failure(self, status: Sequence[int], grid: Grid) -> TritonError:
        """The error that a status record tells of: a failed assertion, an access out of bounds, a memory fault."""
        number, linear = status[Status.FAILED], status[Status.PROGRAM]
        if number == Status.FAULT:
            error = MemoryFaultError(self._name, status[Status.ADDRESS] & _MASK, program(linear, grid))
            error.slots = tuple((ctypes.c_int64 * self._slots).from_address(status[Status.SLOTS]))
            return error
        if number < Status.FIRST_ACCESS:
            return self.assertion(number - 1, linear, grid)
        record = self._accesses[number - Status.FIRST_ACCESS]
        address, low, high, pointer = (word & _MASK for word in status[Status.ADDRESS:])
        bad = BadAccess(record["access"], record["argument"], record["bytes"], address, pointer, low, high)
        return OutOfBoundsError(bad, self._name, program(linear, grid), recorded_location(record["location"]))

    def assertion(self, number: int, linear: int, grid: Grid) -> KernelAssertionError:
        """The error of assertion `number`, which failed in the program of linear id `linear`."""
        record = self._asserts[number]
        message = f"device assertion failed in program {program(linear, grid)}: {record['message']}"
        return KernelAssertionError(render(message, recorded_location(record.get("location"))))

    def timeout(self, seconds: float, loop: int, linear: int, grid: Grid) -> TimeoutError:
        """The error of a launch over its time limit, stopped in loop number `loop` (-1: in none) of a program."""
        return TimeoutError(self._stopped(f"{self._name} has not ended within {seconds:g} s (TILEWRIGHT_TIMEOUT)", loop,
                                          linear, grid))

    def interrupt(self, loop: int, linear: int, grid: Grid) -> KeyboardInterrupt:
        """Ctrl-C during a launch, with what is known of where that was."""
        return KeyboardInterrupt(self._stopped(f"{self._name} was interrupted", loop, linear, grid))

    def _stopped(self, message: str, loop: int, linear: int, grid: Grid) -> str:
        if loop < 0 or loop >= len(self._loops):
            return render(f"{message}; it was stopped between two programs", self._location)
        where = recorded_location(self._loops[loop])
        return render(f"{message}; program {program(linear, grid)} was in this loop", where)


class Printer:
    """The print callback of one launch; a failure in it is kept, `cancel`s the launch and is raised after its end."""

    def __init__(self, sites: Sequence[PrintSite], grid: Grid, cancel: Callable[[], None]) -> None:
        self._error: BaseException | None = None

        def show(site: int, linear: int, addresses: int | None) -> None:
            try:
                sys.stdout.write(sites[site].text(program(linear, grid), addresses or 0))
            except BaseException as error:
                self._error = error
                cancel()

        self._callback: Callable[[int, int, int | None], None] = _PRINT(show)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def reraise(self) -> None:
        if self._error is not None:
            raise self._error


def program(linear: int, grid: Grid) -> Grid:
    """(x, y, z) of a linear program id; x runs fastest."""
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])
