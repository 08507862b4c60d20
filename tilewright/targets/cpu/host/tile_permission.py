"""Asking Linux for the use of AMX's tile registers, which it grants to a process, with the threads and forks to come.

The registers make a thread's state 8 KiB larger, also where a signal saves it.  So Linux refuses if a thread has an
alternate signal stack too small for that, and from then on refuses such stacks; Python's `faulthandler` and others that
take the size from the system (AT_MINSIGSTKSZ) are large enough.  A process without the permission runs code without
products of tiles: `without_tiles` is its machine, so nothing that is cached for tiles is found.
See https://docs.kernel.org/arch/x86/xstate.html.  Tests: tests/targets/cpu_host/test_tile_permission.py.
"""

from __future__ import annotations

import ctypes
import os
import sys

from tilewright.diagnostics import NotOnThisTargetError
from tilewright.targets.base import CodeObject
from tilewright.targets.llvm.machine import Machine

_ARCH_PRCTL = 158                                   # of x86-64
_REQUEST, _TILE_DATA = 0x1023, 18                   # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA


def require_tiles(code: CodeObject) -> None:
    """Ask for the registers if `code` uses them.  NotOnThisTargetError where the process may not."""
    if code.metadata.get("tiles") and not may_use_tiles():
        raise NotOnThisTargetError(f"{code.name} was compiled for a machine with AMX, which this process may not use "
                                   "here; compiled in this process it does without")


def may_use_tiles() -> bool:
    """Whether this process may use the registers from now on.  Asking twice does no harm."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return False
    try:
        return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0)
    except (AttributeError, OSError):
        return False


def without_tiles(machine: Machine) -> Machine:
    """The same machine, as if it had no AMX."""
    features = [("-" + f[1:]) if f.startswith("+amx-") else f for f in machine.features.split(",")]
    return Machine(machine.triple, machine.cpu, ",".join(features), machine.llvm)


def permitted(machine: Machine) -> Machine:
    """`machine`, which is the one that this process runs on, with what Linux lets the process use of it."""
    return machine if not machine.isa.tiles or may_use_tiles() else without_tiles(machine)
