"""Asynchronous copies under way in a CTA, and when they land: as late as the program allows, or by chance.

Tests: tests/targets/nvidia/ptx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.cta import Cta


class Asynchronous:
    """What a CTA's threads have started and not yet seen finished."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self.clear()

    def clear(self) -> None:
        self.flying: list[Any] = []

    def land_one(self) -> bool:
        """Let one copy land; False if none is under way."""
        return False

    def describe(self) -> list[str]:
        return []

    def blocked_at(self) -> list[int]:
        return []

    def finish(self) -> None:
        """After the last thread has left."""
