"""LLVM in this process: no child, no protection from an LLVM that ends its process.

Chosen by the knob `compile_in_process`; importing this imports llvmlite.  Tests: tests/targets/llvm/test_client.py.
"""

from __future__ import annotations

from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.machine import Compiler, Machine, Meanwhile, Request, refused_by_assembler


class InProcess(Compiler):
    """Calls `toolchain`."""

    def prepare(self) -> None:
        """There is nothing to wait for."""

    def host(self) -> Machine:
        return toolchain.host_machine()

    def products(self, request: Request, name: str, meanwhile: Meanwhile = None) -> list[bytes]:
        if meanwhile is not None:
            meanwhile()
        try:
            return toolchain.products(request)
        except toolchain.AssemblerError as error:
            raise refused_by_assembler(name, str(error)) from None
