"""What programs ask of a compiled kernel to find how many of its programs fit on a device at once.

They divide the device's budgets (`driver.active.utils.get_device_properties`) by these.  A CPU core runs one program
at a time whatever these say, so they only have to give such a division a sensible, positive result.
Tests: tests/runtime/test_resources.py.
"""

from __future__ import annotations

CACHE_LINE = 64


class KernelResources:
    """The attributes that triton's kernels have once they are loaded."""

    n_regs = 32             # vector registers of a core (AVX-512; 32 on AArch64, too)
    n_spills = 0            # not counted: spilled registers cost little on a CPU
    n_max_threads = 1024

    def _init_handles(self) -> None:
        """Load the code; it is loaded already.  Programs call this before they read the attributes."""


def fast_memory_of(scratch_bytes: int) -> int:
    """What `metadata.shared` says for a program that keeps `scratch_bytes` of tiles in memory; never 0."""
    return max(scratch_bytes, CACHE_LINE)
