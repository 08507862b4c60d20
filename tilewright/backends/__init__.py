"""The code generators by name, as programs look for them: `backends["cpu"].compiler` and `.driver` are classes.

What a target does is in `tilewright.targets`; this is the face that triton's plug-ins have.
Tests: tests/compat/test_compile.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.compiler import BaseBackend, CpuBackend, CpuOptions, CudaBackend, CudaOptions
from tilewright.runtime.driver import CpuDriver, CudaDriver


@dataclass(frozen=True)
class Backend:
    """The classes of one code generator."""

    compiler: type[BaseBackend]
    driver: type[CpuDriver | CudaDriver]


backends: dict[str, Backend] = {"cpu": Backend(CpuBackend, CpuDriver),
                                "nvidia": Backend(CudaBackend, CudaDriver)}

__all__ = ["Backend", "BaseBackend", "CpuBackend", "CpuDriver", "CpuOptions", "CudaBackend", "CudaDriver",
           "CudaOptions", "backends"]
