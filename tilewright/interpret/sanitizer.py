"""Checked mode: the batched interpreter as a machine that tests every access and says what is wrong with the kernel.

What it finds is raised as an error of `diagnostics` at the first fault, before memory changes by it:

* an address outside of its argument (`OutOfBoundsError`), or within, but between the elements of a strided tensor
  (`FootprintError`);
* two programs that touch one element without atomics or an order by atomics, one writing (`DataRaceError`,
  `interpret.races`);
* an offset that wrapped on its way to an address (`WrappedOffsetError`, `interpret.shadows`);
* a lane that a masked load without `other` left undefined, and that is stored, decides a branch, or makes an address
  or a mask (`UndefinedLaneError`);
* a read of an element that nobody has written yet (`UnwrittenReadError`).  An allocation does not tell what of it has
  been written, so this is tested for the arguments that the launch names as unwritten (`check=["out"]`).

A run without a finding leaves in memory what the batched interpreter leaves.  Memory that belongs to no argument
(through loaded pointers) is accessed safely, and not followed.
Tests: tests/check/, one planted fault a test, and as an engine of tests/lang and tests/test_examples.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.diagnostics import (
    CheckError,
    DataRaceError,
    Finding,
    FootprintError,
    Location,
    UndefinedLaneError,
    UnwrittenReadError,
    WrappedOffsetError,
    render,
)
from tilewright.interpret.alternatives import Alternatives, may_cancel, without_cancelled
from tilewright.interpret.batched import DEFAULT_BUDGET, Engine, bind_arguments
from tilewright.interpret.deadline import Deadline
from tilewright.interpret.footprint import Cells, Footprints, View, common_unit
from tilewright.interpret.frame import Frame
from tilewright.interpret.known import Known
from tilewright.interpret.memory import Extent, Memory
from tilewright.interpret.races import Conflict, Order, Races
from tilewright.interpret.shadows import Note, exact_results, full, undefined_results
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.ops import Call, Effect
from tilewright.ir.ops.attributes import Rmw, Sem
from tilewright.ir.types import I1, Pointer, Scalar, Type, element_of, shape_of, storage_dtype

Array = np.ndarray[Any, Any]
_TOUCHES = Effect.READS | Effect.WRITES

_MASK_CURE = "give the load an `other=`: tl.load(pointer, mask=mask, other=0.0), or a tl.where with the same mask"
_WIDE_CURE = "compute the offset in 64 bits: start from tl.program_id(0).to(tl.int64), or annotate the stride tl.int64"
_RACE_CURE = ("let each program write elements of its own; to combine results of programs use tl.atomic_add and its "
              "kin, or a second launch")
_FRESH_CURE = "write the elements before they are read, or allocate with zeros instead of empty"


def run(program: CheckedProgram, grid: tuple[int, int, int], args: Sequence[object], views: Sequence[View],
        unwritten: frozenset[str] = frozenset(), keep: object = None,
        write: Callable[[str], object] | None = None, timeout_s: float = 0.0) -> None:
    """Run every program of `grid` in checked mode; `args` as `batched.run` takes them, with a view for each pointer.

    `unwritten` names arguments whose elements count as not written when the launch begins; TimeoutError after
    `timeout_s` (0: never).
    """
    memory = Memory([v.extent for v in views], keep=keep)
    engine = CheckedEngine(program, grid, memory, views, unwritten, write)
    engine.deadline = Deadline(program.module.entry_name, timeout_s)
    arrays = bind_arguments(program.module.entry, args)
    engine.find_origins(arrays)
    total = grid[0] * grid[1] * grid[2]
    batch = program.batch(DEFAULT_BUDGET // 4)
    try:
        for first in range(0, total, batch):
            engine.run_programs(np.arange(first, min(first + batch, total), dtype=np.int64), arrays)
    except KeyboardInterrupt:
        raise engine.interrupt() from None


class CheckedProgram(Known):
    """A module, and what checked mode finds out about it once for all launches."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.used = {v for op in self.ops for v in op.operands}
        self.numbers = {id(op): number for number, op in enumerate(self.ops, 1)}
        self.places: Mapping[int, Location] = {number: op.loc for number, op in enumerate(self.ops, 1)}
        self.leaves_lanes = any(_leaves_lanes(op) for op in self.ops)
        self.may_cancel = self.leaves_lanes and may_cancel(module, _leaves_lanes)
        self.sizes = {_pointee_bytes(op.operands[0].type) for op in self.ops
                      if op.row.effects & _TOUCHES and op.operands}
        self.orders = any(self.acquires(op) for op in self.ops)

    def acquires(self, op: Op) -> bool:
        """Whether the program can have waited by this op for what other programs did."""
        if op.name == "load":
            return bool(op.attrs.get("volatile", False))
        if not op.name.startswith("atomic"):
            return False
        return op.attrs.get("sem", Sem.ACQ_REL) in (Sem.ACQUIRE, Sem.ACQ_REL) and op.result in self.used


class CheckedEngine(Engine):
    """The batched engine that keeps notes of values (`interpret.shadows`) and marks of memory (`interpret.races`)."""

    def __init__(self, program: CheckedProgram, grid: tuple[int, int, int], memory: Memory, views: Sequence[View],
                 unwritten: frozenset[str], write: Callable[[str], object] | None) -> None:
        super().__init__(program, grid, memory, write)
        self._checked = program
        self._numbers, self._places, self._leaves_lanes = program.numbers, program.places, program.leaves_lanes
        self._alternatives = Alternatives() if program.may_cancel else None
        self._depth = 0                             # of regions that run on lanes; no notes are kept there
        self._cells = Cells([v.extent for v in views], common_unit(program.sizes, views))
        self._footprints = Footprints(views)
        self._order = Order(grid[0] * grid[1] * grid[2]) if program.orders else None
        self._races = Races(self._cells.count, self._order)
        self._unwritten = [v.extent for v in views if v.extent.name in unwritten]
        self._reached: tuple[Op, Frame] | None = None

    def interrupt(self) -> KeyboardInterrupt:
        """What Ctrl-C becomes: it names the kernel, the line, and a program that was there."""
        name = self.module.entry_name
        if self._reached is None:
            return KeyboardInterrupt(f"{name} was interrupted before its first line")
        op, frame = self._reached
        said = f"{name} was interrupted; program {self._program(int(frame.programs[0]))} was here"
        return KeyboardInterrupt(render(said, op.loc))

    # -- notes of values -------------------------------------------------------------------------------------

    def read_values(self, frame: Frame, values: Sequence[Value]) -> list[Array]:
        """The values, then the notes of each of them, filled up so that groups of programs can be put together."""
        arrays = super().read_values(frame, values)
        notes = []
        for value, array in zip(values, arrays, strict=True):
            sizes = shape_of(value.type)
            if self._leaves_lanes:
                undefined = frame.note("undefined", value)
                notes.append(full(undefined, array, sizes))
                if self._alternatives is not None:
                    known = frame.note("alternatives", value)
                    notes.append(self._alternatives.full(known, array, sizes))
            if _has_exact(value.type):
                notes.append(full(frame.note("exact", value), array, sizes, np.int64))
        return [*arrays, *notes]

    def bind_values(self, frame: Frame, values: Sequence[Value], arrays: Sequence[Array]) -> None:
        super().bind_values(frame, values, arrays[:len(values)])
        notes = iter(arrays[len(values):])
        for value, array in zip(values, arrays, strict=False):
            undefined = next(notes, None) if self._leaves_lanes else None
            known = next(notes, None) if self._alternatives is not None else None
            exact = next(notes, None) if _has_exact(value.type) else None
            undefined = undefined if undefined is not None and undefined.any() else None
            frame.notes["undefined", value] = undefined
            frame.notes["alternatives", value] = None if undefined is None else known
            frame.notes["exact", value] = None if exact is None or (exact == array).all() else exact

    def evaluate(self, op: Op, frame: Frame) -> tuple[Array, ...]:
        self._reached = op, frame
        results = super().evaluate(op, frame)
        if self._depth or not op.results:
            return results
        call = Call([frame.get(v) for v in op.operands], [v.type for v in op.operands],
                    [v.type for v in op.results], op.attrs, op.regions, self)
        if self._leaves_lanes:
            undefined = [frame.note("undefined", v) for v in op.operands]
            found = ([self._undefined_of_load(op, call, undefined)] if op.row.effects & _TOUCHES else
                     undefined_results(op, call, undefined))
            if self._alternatives is not None:
                found = self._note_alternatives(self._alternatives, op, frame, call, results, found)
            for value, note in zip(op.results, found, strict=True):
                frame.notes["undefined", value] = note
        if not op.row.effects & _TOUCHES:
            exact = [frame.note("exact", v) for v in op.operands]
            for value, note in zip(op.results, exact_results(op, call, results, exact), strict=True):
                frame.notes["exact", value] = note
        return results

    def _note_alternatives(self, alternatives: Alternatives, op: Op, frame: Frame, call: Call,
                           results: Sequence[Array], notes: Sequence[Note]) -> Sequence[Note]:
        """Note the alternatives of results; the `undefined` notes are given back, less what has cancelled."""
        known = [frame.note("alternatives", v) for v in op.operands]
        made = alternatives.of_results(op, lambda args: self.meaning(op, frame, args), call.args, known, results, notes)
        undefined = [frame.note("undefined", v) for v in op.operands]
        notes = [without_cancelled(op, undefined, n, r, m) for n, r, m in zip(notes, results, made, strict=True)]
        for value, note, array in zip(op.results, notes, made, strict=True):
            frame.notes["alternatives", value] = None if note is None else array
        return notes

    def run_region(self, region: Block, args: Sequence[Array]) -> tuple[Array, ...]:
        self._depth += 1
        try:
            return super().run_region(region, args)
        finally:
            self._depth -= 1

    def _undefined_of_load(self, op: Op, call: Call, notes: Sequence[Any]) -> Array | None:
        """Of what a load gives: its masked-off lanes, unless they have a value; those of an atomic op are zero."""
        mask = op.row.operand_index("mask", op.attrs, len(op.operands))
        if op.name != "load" or mask is None or op.attrs.get("padded", False):
            return None
        other = notes[mask + 1] if op.attrs["has_other"] else np.int32(self._numbers[id(op)])
        note = None if other is None else np.where(call.args[mask], np.int32(0), other)
        return None if note is None or not note.any() else note

    def take_branch(self, flag: Value, frame: Frame) -> Array:
        note = frame.note("undefined", flag) if not self._depth else None
        if note is not None and note.any():
            row = int(np.flatnonzero(np.broadcast_to(note, (frame.size,)))[0])
            number = int(np.broadcast_to(note, (frame.size,))[row])
            self._raise(UndefinedLaneError, "a branch or loop depends on a lane that a masked load without `other` "
                        "left undefined", _MASK_CURE, None, None, int(frame.programs[row]), (),
                        [("the lane is masked off in the load", number)], location=self._places[number])
        return frame.get(flag)

    # -- accesses --------------------------------------------------------------------------------------------

    def load(self, address: Array, mask: Array | None, other: Array | None, element: Type) -> Array:
        access = _Access(self, "load", address, mask, element)
        self._check_values(access, (), "mask")
        loaded = super().load(address, mask, other, element)
        self._check_footprint(access)
        lanes, cells = self._cells.of(access.address, access.size)
        self._check_unwritten(access, lanes, cells)
        assert self._op is not None
        programs, number = access.program[lanes], self._numbers[id(self._op)]
        if self._op.attrs.get("volatile", False):
            self._synchronise(access, acquires=True, releases=False)
            found = self._races.touch_atomically(cells, programs, number, writes=False)
        else:
            found = self._races.read(cells, programs, number)
        self._check_race(access, found, lanes)
        return loaded

    def store(self, address: Array, value: Array, mask: Array | None, element: Type) -> None:
        access = _Access(self, "store", address, mask, element, value)
        self._check_values(access, ("value",), "mask")
        if not self._check_footprint(access):
            lanes, cells = self._cells.of(access.address, access.size)
            assert self._op is not None
            programs, number = access.program[lanes], self._numbers[id(self._op)]

            def changes(some: Array) -> Array:
                return self._memory_differs(access, lanes[some])

            self._check_race(access, self._races.write(cells, programs, number, changes), lanes)
            super().store(address, value, mask, element)
            self._check_race(access, self._races.written_over(cells, programs, number, changes), lanes)
            return
        super().store(address, value, mask, element)

    def atomic(self, address: Array, values: Sequence[Array], mask: Array | None, element: Type,
               update: Callable[..., Array]) -> Array:
        access = _Access(self, "atomic access", address, mask, element, *values)
        assert self._op is not None
        self._check_values(access, ("value", "expected") if self._op.name == "atomic_cas" else ("value",), "mask")
        if not self._check_footprint(access):
            lanes, cells = self._cells.of(access.address, access.size)
            if self._op.attrs.get("kind") is not Rmw.XCHG or self._op.result in self._checked.used:
                self._check_unwritten(access, lanes, cells)
            sem = self._op.attrs.get("sem", Sem.ACQ_REL)
            self._synchronise(access, self._checked.acquires(self._op), sem in (Sem.RELEASE, Sem.ACQ_REL))
            found = self._races.touch_atomically(cells, access.program[lanes], self._numbers[id(self._op)])
            self._check_race(access, found, lanes)
        return super().atomic(address, values, mask, element, update)

    def device_assert(self, condition: Array, message: str) -> None:
        assert self._op is not None
        if not self._depth:
            note = self._frame.note("undefined", self._op.operands[0])
            failed = None if note is None else np.broadcast_to((note != 0) & ~condition, (
                max(self._frame.size, condition.shape[0]), *condition.shape[1:]))
            if failed is not None and failed.any():
                row, *lane = (int(i[0]) for i in np.nonzero(failed))
                number = int(np.broadcast_to(note, failed.shape)[(row, *lane)])     # type: ignore[arg-type]
                self._raise(UndefinedLaneError, "an assertion fails on a lane that a masked load without `other` left "
                            "undefined", _MASK_CURE, None, None, int(self._frame.programs[row]), tuple(lane),
                            [("the lane is masked off in the load", number)])
        super().device_assert(condition, message)

    def _synchronise(self, access: _Access, acquires: bool, releases: bool) -> None:
        if self._order is not None and (acquires or releases):
            for address, program in zip(access.address.tolist(), access.program.tolist(), strict=True):
                self._order.synchronise(program, address, acquires, releases)

    def _memory_differs(self, access: _Access, lanes: Array) -> Array:
        """Of lanes of a store, whether memory has other bits now."""
        found = self.memory.load(access.address[lanes], None, None, access.element)
        return np.asarray(bits(found) != bits(access.values[0][lanes]))

    # -- tests -----------------------------------------------------------------------------------------------

    def _check_values(self, access: _Access, operands: Sequence[str], mask: str) -> None:
        """The address, the mask and the values of an access: defined, and not wrapped."""
        assert self._op is not None
        if self._leaves_lanes:
            self._check_defined(access, mask, "its mask", active=False)
            self._check_defined(access, "pointer", "its address")
            for name in operands:
                self._check_defined(access, name, "its value")
        exact = self._frame.note("exact", self._op.operands[0])
        if exact is None:
            return
        meant = access.flat(exact)
        wrong = np.flatnonzero(meant != access.address)
        if wrong.size:
            lane = int(wrong[0])
            argument, index = self._element(access, lane)
            origin = next((e.pointer for e in self.memory.extents if e.name == argument), None)
            wanted = "another" if origin is None else f"element {(int(meant[lane]) - origin) // access.size}"
            self._report(WrappedOffsetError, access, lane, f"{access.what} of element {index} of {argument!r}, where "
                         f"{wanted} is meant: the offset does not fit its integer type", _WIDE_CURE)

    def _check_defined(self, access: _Access, name: str, what: str, active: bool = True) -> None:
        assert self._op is not None
        operand = self._op.row.operand_index(name, self._op.attrs, len(self._op.operands))
        note = None if operand is None else self._frame.note("undefined", self._op.operands[operand])
        if note is None:
            return
        flat = access.flat(note, active)
        bad = np.flatnonzero(flat)
        if bad.size:
            lane, target = -1, ""
            if active:
                lane = int(bad[0])
                argument, index = self._element(access, lane)
                target = f" of element {index} of {argument!r}"
            self._report(UndefinedLaneError, access, lane, f"{access.what}{target}: {what} is undefined, it comes from "
                         "a lane that a load masked off without giving it a value (`other`)", _MASK_CURE,
                         [("the lane is masked off in the load", int(flat[bad[0]]))])

    def _check_footprint(self, access: _Access) -> bool:
        """Whether some lane is outside of every argument, of which `Memory` will speak; raises for the gaps inside."""
        inside, owned = self._footprints.judge(access.address, access.size, *self._where())
        gaps = np.flatnonzero(inside & ~owned)
        if gaps.size and inside.all():
            lane = int(gaps[0])
            argument, index = self._element(access, lane)
            self._report(FootprintError, access, lane, f"{access.what} between the elements of {argument!r}: at "
                         f"element {index} of its memory, which its shape and strides leave out",
                         "use the strides of the tensor in the offsets, mask the last dimension by its size, or pass "
                         "tensor.contiguous()")
        return not bool(inside.all()) and not self._where()[0]

    def _check_unwritten(self, access: _Access, lanes: Array, cells: Array) -> None:
        for extent in self._unwritten:
            address = access.address[lanes]
            bad = np.flatnonzero((address >= extent.address) & (address < extent.end) & self._races.untouched(cells))
            if bad.size:
                lane = int(lanes[bad[0]])
                argument, index = self._element(access, lane)
                self._report(UnwrittenReadError, access, lane, f"{access.what} of element {index} of {argument!r}, "
                             "which nothing has written yet", _FRESH_CURE)

    def _check_race(self, access: _Access, found: Conflict | None, lanes: Array) -> None:
        if found is None:
            return
        lane = int(lanes[found.lane])
        argument, index = self._element(access, lane)
        who = f"program {self._program(found.program)}" if found.program >= 0 else "another program"
        self._report(DataRaceError, access, lane, f"{access.what} of element {index} of {argument!r}, which {who} has "
                     f"{found.kind} in the same launch; which comes first is left to chance", _RACE_CURE,
                     [("the other access", found.op)])

    # -- reports ---------------------------------------------------------------------------------------------

    def _element(self, access: _Access, lane: int) -> tuple[str, int]:
        """The argument that an access belongs to, and the element counted from its pointer."""
        address = int(access.address[lane])
        reach = [e for e, _ in self._footprints.reachable(*self._where())] or list(self.memory.extents)

        def distance(extent: Extent) -> int:
            return max(extent.address - address, address + access.size - extent.end, 0)

        extent = min(reach, key=distance)
        origin = extent.address if extent.pointer is None else extent.pointer
        return extent.name, (address - origin) // access.size

    def _report(self, kind: type[CheckError], access: _Access, lane: int, what: str, cure: str,
                others: Sequence[tuple[str, int]] = ()) -> None:
        if lane < 0 or not access.address.size:
            self._raise(kind, what, cure, None, None, int(self._frame.programs[0]), (), others)
        argument, index = self._element(access, lane)
        row, *place = access.place(lane)
        self._raise(kind, what, cure, argument, index, int(self._frame.programs[row]), tuple(place), others)

    def _raise(self, kind: type[CheckError], what: str, cure: str, argument: str | None, index: int | None,
               program: int, lane: tuple[int, ...], others: Sequence[tuple[str, int]],
               location: Location | None = None) -> None:
        places = tuple((part, self._places[number]) for part, number in others if number in self._places)
        found = Finding(what, cure, argument, index, self._program(program), lane, location or self.location, places)
        raise kind(found, self.module.entry_name)


class _Access:
    """One memory op of the frame that runs, its active lanes laid out flat: addresses, values, programs."""

    def __init__(self, engine: CheckedEngine, what: str, address: Array, mask: Array | None, element: Type,
                 *values: Array) -> None:
        self.what, self.element = what, element_of(element)
        self.size = storage_dtype(element).itemsize
        programs = engine._frame.programs
        given = [a for a in (address, mask, *values) if a is not None]
        self._shape = np.broadcast_shapes((programs.shape[0],) + (1,) * (address.ndim - 1), *(a.shape for a in given))
        self._active = None if mask is None else np.flatnonzero(np.broadcast_to(mask, self._shape))
        self.address = self.flat(address)
        self.values = [self.flat(v) for v in values]
        self.program = self.flat(programs.reshape(-1, *(1 for _ in self._shape[1:])))

    def flat(self, array: Array, active: bool = True) -> Array:
        """The active lanes (or all) of an array of the access's form."""
        every = np.broadcast_to(array, self._shape).reshape(-1)
        return every if self._active is None or not active else every[self._active]

    def place(self, lane: int) -> tuple[int, ...]:
        """(row of the program, index in the tile...) of an active lane."""
        at = lane if self._active is None else int(self._active[lane])
        return tuple(int(i) for i in np.unravel_index(at, self._shape))


def bits(array: Array) -> Array:
    """The elements as unsigned integers."""
    return array.astype(np.uint8) if array.dtype == np.bool_ else array.view(f"u{array.dtype.itemsize}")


def _has_exact(t: Type) -> bool:
    """Whether `exact` is noted of values of this type."""
    element = element_of(t)
    return isinstance(element, Pointer) or (isinstance(element, Scalar) and element.is_int and element != I1)


def _leaves_lanes(op: Op) -> bool:
    """Whether lanes of the op's results may be undefined."""
    return bool(op.name == "load" and op.attrs.get("has_mask", False)
                and not op.attrs.get("has_other", False) and not op.attrs.get("padded", False))


def _pointee_bytes(t: Type) -> int:
    pointer = element_of(t)
    return pointer.element.bytes if isinstance(pointer, Pointer) else 1
