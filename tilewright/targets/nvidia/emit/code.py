"""A function writer for one kernel on one GPU: instructions of the table, thread numbers, linear maps of them.

What the whole kernel needs (a thread's number, its part of a layout's index) is written once, in the entry block.
Before: nothing.  After: as for `llvm.text.FunctionWriter`.  Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.layout import Layout
from tilewright.layout.linear import LANE, TURN, WARP
from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import FLOAT, I1, I32, I64, VOID, Type, Value, constant
from tilewright.targets.nvidia.emit.instructions import INSTRUCTIONS
from tilewright.targets.nvidia.emit.statements import (
    CONSTRAINTS,
    NEW_LINE,
    assembly,
    literals_of,
    result_type,
    statement_of,
)

LANE_BITS = 5
WARP_LANES = 1 << LANE_BITS
ALL_LANES = -1


class Place:
    """Where something may be written later: its lines, and what marked instructions there."""

    __slots__ = ("lines", "mark", "number")

    def __init__(self, mark: str, number: int) -> None:
        self.lines: list[str] = []
        self.mark = mark
        self.number = number


class Deferred(Value):
    """A value whose instructions are written, where it was made, when somebody first asks for its name.

    Pieces of words and rounded numbers are mostly asked for as the words and numbers that they are of (`Code.whole`,
    `Code.rounded`): then they cost neither text nor LLVM's time.  The element that equality sees stands for the name.
    """

    _code: Code
    _place: Place
    _write: Callable[[], Value]
    _made: Value

    @classmethod
    def of(cls, code: Code, t: Type, make: Callable[[], Value]) -> Deferred:
        place = code.here()
        value = cls(t, f"%deferred{place.number}")
        value._code, value._place, value._write = code, place, make
        return value

    @property
    def name(self) -> str:
        try:
            return self._made.name
        except AttributeError:
            self._made = self._code.at(self._place, self._write)
            return self._made.name

    @property
    def is_constant(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Part:
    """Number `index`, from the low bits up, of the `count` equal parts of a word."""

    word: Value
    index: int
    count: int


class Code(FunctionWriter):
    """The body of one kernel of `num_warps` warps under construction; see `_attributes` for the limits."""

    def __init__(self, module: ModuleWriter, name: str, params: Sequence[tuple[str, Type]], num_warps: int,
                 has_fp8: bool = False, programs: int = 1, max_registers: int | None = None) -> None:
        super().__init__(module, name, params, VOID, _attributes(num_warps, programs, max_registers), (),
                         "ptx_kernel")
        self.num_warps = num_warps
        self.has_fp8 = has_fp8      # converts them in hardware
        self._threads: dict[tuple[int, ...], Value] = {}
        self._wholes: dict[tuple[Value, ...], Value] = {}
        self._rounded: dict[Value, Value] = {}
        self._statements: dict[tuple[object, ...], tuple[str, str]] = {}
        self._places: dict[str, list[str]] = {}      # what is written later, by the line that stands for it
        self._parts: dict[Value, Part] = {}
        self._group: Value | None = None
        self._turn: Value | None = None     # the number of the turn, in a loop over registers
        self._is_unrelated = False
        with self.entry():
            self.tid = self.machine("tid", [I32], [])[0]
        self._own = self.tid, self._threads

    @contextmanager
    def entry(self) -> Iterator[None]:
        """Instructions go to the entry block, before all others; their operands are made there as well."""
        if self._is_unrelated:
            yield
            return
        lines, self._lines = self._lines, self._stack_slots
        try:
            yield
        finally:
            self._lines = lines

    @property
    def can_wait(self) -> bool:
        """Whether what is written here may as well be written later (`here`): numbers of threads stay what they are."""
        return not self._is_unrelated and self._turn is None

    def here(self) -> Place:
        """This place, for what is written later."""
        place = Place(self.mark, len(self._places))
        name = f"; {place.number}"
        self._places[name] = place.lines
        self._lines.append(name)
        return place

    def deferred(self, t: Type, make: Callable[[], Value]) -> Value:
        """What `make` writes straight code for: when its name is first asked for, where that can be."""
        return Deferred.of(self, t, make) if self.can_wait else make()

    def text(self) -> str:
        self._stack_slots, self._lines = list(self._filled(self._stack_slots)), list(self._filled(self._lines))
        self._places = {}
        return super().text()

    def _filled(self, lines: Sequence[str]) -> Iterator[str]:
        """`lines` with what was written later in its places."""
        for line in lines:
            place = self._places.get(line)
            if place is None:
                yield line
            else:
                yield from self._filled(place)

    def at(self, place: Place, write: Callable[[], Value]) -> Value:
        """What `write` gives, whose instructions go to a place that is behind; their operands are made before it."""
        kept = self._lines, self.mark, self._is_unrelated, self._turn, self.tid, self._threads
        self._lines, self.mark = place.lines, place.mark
        if self._is_unrelated:
            self.tid, self._threads = self._own
        self._is_unrelated, self._turn = False, None
        try:
            return write()
        finally:
            self._lines, self.mark, self._is_unrelated, self._turn, self.tid, self._threads = kept

    def add_parameters(self, params: Sequence[tuple[str, Type]]) -> None:
        """More parameters behind those that are there; their values are called as they are."""
        start, end = self._head.rsplit(")", 1)[0], self._head.rsplit(")", 1)[1]
        listed = ", ".join(f"{t} %{n}" for n, t in params)
        self._head = f"{start}{', ' if listed and self.params else ''}{listed}){end}"

    @contextmanager
    def unrelated(self) -> Iterator[None]:
        """What is made inside of thread numbers is made there, from a number that LLVM cannot know to be the same.

        So nothing of it is shared with what is outside, or moved there.
        """
        kept = self.tid, self._threads, self._is_unrelated
        (self.tid,) = self.machine("opaque", [I32], [self.tid])
        self._threads, self._is_unrelated = {}, True
        try:
            yield
        finally:
            self.tid, self._threads, self._is_unrelated = kept

    # --- quotients without the branch that ptxas writes behind each division, for divisors that are denormal

    def reciprocal(self, a: Value) -> Value:
        return self.machine("rcp", [FLOAT], [a])[0] if a.type == FLOAT else super().reciprocal(a)

    def quotient(self, a: Value, b: Value) -> Value:
        if a.type != FLOAT:
            return super().quotient(a, b)
        inverse = self.reciprocal(b)
        rough = self.op("fmul", a, inverse)
        return self.fma(self.fma(self.fneg(rough), b, a), inverse, rough)

    def power_of_two(self, a: Value) -> Value | None:
        return self.machine("exp2", [FLOAT], [a])[0] if a.type == FLOAT else None

    # --- instructions of the table

    def machine(self, name: str, outputs: Sequence[Type], inputs: Sequence[Value], *, guard: Value | None = None,
                initial: Sequence[Value] = (), groups: Sequence[int] = (), **modifiers: str) -> list[Value]:
        """An instruction by its name in the table; `groups` says how many inputs each of `{group0}`, ... takes.

        With `guard` (assembly only) it runs in the threads where that holds; its results are `initial` elsewhere.
        """
        row = INSTRUCTIONS[name]
        if row.intrinsic is not None:
            (result,) = outputs or (VOID,)
            self.module.declare(row.intrinsic, result, [v.type for v in inputs])
            value = self.call(row.intrinsic, result, inputs)
            return [value] if outputs else []
        literals = literals_of(initial)
        operands = [*inputs, *(() if guard is None else (guard,)), *(() if literals else initial)]
        key = (name, *(t.element for t in outputs), "", *(v.type.element for v in inputs), guard is not None,
               literals or len(initial), *groups, *modifiers.values())
        known = self._statements.get(key)
        if known is None:
            known = self._statements[key] = statement_of(row, outputs, [v.type for v in inputs], guard is not None,
                                                       literals or len(initial), groups, modifiers)
        return self._called(known, outputs, operands)

    def statement(self, text: str, outputs: Sequence[Type], inputs: Sequence[Value], convergent: bool) -> list[Value]:
        """Assembly without effects on memory, made of rows of the table (`together`)."""
        constraints = [*("=" + CONSTRAINTS[t.element] for t in outputs), *(CONSTRAINTS[v.type.element] for v in inputs)]
        return self._called(assembly(text, constraints, outputs, not convergent, convergent), outputs, inputs)

    def user_assembly(self, text: str, constraints: str, outputs: Sequence[Type], inputs: Sequence[Value],
                      pure: bool) -> list[Value]:
        """Assembly that a user wrote; `text` is escaped already."""
        return self._called(assembly(text, constraints.split(","), outputs, pure, True), outputs, inputs)

    def tied(self, lines: Sequence[str], sums: Sequence[Value], inputs: Sequence[Value],
             fresh: bool = False) -> list[Value]:
        """Assembly that all threads of a warp run together: its results, `$0` on, are what becomes of `sums`; with
        `fresh` it sets them all and does not read them.  Behind them `inputs` are counted."""
        early = "=&" if fresh else "="
        constraints = [*(early + CONSTRAINTS[v.type.element] for v in sums),
                       *(CONSTRAINTS[v.type.element] for v in inputs), *(() if fresh else map(str, range(len(sums))))]
        text = lines[0] if len(lines) == 1 else f"{{ {NEW_LINE.join(lines)} }}"
        statement = assembly(text, constraints, [v.type for v in sums], False, True)
        return self._called(statement, [v.type for v in sums], [*inputs, *(() if fresh else sums)])

    def warpgroup(self) -> Value:
        """The number of this thread's warpgroup, of which ptxas knows that a warp's threads have one."""
        if self._group is None:
            with self.entry():
                number = self.op("lshr", self.tid, constant(I32, LANE_BITS + 2))
                (self._group,) = self.machine("shuffle_from", [I32], [constant(I32, ALL_LANES), number,
                                                                      constant(I32, 0), constant(I32, WARP_LANES - 1)])
        return self._group

    def _called(self, statement: tuple[str, str], outputs: Sequence[Type], operands: Sequence[Value]) -> list[Value]:
        """What stands in front of the operands of a statement of assembly, and behind them."""
        call = f"{statement[0]}{', '.join(map(str, operands))}{statement[1]}"
        if not outputs:
            self.do(call)
            return []
        if len(outputs) == 1:
            return [self.emit(outputs[0], call)]
        both = self.emit(result_type(outputs), call)
        piece = f"extractvalue {both}, "
        return [self.emit(t, f"{piece}{k}") for k, t in enumerate(outputs)]

    def barrier(self) -> None:
        """All threads of the program meet here."""
        if self.num_warps == 1:
            self.machine("warp_barrier", [], [constant(I32, ALL_LANES)])
        else:
            self.machine("barrier", [], [constant(I32, 0)])

    # --- words

    def note_whole(self, pieces: Sequence[Value], word: Value) -> None:
        """Remember that `pieces`, in this order, are all of the bits of `word`."""
        self._wholes[tuple(pieces)] = word
        self._parts.update((piece, Part(word, k, len(pieces))) for k, piece in enumerate(pieces))

    def part(self, piece: Value) -> Part | None:
        """Which part of a word `piece` is; None if it was taken from none."""
        return self._parts.get(piece)

    def whole(self, pieces: Sequence[Value]) -> Value | None:
        """The word that was taken apart into `pieces`; None if there is none."""
        return self._wholes.get(tuple(pieces))

    def note_rounded(self, narrow: Value, wide: Value) -> None:
        """Remember that a 16-bit float is the f32 `wide`, rounded to the nearest."""
        self._rounded[narrow] = wide

    def rounded(self, pieces: Sequence[Value]) -> list[Value] | None:
        """The f32 that were rounded to `pieces`; None if some were not."""
        found = [self._rounded[p] for p in pieces if p in self._rounded]
        return found if len(found) == len(pieces) else None

    # --- threads

    def thread_flag(self, free: dict[str, int]) -> Value | None:
        """i1: are the `free` bits (masks of lane, warp and turn) of this thread all 0; None if none is named."""
        mask, flag = free.get(LANE, 0) | free.get(WARP, 0) << LANE_BITS, None
        for number, bits in ((self.tid, mask), (self._turn, free.get(TURN, 0))):
            if bits and number is not None:
                flag = self.both(flag, self.icmp("eq", self.op("and", number, constant(I32, bits)), constant(I32, 0)))
        return flag

    def is_first_thread(self) -> Value:
        return self.icmp("eq", self.tid, constant(I32, 0))

    def index(self, layout: Layout, register: int) -> Value:
        """The index that `layout` gives to `register` of this thread, in this turn of a loop, as i32."""
        thread_bases = (*_exactly(layout.bases(LANE), LANE_BITS), *layout.bases(WARP))
        base, turns = self.of_thread(thread_bases), layout.bases(TURN)
        if any(turns):
            base = self.op("xor", base, self.of_turn(turns))
        offset = layout.held[register]
        if not offset:
            return base
        moved = 0
        for b in (*thread_bases, *turns):
            moved |= b
        if moved & offset:
            return self.op("xor", base, constant(I32, offset))
        return self.emit(I32, f"or disjoint {base}, {offset}")

    def of_thread(self, bases: tuple[int, ...]) -> Value:
        """The xor of bases[i] over the bits i of the thread's number that are set, as i32."""
        known = self._threads.get(bases)
        if known is None:
            with self.entry():
                known = self._threads[bases] = self.combine(self.tid, bases)
        return known

    def of_turn(self, bases: Sequence[int]) -> Value:
        """The same of the bits of the number of this turn."""
        assert self._turn is not None
        return self.combine(self._turn, bases)

    def repeat(self, count: int, turn: Callable[[], None]) -> None:
        """A loop of `count` turns, which stays one; what `turn` writes may ask for its number (`of_turn`)."""
        inside, leave, before, outer = self.label("turn"), self.label("exit"), self.block, self._turn
        self.br(inside)
        self.place(inside)
        self._turn = Value(I32, self.fresh("t"))
        phi = len(self._lines)
        self._lines.append("")
        turn()
        following = self.op("add", self._turn, constant(I32, 1))
        self._patch_phis(phi, (self._turn,), (constant(I32, 0),), before, (following,))
        again = self.icmp("ult", following, constant(I32, count))
        self.cond_br(again, inside, leave, mark=f", !llvm.loop {self.module.never_unrolled()}")
        self.place(leave)
        self._turn = outer

    def combine(self, number: Value, bases: Sequence[int]) -> Value:
        """The xor of bases[i] over the bits i of `number` that are set; runs of doubling bases become one shift."""
        total: Value | None = None
        seen = i = 0
        while i < len(bases):
            run = 1
            while i + run < len(bases) and bases[i] and bases[i + run] == bases[i] << run:
                run += 1
            if bases[i]:
                single = bases[i] & bases[i] - 1 == 0
                part = self._run(number, i, run, bases[i]) if single else self._bit(number, i, bases[i])
                run = run if single else 1
                bits = sum(bases[i + k] for k in range(run))
                if total is None:
                    total = part
                else:
                    total = self.op("xor", total, part) if seen & bits else self.emit(
                        I32, f"or disjoint {total}, {part.name}")
                seen |= bits
            i += run
        return constant(I32, 0) if total is None else total

    def _run(self, number: Value, first: int, count: int, base: int) -> Value:
        """Bits first..first+count-1 of `number`, moved to where `base` has its bit."""
        place = base.bit_length() - 1
        whole = number == self.tid and not first and 1 << count == self.num_warps * WARP_LANES
        part = number if whole else self.op("and", number, constant(I32, ((1 << count) - 1) << first))
        if place > first:
            return self.emit(I32, f"shl nuw {part}, {place - first}")
        return self.op("lshr", part, constant(I32, first - place)) if place < first else part

    def _bit(self, number: Value, bit: int, base: int) -> Value:
        flag = self.icmp("ne", self.op("and", number, constant(I32, 1 << bit)), constant(I32, 0))
        return self.select(flag, constant(I32, base), constant(I32, 0))

    # --- conditions that may be absent

    def both(self, a: Value | None, b: Value | None) -> Value | None:
        """The conjunction of two conditions; None always holds."""
        if a is None or b is None:
            return b if a is None else a
        return a if a == b else self.op("and", a, b)

    def to_i64(self, a: Value) -> Value:
        return self.cast("sext", a, I64)


def _attributes(num_warps: int, programs: int, max_registers: int | None) -> str:
    """Of the kernel: `max_registers` of a thread if that is given, else so many that `programs` fit on an SM.

    Without either ptxas may leave a thread 32 registers (13.0.88, 2026-11-30).
    """
    limit = f'"nvvm.minctasm"="{programs}"' if max_registers is None else f'"nvvm.maxnreg"="{max_registers}"'
    return f'nounwind "nvvm.reqntid"="{32 * num_warps}" {limit}'


def with_programs(text: str, programs: int) -> str:
    """A kernel's text with another least number of programs that shall fit on an SM."""
    return re.sub(r'"nvvm.minctasm"="\d+"', f'"nvvm.minctasm"="{programs}"', text)


def known_flag(value: Value) -> bool | None:
    """What an i1 constant says; None for what is not known."""
    if value.type != I1 or not value.is_constant:
        return None
    return value.name == "true"


def _exactly(bases: Sequence[int], count: int) -> tuple[int, ...]:
    """`bases`, filled up with bits that move nothing."""
    return (*bases, *(0,) * (count - len(bases)))
