"""What the machine has to say: faults with the PTX line and the user's line, and counters.

A fault is something that is not defined on the hardware, or that never ends.
Tests: tests/targets/nvidia/ptx/test_faults.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tilewright.diagnostics import Location, TritonError, render

# class of a fault -> what it means
FAULT_CLASSES = {
    "race": "two accesses of one place, one of them a write, with nothing that orders them",
    "early read": "data of an asynchronous copy used before it was waited for",
    "uninitialised": "a value read that nothing wrote",
    "out of bounds": "an address outside of what the launch handed over",
    "misaligned": "an address that is no multiple of the size of the access",
    "deadlock": "threads that wait for what never comes",
    "barrier": "a barrier used against its rules",
    "proxy fence": "ordinary writes read by the asynchronous proxy with no fence between (PTX ISA 8.3)",
    "in flight": "a register or place that an asynchronous product still uses",
    "read-only": "a write to memory that may not be written",
    "membermask": "a warp instruction executed by a lane that its mask leaves out",
    "operand": "an operand that the instruction does not take",
    "trap": "trap was executed",
    "assertion": "an assertion of the kernel did not hold",
    "limit": "more instructions than the limit allows",
}


class PtxSyntaxError(TritonError):
    """Text that is not PTX, or has no meaning here; `line` counts from 1."""

    def __init__(self, message: str, line: int, text: str = "", location: Location | None = None) -> None:
        self.message, self.line, self.text, self.location = message, line, text.strip(), location
        where = f"PTX line {line}: {self.text}" if self.text else f"PTX line {line}"
        super().__init__(render(f"{where}\n{message}", location))


class Fault(TritonError):
    """The program did something that is not defined on the machine.

    `kind` is one of `FAULT_CLASSES`; `line` and `text` are the PTX instruction, `location` the user's line, `cta` the
    (x, y, z) of the CTA, `threads` some of the threads at fault.
    """

    def __init__(self, kind: str, message: str, threads: tuple[int, ...] = ()) -> None:
        assert kind in FAULT_CLASSES
        self.kind, self.message, self.threads = kind, message, threads
        self.line, self.text, self.kernel = 0, "", ""
        self.location: Location | None = None
        self.cta: tuple[int, int, int] | None = None
        super().__init__(message)

    def at(self, line: int, text: str, location: Location | None) -> Fault:
        """This fault, at an instruction (kept if it has one already)."""
        if not self.line:
            self.line, self.text, self.location = line, text.strip(), self.location or location
        return self

    def __str__(self) -> str:
        parts = [f"{self.kind}: {self.message}"]
        if self.threads:
            shown = ", ".join(f"{t} (warp {t // 32}, lane {t % 32})" for t in self.threads[:3])
            parts.append(f"thread{'s' if len(self.threads) > 1 else ''} {shown}")
        if self.cta is not None:
            parts.append(f"CTA {self.cta} of {self.kernel}")
        if self.line:
            parts.append(f"PTX line {self.line}: {self.text}")
        return render("\n".join(parts), self.location)


@dataclass
class Counters:
    """What a launch did.  Every entry of `counts` is a sum over CTAs; the keys:

    instructions (of a strand: warps that run together count once), warp_instructions, divergent_branches, barriers,
    shuffles, mma, wgmma, ctas; with `count_memory` also, of each space and direction, "<space> <load|store> requests",
    "... bytes", and "... sectors" (32 bytes, global memory) or "... wavefronts" (shared memory: 1 a request is free of
    bank conflicts).  `by_line` has requests and sectors or wavefronts of a PTX line.
    """

    counts: Counter[str] = field(default_factory=Counter)
    by_line: dict[int, Counter[str]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.counts[name]

    def add(self, name: str, count: int, line: int = 0) -> None:
        self.counts[name] += count
        if line:
            self.by_line.setdefault(line, Counter())[name] += count
