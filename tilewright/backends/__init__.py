"""The code generators by name, as programs look for them: `backends["cpu"].compiler` and `.driver` are classes.

What a target does is in `tilewright.targets`; this is the face that triton's plug-ins have.
Tests: tests/compat/test_compile.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.compiler import BaseBackend, CpuBackend, CpuOptions
from tilewright.runtime.driver import CpuDriver


@dataclass(frozen=True)
class Backend:
    """The classes of one code generator."""

    compiler: type[BaseBackend]
    driver: type[CpuDriver]


backends: dict[str, Backend] = {"cpu": Backend(CpuBackend, CpuDriver)}

__all__ = ["Backend", "BaseBackend", "CpuBackend", "CpuDriver", "CpuOptions", "backends"]
