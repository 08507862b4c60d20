"""How the registers of an SM are shared out among its threads.

Sources: CUDA C++ Programming Guide, technical specifications.  Tests: tests/targets/nvidia/test_pressure.py.
"""

from __future__ import annotations

from tilewright.targets.nvidia.capability import Capability

REGISTERS = 1 << 16         # of an SM, 32 bits each; a block can have all of them
THREAD_REGISTERS = 255      # of a thread: an instruction names at most so many
WARP_SIZE = 32
_GRANULE = 8                # they are given out in eights


def most_registers(num_warps: int, programs: int = 1) -> int:
    """What a thread can have if an SM has room for `programs`."""
    return min(REGISTERS // (WARP_SIZE * num_warps * programs) // _GRANULE * _GRANULE, THREAD_REGISTERS)


def programs_with(registers: int, num_warps: int, capability: Capability) -> int:
    """How many programs have room on an SM if each of their threads has so many registers; at least 1.

    Never more than it holds anyway: ptxas ignores such a number, and all that it would say of registers.
    """
    limit = min(-(-registers // _GRANULE) * _GRANULE, THREAD_REGISTERS)
    room = min(REGISTERS // (limit * WARP_SIZE * num_warps), capability.sm_warps // num_warps, capability.sm_programs)
    return max(1, room)
