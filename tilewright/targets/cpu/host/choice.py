"""Which host runs kernels: `linux` where it can, else `portable`.

Tests: tests/targets/cpu_host/test_linux.py.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

from tilewright.locks import NO_FORK
from tilewright.targets.base import CodeObject, LoadedKernel
from tilewright.targets.cpu.host.library import ObjectStore
from tilewright.targets.cpu.host.linux import LinuxHost
from tilewright.targets.llvm.machine import Compiler

KINDS = ("linux", "portable")


class Host(Protocol):
    """What loads compiled kernels into this process."""

    @property
    def launchers(self) -> Any: ...

    def load(self, code: CodeObject) -> LoadedKernel: ...


def best_kind() -> str:
    """`linux` on x86-64 Linux under a CPython with its lock; AArch64 has not been tried and has to be asked for."""
    has_lock = "free-threading" not in sys.version      # sysconfig knows as well, but takes milliseconds to ask
    fits = sys.platform == "linux" and os.uname().machine == "x86_64" and sys.implementation.name == "cpython"
    return "linux" if fits and has_lock else "portable"


def make_host(kind: str, compiler: Compiler, threads: int | None, timeout_s: float,
              store: ObjectStore | None, catches_faults: bool = True, perf: str = "") -> Host:
    """The host of that kind; an empty `kind` is the best one for this machine.  Only `linux` knows `perf`."""
    kind = kind or best_kind()
    if kind == "linux":
        return LinuxHost(compiler, threads, timeout_s=timeout_s, store=store, catches_faults=catches_faults, perf=perf)
    if kind == "portable":
        with NO_FORK:
            from tilewright.targets.cpu.host.portable import PortableHost
        return PortableHost(threads, timeout_s=timeout_s)
    raise ValueError(f"TILEWRIGHT_HOST={kind!r}: expected one of {', '.join(KINDS)}")
