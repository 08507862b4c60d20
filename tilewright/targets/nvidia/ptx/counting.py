"""Sectors of global memory and wavefronts of shared memory that a warp's access takes.

A global request fetches the distinct 32-byte sectors that its lanes touch.  A shared request is served in parts of 32
words; each part takes as many wavefronts as the bank with the most distinct words has (32 banks of 4 bytes).
Tests: tests/targets/nvidia/ptx/test_counters.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.report import Counters

Array = np.ndarray[Any, Any]


def sectors(address: Array, size: int, warp: Array) -> int:
    """Distinct 32-byte sectors, summed over warps."""
    touched = [address >> 5, (address + size - 1) >> 5]
    keys = np.concatenate([t * 64 + warp for t in touched])
    return len(np.unique(keys))


def wavefronts(address: Array, size: int, threads: Array) -> int:
    """Wavefronts of shared memory, summed over warps; lanes are served together up to 32 words."""
    words = max(1, size // 4)
    together = 32 // words
    part = (threads >> 5) * 32 + (threads & 31) // together
    word = ((address >> 2)[:, None] + np.arange(words)).reshape(-1)
    keys = np.unique(np.repeat(part, words) * (1 << 32) + word)
    conflicts = np.unique((keys >> 32) * 32 + (keys & 31), return_counts=True)
    group = conflicts[0] // 32
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    return int(np.maximum.reduceat(conflicts[1], first).sum())


def count_access(counters: Counters, space: str, kind: str, address: Array, size: int, threads: Array,
                 line: int) -> None:
    """Add one instruction's access to the counters."""
    warp = threads >> 5
    name = f"{space} {kind}"
    counters.add(f"{name} requests", len(np.unique(warp)), line)
    counters.add(f"{name} bytes", size * len(address), line)
    if space == "shared":
        counters.add(f"{name} wavefronts", wavefronts(address, size, threads), line)
    elif space == "global":
        counters.add(f"{name} sectors", sectors(address, size, warp), line)
