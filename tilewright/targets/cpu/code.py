"""A function writer that hoists: `Code` is `llvm.text.FunctionWriter` with a stack of levels.

There is a level for the function's body and one more for each open loop, branch or scope.  Names are SSA, so an
instruction without effects may stand at the outermost level where all its operands are known: `emit` reads the
operands out of the instruction's text, appends the instruction to that level (an open outer level ends just before
the loop that is being filled), and gives equal texts one name.  So loop invariants are hoisted and equal
subexpressions shared while the text is written; neither needs an LLVM pass.  What is hoisted never traps, so it may
run although its loop does not.  Loads, calls without result and phis stay where they are; `shared_load` lets a load
move, but not above a given level.

Before: nothing.  After: as for `FunctionWriter`.  Tests: tests/targets/cpu/test_code.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tilewright.targets.llvm.lines import LineTable
from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import I1, I64, Type, Value, constant, integer_value, poison

Result = TypeVar("Result")

# attributes of functions that run seldom: LLVM takes half the time for one that it need not optimise
COLD = "cold noinline optnone nounwind"

_LEAST_CHAIN = 10       # instructions; of shorter ones a processor sees enough by itself
_LEAVES = re.compile(r"\s*(br |ret |\w+:)")
_DEFINED = re.compile(r"\s*(%\w+) = ")
_NAME = re.compile(r"%[A-Za-z_][\w.]*")
_LEAVE = "  ret void"     # and a mark
_STAYS = ("load ", "phi ", "alloca", "cmpxchg", "atomicrmw", "freeze")
_TOUCHES_MEMORY = re.compile(r"@llvm\.masked\.|\bcall void ")


@dataclass(slots=True)
class _Level:
    lines: list[str]
    barrier: int = 0                # the innermost level around, or this one, out of which nothing hoists
    texts: list[str] = field(default_factory=list)      # of what this level shares


class Code(FunctionWriter):
    """The body of one function under construction (see the module's docstring)."""

    def __init__(self, module: ModuleWriter, name: str, params: Sequence[tuple[str, Type]]) -> None:
        super().__init__(module, name, params, Type("void"), "", (), "")
        self._levels = [_Level(self._lines)]
        self._known: dict[str, dict[int, Value]] = {}       # what is shared, by text and level
        self._depth: dict[str, int] = {}
        self._types = {p.name: p.type for p in self.params}
        self._outlined: list[str] = []
        self.line_table: LineTable | None = None

    # --- levels and hoisting

    @property
    def depth(self) -> int:
        """Index of the innermost open level."""
        return len(self._levels) - 1

    def fresh(self, hint: str = "v") -> str:
        name = super().fresh(hint)
        self._depth[name] = self.depth
        return name

    def emit(self, result: Type, text: str) -> Value:
        """An instruction with a result; hoisted and shared unless it touches memory."""
        if text.startswith(_STAYS) or (text.startswith("call") and _TOUCHES_MEMORY.search(text)):
            return self.here(result, text)
        return self._shared(result, text, 0)

    def here(self, result: Type, text: str) -> Value:
        """An instruction that is neither moved nor shared."""
        name = self.fresh()
        self._lines.append(f"  {name} = {text}{self.mark}")
        self._types[name] = result
        return Value(result, name)

    def alloca(self, t: Type, count: int = 1, align: int = 64) -> Value:
        slot = super().alloca(t, count, align)
        self._types[slot.name] = slot.type
        return slot

    def shared_load(self, text: str, result: Type, floor: int) -> Value:
        """A load that nothing within level `floor` changes: hoisted up to there, and shared within it."""
        return self._shared(result, text, floor)

    def _shared(self, result: Type, text: str, floor: int) -> Value:
        depth, depths, levels = floor, self._depth, self._levels
        for operand in _NAME.findall(text):
            at = depths.get(operand, 0)
            if at > depth:
                depth = at
        depth = max(depth, levels[-1].barrier)
        found = self._known.get(text)
        if found is not None:
            outer = min((level for level in found if floor <= level <= depth), default=None)
            if outer is not None:
                return found[outer]
        self._count += 1
        name = f"%v{self._count}"
        value = Value(result, name)
        depths[name] = depth
        self._types[name] = result
        place = levels[depth]
        place.lines.append(f"  {name} = {text}{self.mark}")
        place.texts.append(text)
        if found is None:
            self._known[text] = {depth: value}
        else:
            found[depth] = value
        return value

    def _push(self, label: str, barrier: bool = False) -> None:
        self._levels.append(_Level([], len(self._levels) if barrier else self._levels[-1].barrier))
        self._lines = self._levels[-1].lines
        self.block = label

    def _pop(self) -> list[str]:
        level = self._levels.pop()
        for text in level.texts:
            del self._known[text][len(self._levels)]
        self._lines = self._levels[-1].lines
        return level.lines

    @contextmanager
    def scope(self) -> Iterator[int]:
        """A level of its own in the same block: what is shared within ends with it.  Yields its depth."""
        self._push(self.block)
        try:
            yield self.depth
        finally:
            inner = self._pop()
            self._lines.extend(inner)

    def export(self, value: Value) -> Value:
        """Make a value of a level that was just closed, and that dominates what follows, one of this level."""
        if value.name.startswith("%"):
            self._depth[value.name] = min(self._depth.get(value.name, 0), self.depth)
        return value

    @contextmanager
    def trial(self) -> Iterator[Value]:
        """What is written within, for an i64 index, is dropped, but for what does not depend on it, which hoists."""
        block = self.block
        self._push(block)
        try:
            yield self._named(I64, "i")
        finally:
            self._pop()
            self.block = block

    def is_within(self, value: Value) -> bool:
        """Whether a value is made within the innermost open level, and so may depend on its index."""
        return self._depth.get(value.name, 0) >= self.depth

    def reserve(self) -> Callable[[str], None]:
        """A place here for an instruction without a result that turns out later."""
        lines, place, mark = self._lines, len(self._lines), self.mark
        lines.append("")

        def fill(text: str) -> None:
            lines[place] = "  " + text + mark

        return fill

    def is_outermost(self, value: Value) -> bool:
        """Whether a scalar is known outside of every loop."""
        return self._depth.get(value.name, 0) == 0

    def interleaved(self, parts: Iterable[Callable[[], Result]]) -> list[Result]:
        """The results of `parts`, straight code that does the same to different elements, whose lines are mixed.

        Long chains of dependent instructions one after the other fill a processor's window of some hundred
        instructions with few of them: mixed, more make progress at once.
        """
        results: list[Result] = []
        chunks: list[list[str]] = []
        start = end = len(self._lines)
        for part in parts:
            results.append(part())
            chunks.append(self._lines[end:])
            end = len(self._lines)
        if len(chunks) > 1 and len(chunks[0]) >= _LEAST_CHAIN and (_are_alike(chunks) or self._may_mix(chunks)):
            self._lines[start:] = _mixed(chunks)
        return results

    def _may_mix(self, chunks: Sequence[Sequence[str]]) -> bool:
        """Whether chunks that differ in length are mixed: vectors of 256 bits that are half a line, where every second
        one asks for the next row's (softmax of 1024: 1.28 times as fast; Zen 3, 2026-11-30).

        For 512 bits nobody has measured it.
        """
        return not self.isa.avx512 and _only_store(chunks)

    # --- structure

    def counted(self, stop: int, step: int, body: Callable[[Value, tuple[Value, ...]], Sequence[Value]],
                carried: Sequence[Value] = (), *, hidden: bool = False) -> tuple[Value, ...]:
        """A loop over i64 0, step, 2*step, ... < stop that runs at least once and tests at its end.

        `body(index, values)` returns the next carried values; the last ones are returned.  How a `hidden` one counts
        LLVM does not see, so that it does not look for better addresses, which is a third of its time: where the loop
        hardly ever runs, or does so much at each index that a few additions do not count.
        """
        head, leave, entry = self.label("loop"), self.label("after"), self.block
        self._push(head)
        index = self._named(I64, "i")
        values = tuple(self._named(v.type, "c") for v in carried)
        results = tuple(body(index, values))
        following, again, latch, mark = self.fresh("n"), self.fresh("t"), self.block, self.mark
        sum_ = self.fresh("n") if hidden else following
        inner = self._pop()
        self._lines += [f"  br label %{head}{mark}", f"{head}:",
                        f"  {index.name} = phi i64 [ 0, %{entry} ], [ {following}, %{latch} ]"]
        self._phis(values, carried, entry, results, latch)
        self._lines += inner
        self._lines.append(f"  {sum_} = add nuw nsw i64 {index.name}, {step}{mark}")
        if hidden:
            self._lines.append(f"  {following} = {_hidden(Value(I64, sum_))}{mark}")
        self._lines += [f"  {again} = icmp ult i64 {following}, {stop}{mark}",
                        f"  br i1 {again}, label %{head}, label %{leave}{mark}"]
        self.place(leave)
        return tuple(self.export(r) for r in results)

    def _named(self, t: Type, hint: str) -> Value:
        """A value whose instruction is written later."""
        value = Value(t, self.fresh(hint))
        self._types[value.name] = t
        return value

    def _phis(self, values: Sequence[Value], first: Sequence[Value], entry: str, following: Sequence[Value],
              latch: str) -> None:
        for v, a, b in zip(values, first, following, strict=True):
            self._lines.append(f"  {v.name} = phi {v.type} [ {a.name}, %{entry} ], [ {b.name}, %{latch} ]")

    def loop(self, start: Value, stop: Value, step: Value, body: Callable[[Value, tuple[Value, ...]], Sequence[Value]],
             carried: Sequence[Value] = (), *, compare: str = "slt", hidden: bool = False) -> tuple[Value, ...]:
        """See `FunctionWriter.loop`; `hidden` is as for `counted`."""
        def condition(values: tuple[Value, ...]) -> Value:
            return self.icmp(compare, values[0], stop)

        def run(values: tuple[Value, ...]) -> Sequence[Value]:
            after = tuple(body(values[0], values[1:]))
            following = self.op("add", values[0], step)
            return (self.here(step.type, _hidden(following)) if hidden else following, *after)

        return self.while_loop((start, *carried), condition, run)[1:]

    def while_loop(self, carried: Sequence[Value], condition: Callable[[tuple[Value, ...]], Value],
                   body: Callable[[tuple[Value, ...]], Sequence[Value]]) -> tuple[Value, ...]:
        """`while condition(values): values = body(values)`; values made in `condition` may be exported."""
        head, inside, leave, entry = self.label("head"), self.label("body"), self.label("after"), self.block
        self._push(head)
        values = tuple(self._named(v.type, "c") for v in carried)
        self.cond_br(condition(values), inside, leave)
        self.place(inside)
        results = tuple(body(values))
        latch = self.block
        inner = self._pop()
        self._lines += [f"  br label %{head}{self.mark}", f"{head}:"]
        self._phis(values, carried, entry, results, latch)
        self._lines += [*inner, f"  br label %{head}{self.mark}"]
        self.place(leave)
        return tuple(self.export(v) for v in values)

    def branch(self, condition: Value, then: Callable[[], Sequence[Value]],
               orelse: Callable[[], Sequence[Value]] | None = None, *, unlikely: bool = False) -> tuple[Value, ...]:
        """`if` with joined results; nothing hoists out of either way.  A constant condition takes its way at once.

        `unlikely`: the condition hardly ever holds.
        """
        known = integer_value(condition)
        if known is not None:
            return tuple(then() if known else orelse() if orelse is not None else ())
        yes, no, join = self.label("then"), self.label("else"), self.label("join")
        self.cond_br(condition, yes, no if orelse is not None else join, unlikely=unlikely)
        ends: list[tuple[tuple[Value, ...], str]] = []
        for label, way in ((yes, then), (no, orelse)):
            if way is None:
                continue
            self._push(label, barrier=True)
            results = tuple(way())
            ends.append((results, self.block))
            inner = self._pop()
            self._lines += [f"{label}:", *inner, f"  br label %{join}{self.mark}"]
        self.place(join)
        if orelse is None:
            return ()
        (a, a_end), (b, b_end) = ends
        return tuple(self.phi(x.type, [(x, a_end), (y, b_end)]) for x, y in zip(a, b, strict=True))

    def leave_if(self, condition: Value, record: Callable[[], None]) -> None:
        """Where `condition` holds, which is unlikely: run `record`, then return from the function."""
        out, on = self.label("leave"), self.label("on")
        self.cond_br(condition, out, on, unlikely=True)
        self._push(out, barrier=True)
        record()
        inner = self._pop()
        self._lines += [f"{out}:", *inner, f"  ret void{self.mark}"]
        self.place(on)

    # --- functions of their own

    def outline(self, body: Callable[[], Sequence[Value]]) -> tuple[Value, ...]:
        """What `body` writes, in a function that is called here; its results.  Where it leaves, we leave.

        Nothing hoists out of it.
        """
        before = self.block
        self._push("entry", barrier=True)
        results = tuple(body())
        lines, self.block = self._pop(), before
        inside = {m[1] for line in lines if (m := _DEFINED.match(line))}
        own = [r for r in dict.fromkeys(results) if r.name in inside]
        leaves = any(line.startswith(_LEAVE) for line in lines)
        given = ([Value(I1, "false")] if leaves else []) + own
        kind = Type("void" if not given else str(given[0].type) if len(given) == 1 else
                    "{ " + ", ".join(str(v.type) for v in given) + " }")
        params = self._free_names(lines, inside)
        name = f"{self.name}_part{len(self._outlined)}"
        listed = ", ".join(f"{self._types[p]} {p}" for p in params)
        left = f"  ret {_aggregate(kind, [Value(I1, 'true'), *(poison(v.type) for v in own)])}" if leaves else ""
        attachment = ""
        if self.line_table is not None:
            attachment, lines = self.line_table.part(name, lines)
        self._outlined.append("\n".join((
            f"define internal {kind} @{name}({listed}) nounwind{attachment} {{", "entry:",
            *(left if line.startswith(_LEAVE) else line for line in lines), *_returning(kind, given), "}", "")))
        call = f"call {kind} @{name}({listed})"
        if not given:
            self.do(call)
            return results
        made = self.here(kind, call)
        parts = [made] if len(given) == 1 else [
            self.here(v.type, f"extractvalue {made}, {k}") for k, v in enumerate(given)]
        if leaves:
            self.leave_if(parts.pop(0), lambda: None)
        known = dict(zip(own, parts, strict=True))
        return tuple(known.get(r, r) for r in results)

    def _free_names(self, lines: Sequence[str], inside: set[str]) -> list[str]:
        """The values of outside that `lines` use; what has no type is a label."""
        used = dict.fromkeys(name for line in lines for name in _NAME.findall(line))
        return [name for name in used if name not in inside and name in self._types]

    def text(self) -> str:
        return "\n".join([super().text(), *self._outlined])

    # --- integers with constants folded (the pass pipeline is skipped)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        known = None if condition.type.lanes else integer_value(condition)
        if known is not None:
            return a if known else b
        return a if a == b else super().select(condition, a, b)

    def masked_store(self, value: Value, pointer: Value, mask: Value, align: int) -> None:
        """Write the lanes where `mask`; integer lanes under a mask that LLVM cannot see through.

        LLVM 22.1 makes a store of truncated lanes under a constant mask with one lane a scalar store of the lane
        before it was truncated, past its element (seen on x86, 2026-11-30; tests/lang/test_values_narrow_stores.py).
        """
        if value.type.element.startswith("i"):
            always = self.emit(I1, f"icmp ne {self.params[0]}, null")      # true, and not provably so
            mask = self.op("and", mask, self.splat(always, mask.type.lanes))
        super().masked_store(value, pointer, mask, align)

    def fold(self, name: str, a: Value, b: Value) -> Value:
        """add, sub, mul, and, or on scalars, with the trivial cases decided now."""
        if a.name.startswith("%") and b.name.startswith("%"):
            return self.op(name, a, b)
        x, y = integer_value(a), integer_value(b)
        if x is not None and y is not None:
            exact = {"add": x + y, "sub": x - y, "mul": x * y, "and": x & y, "or": x | y}[name]
            return constant(a.type, exact)
        if name in ("add", "or") and x == 0:
            return b
        if y == 0 and name in ("add", "sub", "or"):
            return a
        if name in ("mul", "and") and 0 in (x, y):
            return constant(a.type, 0)
        one = -1 if name == "and" or a.type == I1 else 1
        if name in ("mul", "and") and one in (x, y):
            return b if x == one else a
        return self.op(name, a, b)

    def fold_not(self, a: Value) -> Value:
        """Not of an i1 scalar, decided now for a constant."""
        known = integer_value(a)
        return self.not_(a) if known is None else constant(I1, 1 - (known & 1))

    def fold_icmp(self, predicate: str, a: Value, b: Value) -> Value:
        """A signed comparison, decided now for two constants."""
        x, y = integer_value(a), integer_value(b)
        if x is None or y is None:
            return self.icmp(predicate, a, b)
        return constant(I1, {"slt": x < y, "sle": x <= y, "sgt": x > y, "sge": x >= y, "eq": x == y,
                             "ne": x != y}[predicate])


def _hidden(number: Value) -> str:
    """An instruction that gives a number, of which LLVM knows nothing then."""
    return f'call {number.type} asm "", "=r,0"({number})'


def _aggregate(kind: Type, values: Sequence[Value]) -> str:
    """Constants as one operand of type `kind`."""
    return str(values[0]) if len(values) == 1 else f"{kind} {{ {', '.join(map(str, values))} }}"


def _returning(kind: Type, values: Sequence[Value]) -> list[str]:
    """Lines that return `values`."""
    if len(values) < 2:
        return [f"  ret {values[0]}" if values else "  ret void"]
    names = ["poison", *(f"%result{k}" for k in range(len(values)))]
    return [*(f"  {names[k + 1]} = insertvalue {kind} {names[k]}, {v}, {k}" for k, v in enumerate(values)),
            f"  ret {kind} {names[-1]}"]


def _are_alike(chunks: Sequence[Sequence[str]]) -> bool:
    """Whether all are straight and write at the same places, so that mixed they write in the same order."""
    if any(_LEAVES.match(line) for chunk in chunks for line in chunk):
        return False
    writes = [[k for k, line in enumerate(chunk) if not _DEFINED.match(line)] for chunk in chunks]
    return all(len(chunk) == len(chunks[0]) for chunk in chunks) and all(w == writes[0] for w in writes)


def _only_store(chunks: Sequence[Sequence[str]]) -> bool:
    """Whether all are straight and do nothing but compute, store elements as often, and ask for lines."""
    if any(_LEAVES.match(line) for chunk in chunks for line in chunk):
        return False
    writes = [[line for line in chunk if not _DEFINED.match(line) and "@llvm.prefetch" not in line] for chunk in chunks]
    return all(len(w) == len(writes[0]) for w in writes) and all(
        line.startswith("  store ") or "@llvm.masked.store" in line for w in writes for line in w)


def _mixed(chunks: Sequence[Sequence[str]]) -> list[str]:
    """The lines of `chunks` in turns; a line waits for what it takes from an earlier chunk.

    The n-th write of a chunk waits for the n-th of the chunk before: their addresses may meet.
    """
    waiting = {found[1] for chunk in chunks for line in chunk if (found := _DEFINED.match(line))}
    lines: list[str] = []
    done, written = [0] * len(chunks), [0] * len(chunks)
    while any(n < len(chunk) for n, chunk in zip(done, chunks, strict=True)):
        for k, chunk in enumerate(chunks):
            if done[k] == len(chunk):
                continue
            line = chunk[done[k]]
            found = _DEFINED.match(line)
            is_write = not found and "@llvm.prefetch" not in line
            if is_write and k and written[k] >= written[k - 1]:
                continue
            if waiting.isdisjoint(_NAME.findall(line[found.end():] if found else line)):
                lines.append(line)
                done[k] += 1
                written[k] += is_write
                if found:
                    waiting.discard(found[1])
    return lines
