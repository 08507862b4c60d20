"""Where the elements of matrix fragments lie: lane and register of each (PTX ISA 9.7.14.5 mma, 9.7.15.5 wgmma).

With g = lane / 4 and t = lane % 4, a register of p elements holds, for A, row g + 8 (i odd), columns p t + e + 4 p (i
/ 2); for B, rows p t + e + 4 p i, column g; for C, row g + 8 (i / 2), column 2 t + (i odd).  The tables give, for each
matrix element, its place in [lane][register][element].
Tests: tests/targets/nvidia/ptx/test_tensor_cores.py.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _frozen(table: Array) -> Array:
    table.flags.writeable = False
    return table


@cache
def a_places(rows: int, depth: int, per: int) -> Array:
    """[rows, depth]: place of each element of A in the warp's registers of `per` elements."""
    m, k = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    registers = max(1, rows // 8 * depth // (4 * per))
    halves = 2 if rows == 16 else 1
    register = k // (4 * per) * halves + (m // 8 if halves == 2 else 0)
    lane = m % 8 * 4 + k % (4 * per) // per
    return _frozen((lane * registers + register) * per + k % per)


@cache
def b_places(depth: int, columns: int, per: int) -> Array:
    """[depth, columns] of B; 8 columns."""
    k, n = np.meshgrid(np.arange(depth), np.arange(columns), indexing="ij")
    registers = max(1, depth // (4 * per))
    lane = n % 8 * 4 + k % (4 * per) // per
    return _frozen((lane * registers + k // (4 * per)) * per + k % per)


@cache
def c_places(rows: int, columns: int, per: int) -> Array:
    """[lane, register, element] -> index into the row-major matrix of C or D, for registers of `per` elements."""
    lane, i = np.meshgrid(np.arange(32), np.arange(rows // 8 * 2 * (columns // 8)), indexing="ij")
    tile, inner = i // (rows // 8 * 2), i % (rows // 8 * 2)
    row = lane // 4 + 8 * (inner // 2)
    column = tile * 8 + lane % 4 * 2 + inner % 2
    return _frozen((row * columns + column).reshape(32, -1, per))
