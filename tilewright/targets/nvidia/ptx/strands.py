"""Sets of threads that run together.

Tests: tests/targets/nvidia/ptx/test_control.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Strand:
    """Threads `on` (None: all) at instruction `pc`; `stack` are the places where they are to meet others, innermost
    last.

    `turn` counts how often it gave way; `tried` is the instruction at which it last tried to wait in vain; `admitted`
    is the guarded instruction that it may execute unguarded.
    """

    __slots__ = ("admitted", "count", "loops", "on", "pc", "stack", "tried", "turn")

    def __init__(self, pc: int, on: Array | None, count: int, stack: tuple[int, ...] = (), admitted: int = -1,
                 turn: int = 0) -> None:
        self.pc, self.on, self.count, self.stack = pc, on, count, stack
        self.admitted, self.turn, self.loops, self.tried = admitted, turn, 0, -1
