"""The batched interpreter: runs tile IR in NumPy, many programs at a time.  It is the oracle of all engines.

Programs run in ascending order of their linear id (x fastest), as many together as a memory budget allows; one at a
time when a loop may wait for another program (`dataflow.spins`).  What an op means comes from its row's `ref`; control
flow, which has none, is run here: programs that part at a branch or a loop go on in groups (`interpret.frame`) and
their results are put together again.  A failing op raises an error with the op's line and the program's id.

What programs of one batch store becomes visible op by op, not program by program: a kernel whose programs communicate
without waiting has a race, and any answer is right.  Tests: tests/interpret/test_batched.py, tests/conform/.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.analysis.alias import is_pointer
from tilewright.diagnostics import (
    UNKNOWN,
    InternalError,
    InterpreterError,
    KernelAssertionError,
    Location,
    TritonError,
    render,
)
from tilewright.interpret.deadline import Deadline
from tilewright.interpret.frame import Frame, Merger, take, uniform_flag
from tilewright.interpret.known import Known, Shape
from tilewright.interpret.memory import Memory, MemoryAccessError
from tilewright.interpret.printing import print_lines
from tilewright.ir import fp
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.ops import Call
from tilewright.ir.types import Pointer, Type, element_of, storage_dtype

Array = np.ndarray[Any, Any]

DEFAULT_BUDGET = 32 << 20       # bytes; a batch that fits a cache is faster than one as large as memory allows


def run(module: Module, grid: Sequence[int], args: Sequence[object], memory: Memory, *,
        budget: int = DEFAULT_BUDGET, write: Callable[[str], object] | None = None) -> None:
    """Run every program of `grid` (one to three sizes).

    `args` has a value for each parameter of the entry: an address for a pointer, else a Python or NumPy number (an
    integer in signed or unsigned range).  `write` receives what the kernel prints; None means standard output.
    """
    sizes = tuple(int(g) for g in grid)
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        raise InterpreterError(f"a grid has one to three sizes >= 0, not {tuple(grid)}")
    full = (*sizes, 1, 1)[:3]
    known = Known(module)
    engine = Engine(known, (full[0], full[1], full[2]), memory, write)
    arrays = bind_arguments(module.entry, args)
    engine.find_origins(arrays)
    total = full[0] * full[1] * full[2]
    batch = known.batch(budget)
    for first in range(0, total, batch):
        engine.run_programs(np.arange(first, min(first + batch, total), dtype=np.int64), arrays)


def bind_arguments(entry: Function, args: Sequence[object]) -> list[Array]:
    """The arguments in storage form, each an array of one, which stands for all programs."""
    if len(args) != len(entry.params):
        raise InterpreterError(f"{entry.name} takes {len(entry.params)} arguments, not {len(args)}")
    return [argument_array(value, v.type) for value, v in zip(args, entry.params, strict=True)]


def argument_array(value: Any, t: Type) -> Array:
    """A number as an array of one in the storage form of the scalar type `t`."""
    element = element_of(t)
    if not isinstance(element, Pointer) and element.is_float:
        return fp.encode(np.array([float(value)]), element)
    if element.bits == 1:
        return np.array([bool(value)])
    whole = int(value) & ((1 << element.bits) - 1)
    return np.array([whole], f"u{storage_dtype(t).name}").view(storage_dtype(t))


class Engine:
    """One launch.  It is the `Machine` that the rows' meanings ask for programs, memory, regions and messages."""

    def __init__(self, known: Known, grid: tuple[int, int, int], memory: Memory,
                 write: Callable[[str], object] | None) -> None:
        self.known, self.module, self.grid, self.memory = known, known.module, grid, memory
        self.write = write if write is not None else sys.stdout.write
        self.location: Location = UNKNOWN       # of the op that runs now
        self._op: Op | None = None
        self._frame = Frame(np.zeros(0, np.int64))
        self._foreign = known.foreign
        self._origins: dict[int, frozenset[int]] = {}   # by `id` of an op with a pointer: where that may come from
        self._printed: dict[int, list[str]] = {}
        self.deadline = Deadline()

    def find_origins(self, args: Sequence[Array]) -> None:
        """Find out for each access which of the arguments' pointers its address is derived from."""
        pointers = {v: int(a[0]) for v, a in zip(self.module.entry.params, args, strict=True) if is_pointer(v)}
        self._origins = {op: frozenset(pointers[v] for v in bases) for op, bases in self.known.bases.items()}

    # -- programs and ops ------------------------------------------------------------------------------------

    def run_programs(self, programs: Array, args: Sequence[Array]) -> None:
        """Run one batch from the entry's start to its end; then print what it printed, program by program."""
        self.deadline.check(self._program(int(programs[0])))
        frame = Frame(programs)
        frame.bind(self.module.entry.params, args)
        try:
            self._run_block(self.module.entry.body, frame)
        finally:
            for program in sorted(self._printed):
                self.write("".join(line + "\n" for line in self._printed[program]))
            self._printed.clear()

    def read_values(self, frame: Frame, values: Sequence[Value]) -> list[Array]:
        """What control flow passes on for `values`; an engine that knows more of a value passes that on as well."""
        return [frame.get(v) for v in values]

    def bind_values(self, frame: Frame, values: Sequence[Value], arrays: Sequence[Array]) -> None:
        """Give `values` what `read_values` has read of others."""
        frame.bind(values, arrays)

    def take_branch(self, flag: Value, frame: Frame) -> Array:
        """The flag of a branch or loop that control flow follows now."""
        return frame.get(flag)

    def _run_block(self, block: Block, frame: Frame) -> list[Array]:
        """Run a block whose arguments are bound; returns what its terminator passes on."""
        self._run_ops(block, frame)
        return self.read_values(frame, block.terminator.operands)

    def _run_ops(self, block: Block, frame: Frame) -> None:
        for op in block.ops[:-1]:
            control = _CONTROL.get(op.name)
            if control is None:
                frame.bind(op.results, self.evaluate(op, frame))
            else:
                self.bind_values(frame, op.results, control(self, op, frame))

    def evaluate(self, op: Op, frame: Frame) -> tuple[Array, ...]:
        """One op by its row's meaning, its operands bound in `frame`; failures get the op's location."""
        results = self.meaning(op, frame, [frame.get(v) for v in op.operands])
        self._check(op, frame, results)
        return results

    def meaning(self, op: Op, frame: Frame, args: Sequence[Array]) -> tuple[Array, ...]:
        """What the op would give for these arguments in the place of its operands."""
        if op.row.ref is None:
            raise InternalError(f"{op.loc}: the interpreter has no meaning for {op.name}")
        call = Call(args, [v.type for v in op.operands], [v.type for v in op.results], op.attrs, op.regions, self)
        outer = self._op, self._frame, self.location
        self._op, self._frame, self.location = op, frame, op.loc
        try:
            return op.row.ref(call)
        except MemoryAccessError as error:
            raise error.located(self.module.entry_name, self._program(int(frame.programs[error.row])), op.loc) from None
        except TritonError:
            raise
        except Exception as error:
            raise InterpreterError(render(f"{op.name}: {error}", op.loc)) from error
        finally:
            self._op, self._frame, self.location = outer

    def _check(self, op: Op, frame: Frame, results: tuple[Array, ...]) -> None:
        """A result must look as its type says; a mistake in a row shows here, not somewhere later."""
        for array, want in zip(results, self._expected(op), strict=True):
            if array.dtype != want.dtype or array.shape[1:] != want.sizes or array.shape[0] not in (1, frame.size):
                raise InternalError(f"{op.loc}: {op.name} gave {array.dtype}{list(array.shape)}, not {want.dtype}"
                                    f"[{frame.size} or 1, {', '.join(map(str, want.sizes))}]")

    def _expected(self, op: Op) -> tuple[Shape, ...]:
        """What the results of an op of the module look like."""
        return self.known.shapes(op)

    def _where(self) -> tuple[bool, frozenset[int] | None]:
        """Of the op that runs: whether it may access memory that belongs to no argument, and the pointers that its
        address may be derived from (None: any argument's)."""
        return id(self._op) in self._foreign, self._origins.get(id(self._op))

    def _program(self, linear: int) -> tuple[int, int, int]:
        x, y, _ = self.grid
        return linear % x, linear // x % y, linear // (x * y)

    # -- control flow ----------------------------------------------------------------------------------------

    def _if(self, op: Op, frame: Frame) -> list[Array]:
        flag = self.take_branch(op.operands[0], frame)
        taken = uniform_flag(flag)
        if taken is not None:
            return self._run_block(op.regions[0 if taken else 1], frame)
        merger = Merger(frame.size)
        for region, wanted in zip(op.regions, (True, False), strict=True):
            rows = np.flatnonzero(flag == wanted)
            merger.add(rows, self._run_block(region, frame.child(rows)))
        return merger.merged()

    def _for(self, op: Op, frame: Frame) -> list[Array]:
        lower, upper, step = np.broadcast_arrays(*(self.take_branch(v, frame) for v in op.operands[:3]))
        trips = trip_counts(lower, upper, step, bool(op.attrs["unsigned"]))
        if (trips == trips[0]).all():
            trips = trips[:1]
        merger, rows, group = Merger(frame.size), np.arange(frame.size), frame
        index, carried, done = lower, self.read_values(frame, op.operands[3:]), 0
        while True:
            first_end = int(trips.min())
            while done < first_end:
                self.deadline.check(self._program(int(group.programs[0])), op.loc)
                self.bind_values(group, op.regions[0].args[:1], [index])
                self.bind_values(group, op.regions[0].args[1:], carried)
                carried = self._run_block(op.regions[0], group)
                index, done = index + step, done + 1
            if trips.shape[0] == 1 or (trips == done).all():
                merger.add(rows, carried)
                return merger.merged()
            ended, going = np.flatnonzero(trips == done), np.flatnonzero(trips != done)
            merger.add(rows[ended], [take(a, ended) for a in carried])
            rows, trips = rows[going], trips[going]
            index, step, carried = take(index, going), take(step, going), [take(a, going) for a in carried]
            group = frame.child(rows)

    def _while(self, op: Op, frame: Frame) -> list[Array]:
        before, body = op.regions
        merger, rows, group = Merger(frame.size), np.arange(frame.size), frame
        carried = self.read_values(frame, op.operands)
        while True:
            self.deadline.check(self._program(int(group.programs[0])), op.loc)
            self.bind_values(group, before.args, carried)
            self._run_ops(before, group)
            flag = self.take_branch(before.terminator.operands[0], group)
            passed = self.read_values(group, before.terminator.operands[1:])
            goes_on = uniform_flag(flag)
            if goes_on is False:
                merger.add(rows, passed)
                return merger.merged()
            if goes_on is None:
                ended, going = np.flatnonzero(~flag), np.flatnonzero(flag)
                merger.add(rows[ended], [take(a, ended) for a in passed])
                rows, passed = rows[going], [take(a, going) for a in passed]
                group = frame.child(rows)
            self.bind_values(group, body.args, passed)
            carried = self._run_block(body, group)

    def _call(self, op: Op, frame: Frame) -> list[Array]:
        callee = self.module.functions[op.attrs["callee"]]
        inner = Frame(frame.programs)
        self.bind_values(inner, callee.params, self.read_values(frame, op.operands))
        return self._run_block(callee.body, inner)

    # -- the machine -----------------------------------------------------------------------------------------

    def program_id(self, axis: int) -> Array:
        x, y, _ = self.grid
        linear = self._frame.programs
        return (linear % x, linear // x % y, linear // (x * y))[axis].astype(np.int32)

    def num_programs(self, axis: int) -> Array:
        return np.array([self.grid[axis]], np.int32)

    def load(self, address: Array, mask: Array | None, other: Array | None, element: Type) -> Array:
        return self.memory.load(address, mask, other, element_of(element), *self._where())

    def store(self, address: Array, value: Array, mask: Array | None, element: Type) -> None:
        self.memory.store(address, value, mask, element_of(element), *self._where())

    def atomic(self, address: Array, values: Sequence[Array], mask: Array | None, element: Type,
               update: Callable[..., Array]) -> Array:
        everyone = np.broadcast_to(address, (self._frame.size, *address.shape[1:]))
        return self.memory.atomic(everyone, values, mask, element_of(element), update, *self._where())

    def run_region(self, region: Block, args: Sequence[Array]) -> tuple[Array, ...]:
        """A region on scalars, run for every lane of `args` (arrays of one tile shape) as if it were a program."""
        shape = np.broadcast_shapes(*(a.shape for a in args))
        if shape[0] != self._frame.size and _has_free_values(region):
            shape = (self._frame.size, *shape[1:])
        lanes = int(np.prod(shape[1:], dtype=np.int64))
        group = self._frame.child(np.repeat(np.arange(shape[0]), lanes))
        group.bind(region.args, [np.broadcast_to(a, shape).reshape(-1) for a in args])
        self._run_ops(region, group)
        results = [group.get(v) for v in region.terminator.operands]
        return tuple(np.broadcast_to(r, (shape[0] * lanes,)).reshape(shape) for r in results)

    def device_print(self, prefix: str, hex: bool, signed: Sequence[bool], args: Sequence[Array],
                     types: Sequence[Type]) -> None:
        for row, linear in enumerate(self._frame.programs.tolist()):
            values = [a[row if a.shape[0] > 1 else 0] for a in args]
            lines = print_lines(self._program(linear), prefix, hex, signed, values, types)
            self._printed.setdefault(linear, []).extend(lines)

    def device_assert(self, condition: Array, message: str) -> None:
        failed = ~condition.reshape(condition.shape[0], -1).all(axis=1)
        if failed.any():
            program = self._program(int(self._frame.programs[np.flatnonzero(failed)[0]]))
            text = f"device assertion failed in program {program}: {message}"
            raise KernelAssertionError(render(text, self.location))


# Functions of the class: bound to an engine they would be a cycle, and keep a launch's tensors until that is collected.
_CONTROL: dict[str, Callable[[Engine, Op, Frame], Sequence[Array]]] = {
    "for": Engine._for, "while": Engine._while, "if": Engine._if, "call": Engine._call}


def _has_free_values(region: Block) -> bool:
    """Whether a region uses values from around it."""
    known = set(region.args)
    for op in region.ops:
        if any(v not in known for v in op.operands):
            return True
        known.update(op.results)
        for inner in op.regions:
            if _has_free_values(inner):     # may be a value of this region; then expanding is merely unneeded
                return True
    return False


def trip_counts(lower: Array, upper: Array, step: Array, unsigned: bool) -> Array:
    """How often a `for` runs, exactly (no wrap): a program each.  The step is signed even if the bounds are not."""
    if unsigned:
        lower, upper = lower.view(f"u{lower.dtype.name}"), upper.view(f"u{upper.dtype.name}")
    counts = [_trips(*bounds) for bounds in zip(lower.tolist(), upper.tolist(), step.tolist(), strict=True)]
    return np.array(counts, object)


def _trips(lower: int, upper: int, step: int) -> int:
    """len(range(lower, upper, step)), also beyond a machine word; no iteration for a zero step."""
    if step == 0:
        return 0
    distance = upper - lower if step > 0 else lower - upper
    return max(0, -(-distance // abs(step)))
