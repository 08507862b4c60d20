"""LLVM in this process: no child, no protection from an LLVM that ends its process.

Chosen by the knob `compile_in_process`; importing this imports llvmlite.  Tests: tests/targets/llvm/test_client.py.
"""

from __future__ import annotations

from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.machine import Compiler, Machine, Request


class InProcess(Compiler):
    """Calls `toolchain`."""

    def prepare(self) -> None:
        """There is nothing to wait for."""

    def host(self) -> Machine:
        return toolchain.host_machine()

    def compile(self, request: Request, name: str) -> bytes:
        return toolchain.compile_request(request)
