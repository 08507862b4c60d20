"""The programs that run together, and the values that they see.

A `Frame` holds the linear ids of its programs, ascending, and an array for each value, with a leading program axis
of that many programs or of size 1, which stands for all of them.  Beside its value an engine may note something of
it, in the same form (`notes`, by kind).  A child frame runs some rows of its parent (the
programs that took a branch, or the lanes of a tile for the region of a reduction); it fetches a value of an enclosing
block from its parent, row by row, when it is first asked for.  Tests: tests/interpret/test_batched.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir.node import Value

Array = np.ndarray[Any, Any]


class Frame:
    """Programs and their values; `rows` says which rows of the parent these are (a row may come many times)."""

    __slots__ = ("notes", "parent", "programs", "rows", "values")

    def __init__(self, programs: Array, parent: Frame | None = None, rows: Array | None = None) -> None:
        self.programs = programs
        self.parent = parent
        self.rows = rows
        self.values: dict[Value, Array] = {}
        self.notes: dict[tuple[str, Value], Array | None] = {}

    @property
    def size(self) -> int:
        return int(self.programs.shape[0])

    def get(self, value: Value) -> Array:
        """The array of `value`, from here or from the frames around."""
        array = self.values.get(value)
        if array is None:
            assert self.parent is not None, f"{value!r} has no value here"
            array = self.parent.get(value)
            if self.rows is not None:
                array = take(array, self.rows)
            self.values[value] = array
        return array

    def note(self, kind: str, value: Value) -> Array | None:
        """What is noted of `value`, here or in the frames around; None if nothing is."""
        key = (kind, value)
        if key in self.notes or self.parent is None:
            return self.notes.get(key)
        array = self.parent.note(kind, value)
        if array is not None and self.rows is not None:
            array = take(array, self.rows)
        self.notes[key] = array
        return array

    def bind(self, values: Sequence[Value], arrays: Sequence[Array]) -> None:
        """Give values (block arguments, results) their arrays."""
        for value, array in zip(values, arrays, strict=True):
            self.values[value] = array

    def child(self, rows: Array) -> Frame:
        """A frame of these rows of this one."""
        return Frame(self.programs[rows], self, rows)


def take(array: Array, rows: Array) -> Array:
    """Some rows of an array along its program axis."""
    return array if array.shape[0] == 1 else array[rows]


def uniform_flag(flag: Array) -> bool | None:
    """The one value of a flag if all programs agree, else None."""
    first = bool(flag[0])
    return first if flag.shape[0] == 1 or bool((flag == first).all()) else None


class Merger:
    """Collects the results of groups of programs, and puts them together in program order."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._parts: list[tuple[Array, Sequence[Array]]] = []

    def add(self, rows: Array, arrays: Sequence[Array]) -> None:
        self._parts.append((rows, arrays))

    def merged(self) -> list[Array]:
        if len(self._parts) == 1:
            return list(self._parts[0][1])
        out = []
        for number in range(len(self._parts[0][1])):
            pieces = [arrays[number] for _, arrays in self._parts]
            whole = np.empty((self._size, *pieces[0].shape[1:]), pieces[0].dtype)
            for (rows, _), piece in zip(self._parts, pieces, strict=True):
                whole[rows] = piece
            out.append(whole)
        return out
