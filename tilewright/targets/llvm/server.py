"""The compile child: LLVM in a process of its own, because LLVM ends its process on some inputs.

    python -m tilewright.targets.llvm.server FILE      compile a saved reproducer here and now

`client` starts it in another way, `serve(parent)`, which answers requests on standard input until that is closed or
the parent is gone.  Requests and replies are frames (`frames`): text and plain options in; a status, and the object,
the assembly (with the cubin made of it) or the reason out.  Whatever LLVM prints goes to standard error, never between
the frames.
It imports what it needs and no more: its start is part of the first compilation.
Tests: tests/targets/llvm/test_client.py, tests/targets/llvm/test_server.py.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Sequence

from tilewright.diagnostics import InternalError
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.frames import read_frame, write_frame
from tilewright.targets.llvm.machine import ASSEMBLY, CUBIN
from tilewright.targets.llvm.requests import (
    COMPILE,
    DONE,
    FAULT,
    HOST,
    NOT_ASSEMBLED,
    REFUSED,
    pack_machine,
    read_reproducer,
    unpack,
)

_LOOK_AFTER_PARENT_S = 1.0
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3       # malloc.h
_KEPT_BYTES, _LARGE_BYTES = 256 << 20, 32 << 20


def serve(parent: int) -> None:
    """Answer requests until there are no more.  `parent` is the process to live for."""
    requests, replies = os.dup(0), os.dup(1)
    os.dup2(2, 1)       # what prints to standard output must not get between the frames
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    _keep_memory()
    toolchain.tune()
    toolchain.warm_up()
    try:
        while (fields := read_frame(lambda n: os.read(requests, n))) is not None:
            write_frame(replies, answer(fields))
    except OSError:     # the parent is gone
        return


def _keep_memory() -> None:
    """Let malloc keep what is freed for the next request, instead of giving it back to the system after each.

    Getting it again is 800 page faults for the smallest kernel and 4,400 for a tiled product: 1.6 of nvJitLink's 9 ms
    and 16 of its 350 (glibc, 2026-11-30).
    """
    try:
        limit = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):        # not glibc
        return
    limit(_TRIM_THRESHOLD, _KEPT_BYTES)
    limit(_MMAP_THRESHOLD, _LARGE_BYTES)


def answer(fields: Sequence[bytes]) -> list[bytes]:
    """The reply to one request."""
    try:
        if fields[0] == HOST:
            return [DONE, *pack_machine(toolchain.host_machine())]
        if fields[0] == COMPILE:
            return [DONE, *toolchain.products(unpack(fields))]
        return [FAULT, b"unknown request " + fields[0]]
    except InternalError as error:
        return [REFUSED, str(error).encode()]
    except toolchain.AssemblerError as error:
        return [NOT_ASSEMBLED, str(error).encode()]
    except Exception:
        return [FAULT, traceback.format_exc().encode()]


def _leave_with(parent: int) -> None:
    """End this process when `parent` has ended, also in the middle of a compilation."""
    try:
        gone = os.pidfd_open(parent)
    except (AttributeError, OSError):       # not Linux, or not allowed
        while os.name == "nt" or os.getppid() == parent:     # on Windows the closed pipe has to be enough
            time.sleep(_LOOK_AFTER_PARENT_S)
    else:
        if os.getppid() == parent:      # else it ended before it could be watched
            select.select([gone], [], [])
    os._exit(0)


def main(arguments: Sequence[str]) -> int:
    """Compile the reproducer that `arguments` name."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tilewright.targets.llvm.server FILE\n")
        return 2
    toolchain.tune()
    with open(arguments[0], encoding="utf-8") as file:
        request = read_reproducer(file.read(), toolchain.host_machine())
    try:
        made = toolchain.products(request)
    except (InternalError, toolchain.AssemblerError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(made[0].decode() if request.output in (ASSEMBLY, CUBIN) else
                     f"{len(made[0])} bytes of machine code\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
