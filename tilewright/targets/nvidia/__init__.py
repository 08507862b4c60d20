"""NVIDIA GPUs: layouts, PTX, cubins."""

from tilewright.targets.nvidia.target import NvidiaTarget

__all__ = ["NvidiaTarget"]
