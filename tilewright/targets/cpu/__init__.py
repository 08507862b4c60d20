"""The CPU target: tile IR to vectorised machine code for this machine, run on all its cores."""

from tilewright.targets.cpu.target import CpuTarget

__all__ = ["CpuTarget"]
