"""AMX: eight registers that hold tiles of up to 16 rows of 64 bytes, and products of tiles.

Registers are named by number in the text, so that LLVM neither allots nor spills any.  A thread that has not
*configured* them faults at any other instruction here; configuring clears them.  It takes 75 ns, a product of full
tiles 6 (Emerald Rapids, 2026-11-30).  Calls may leave the registers and their configuration as they please; to look at
that takes 6 ns.
Linux wants to be asked before a process uses them (`targets.cpu.host.tile_permission`).
Semantics: Intel, Software Developer's Manual, volume 1, chapter 18; LDTILECFG, TDPBF16PS, TDPBSSD in volume 2.
Tests: tests/targets/cpu/test_tiles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import I8, I64, PTR, VOID, Type, Value, constant, constant_lanes

MOST_ROWS, MOST_BYTES = 16, 64
_BYTES = Type("i8", 64)
# Which registers hold what: four tiles of sums, two of each operand.
SUMS, LEFT, RIGHT = range(4), range(4, 6), range(6, 8)


class Shape(NamedTuple):
    """Of tiles that are multiplied: rows of the left one, and bytes of each, a multiple of 4.

    The right one has a row of 16 groups of 4 bytes for each group in a left row, the sums as many rows as the left one.
    """

    rows: int
    bytes: int


def _do(f: FunctionWriter, name: str, numbers: Sequence[int], *args: Value) -> None:
    """An instruction on tile registers."""
    name = f"llvm.x86.{name}"
    f.module.declare(name, VOID, [*[I8] * len(numbers), *(a.type for a in args)])
    f.do(f"call void @{name}({', '.join([*(f'i8 {n}' for n in numbers), *map(str, args)])})")


def _configuration(shape: Shape) -> list[int]:
    """What LDTILECFG takes: 64 bytes."""
    row_bytes = [MOST_BYTES] * 4 + [shape.bytes] * 2 + [MOST_BYTES] * 2
    rows = [shape.rows] * 6 + [shape.bytes // 4] * 2
    return [1, *[0] * 15, *(b for n in row_bytes for b in (n, 0)), *[0] * 16, *rows, *[0] * 8]      # palette 1


def configure(f: FunctionWriter, shape: Shape) -> None:
    """Make the registers hold tiles of these shapes, all of zeros."""
    name = f"@tiles_{shape.rows}_{shape.bytes}"
    content = ", ".join(f"i8 {b}" for b in _configuration(shape))
    f.module.add_global(f"{name} = internal constant [64 x i8] [{content}], align 64")
    _do(f, "ldtilecfg", (), Value(PTR, name))


def ensure(f: FunctionWriter, shape: Shape) -> None:
    """`configure` unless they hold such tiles, of whatever content."""
    now = f.alloca(_BYTES)
    _do(f, "sttilecfg", (), now)
    differ = f.icmp("ne", f.load(now, _BYTES, MOST_BYTES), constant_lanes("i8", _configuration(shape)))

    def change() -> tuple[Value, ...]:
        configure(f, shape)
        return ()

    f.branch(f.icmp("ne", f.bitcast(differ, I64), constant(I64, 0)), change)


def release(f: FunctionWriter) -> None:
    """Nobody uses the registers any more, so that nobody saves them."""
    _do(f, "tilerelease", ())


def load(f: FunctionWriter, tile: int, start: Value, stride: Value, passing: bool = False) -> None:
    """Rows from `start` on, `stride` bytes (i64) apart; a `passing` tile need not stay in the nearest cache."""
    _do(f, "tileloaddt164" if passing else "tileloadd64", (tile,), start, stride)


def store(f: FunctionWriter, tile: int, start: Value, stride: Value) -> None:
    _do(f, "tilestored64", (tile,), start, stride)


def clear(f: FunctionWriter, tile: int) -> None:
    _do(f, "tilezero", (tile,))


def multiply(f: FunctionWriter, sums: int, left: int, right: int, is_float: bool) -> None:
    """sums += left @ right: bf16 to float, or signed bytes to i32."""
    _do(f, "tdpbf16ps" if is_float else "tdpbssd", (sums, left, right))
