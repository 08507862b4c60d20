"""What only an NVIDIA GPU has: its clock, the number of a multiprocessor, launches that depend on one another.

`tl.extra.cuda` has the names.  Each is one instruction of inline assembly, so on the CPU and in the interpreters its
use is an error that names it; but what orders launches is nothing there, where each ends before the next begins.
Tests: tests/lang/test_special_registers.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin
from tilewright.language.constexpr import constexpr
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, int32, int64

_WARP = 32


def _instruction(builder: Builder, name: str, text: str, constraint: str, result: dtype, pure: bool,
                 nothing_elsewhere: bool = False) -> tensor:
    """The scalar that one instruction gives; not pure: executed once and in order."""
    attrs = {"text": text, "constraints": constraint, "results": (result.to_ir(),), "pack": 1,
             "name": f"tl.extra.cuda.{name}", **({"nothing_elsewhere": True} if nothing_elsewhere else {})}
    (handle,) = builder.emit("inline_asm" if pure else "inline_asm_ordered", [], attrs)
    return tensor(handle, result, builder)


def nanoseconds(builder: Builder, name: str = "globaltimer") -> tensor:
    """The GPU's clock in nanoseconds, an int64 (PTX ISA 10, %globaltimer)."""
    return _instruction(builder, name, "mov.u64 $0, %globaltimer;", "=l", int64, pure=False)


@builtin
def globaltimer(*, _builder: Builder) -> tensor:
    """The GPU's clock in nanoseconds, an int64.  On NVIDIA GPUs only."""
    return nanoseconds(_builder)


@builtin
def smid(*, _builder: Builder) -> tensor:
    """The number of the multiprocessor that runs this program, an int32.  On NVIDIA GPUs only."""
    return _instruction(_builder, "smid", "mov.u32 $0, %smid;", "=r", int32, pure=True)


@builtin
def num_warps(*, _builder: Builder) -> Any:
    """The option `num_warps` of this launch, known when the kernel is compiled; also where it changes nothing."""
    return constexpr(_builder.options.num_warps)


@builtin
def num_threads(*, _builder: Builder) -> Any:
    """32 times the option `num_warps` of this launch, known when the kernel is compiled."""
    return constexpr(_WARP * _builder.options.num_warps)


@builtin
def gdc_wait(*, _builder: Builder) -> None:
    """Wait until the launches before this one, on which it depends (`launch_pdl=True`), have ended and their memory
    is seen; else nothing.  On NVIDIA GPUs before capability 9, and on the CPU, all launches before have ended."""
    _instruction(_builder, "gdc_wait", "griddepcontrol.wait; mov.u32 $0, 0;", "=r", int32, pure=False,
                 nothing_elsewhere=True)


@builtin
def gdc_launch_dependents(*, _builder: Builder) -> None:
    """Let launches that depend on this one (`launch_pdl=True`) start.  On NVIDIA GPUs before capability 9, and on
    the CPU, they start when this one has ended."""
    _instruction(_builder, "gdc_launch_dependents", "griddepcontrol.launch_dependents; mov.u32 $0, 0;", "=r", int32,
                 pure=False, nothing_elsewhere=True)
