"""Compute capabilities: what each can do, as far as code depends on it.

Sources: PTX ISA 8.6, Table "Supported targets" and the sections named; CUDA C++ Programming Guide, Table "Technical
specifications per compute capability" (shared memory a block; warps and blocks an SM).  Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from typing import NamedTuple


class Capability(NamedTuple):
    """One architecture, by its name in PTX without `sm_`: `80`, `90a`, `100a`, `120a`.

    `shared_bytes` is the most that one program may have.  `ptx` is the PTX version that LLVM writes.  `registers` are
    the most of a thread; an option may lower them for a kernel.  An SM holds `sm_warps` warps of up to `sm_programs`
    programs.
    """

    name: str
    shared_bytes: int
    ptx: int = 80
    registers: int = 255
    sm_warps: int = 64
    sm_programs: int = 32

    @property
    def number(self) -> int:
        return int(self.name.rstrip("af"))

    @property
    def cpu(self) -> str:
        """As LLVM and ptxas call it."""
        return f"sm_{self.name}"

    @property
    def cp_async(self) -> bool:
        return self.number >= 80        # PTX ISA 9.7.9.25.3

    @property
    def fp8(self) -> bool:
        """cvt and mma on e4m3 and e5m2 (PTX ISA 9.7.9.21, 9.7.14)."""
        return self.number >= 89

    @property
    def tma(self) -> bool:
        return self.number >= 90        # cp.async.bulk.tensor, PTX ISA 9.7.9.27

    @property
    def tma_within_cta(self) -> bool:
        """cp.async.bulk.tensor to shared::cta: the only form that GPUs without clusters have; older PTX lacks it."""
        return self.number >= 100 and self.ptx >= 86        # PTX ISA 9.7.9.27

    @property
    def wgmma(self) -> bool:
        return self.name == "90a"       # PTX ISA 9.7.15

    @property
    def stmatrix(self) -> bool:
        return self.number >= 90        # PTX ISA 9.7.14.5.16

    @property
    def early_launches(self) -> bool:
        """Whether a launch may begin before those that it depends on have ended: griddepcontrol."""
        return self.number >= 90        # PTX ISA 9.7.13.14

    @property
    def bf16_atomics(self) -> bool:
        return self.number >= 90        # atom.add.noftz.bf16, PTX ISA 9.7.13.5


_SHARED = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 101: 227, 103: 227, 110: 227, 120: 99, 121: 99}
_SM_WARPS = {86: 48, 87: 48, 89: 48, 101: 48, 110: 48, 120: 48, 121: 48}
_SM_PROGRAMS = {86: 16, 87: 16, 89: 24, 101: 24, 110: 24, 120: 24, 121: 24}     # as ptxas 13.0.88 has it, 2026-12-01
_PTX = {89: 81, 100: 86, 101: 86, 103: 88, 110: 90, 120: 87, 121: 88}
_SPECIFIC = frozenset({90, 100, 101, 103, 110, 120, 121})       # those with features of that architecture alone: `a`


def capability(number: int | str) -> Capability:
    """The capability of a device of `number`, such as 80, 90 or "90a"; `a` is added where it exists.

    ValueError for what no code is made for.
    """
    digits = str(number).removeprefix("sm_").rstrip("af")
    if not digits.isdigit() or int(digits) not in _SHARED:
        known = ", ".join(map(str, _SHARED))
        raise ValueError(f"no code is made for compute capability {number!r}; there are {known}")
    n = int(digits)
    return Capability(f"{n}a" if n in _SPECIFIC else str(n), _SHARED[n] << 10, _PTX.get(n, 80),
                      sm_warps=_SM_WARPS.get(n, 64), sm_programs=_SM_PROGRAMS.get(n, 32))
