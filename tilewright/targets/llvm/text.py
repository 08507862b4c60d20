"""Writing LLVM IR as text: modules, functions, blocks, instructions.

A `FunctionWriter` appends instructions to the current block and gives back typed values; nothing is checked here
beyond what the types need, since the toolchain parses and verifies the whole.  Intrinsics are declared by use, in the
forms of LLVM 22 (the alignment of a masked access is a parameter attribute).  No instruction gets a fast-math flag
unless the caller passes it.
Before: nothing.  After: `ModuleWriter.text()` is a module that LLVM parses.  Tests: tests/targets/llvm/test_text.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.types import I1, I32, I64, PTR, VOID, Type, Value, constant, float_value, poison, zero

_TRIVIAL = (0.0, 1.0, -1.0)


class ModuleWriter:
    """A module under construction: functions, globals and the declarations that they use."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, None] = {}
        self._metadata: dict[str, int] = {}
        self._named: dict[str, Sequence[str]] = {}
        self._functions: dict[str, FunctionWriter] = {}

    def declare(self, name: str, result: Type, params: Sequence[Type], attributes: str = "") -> None:
        """Declare an external function (once: its calls tell LLVM of a second one that differs)."""
        if name in self._declarations:
            return
        text = f"declare {result} @{name}({', '.join(map(str, params))}){' ' if attributes else ''}{attributes}"
        self._declarations[name] = text

    def add_global(self, text: str) -> None:
        """Define a global by its line of LLVM text; the same line again adds nothing."""
        self._globals[text] = None

    def metadata(self, operands: str) -> str:
        """The name of a metadata node with these operands; equal ones are one node."""
        return self.node(f"!{{{operands}}}")

    def node(self, text: str) -> str:
        """The name of the metadata node that `text` writes (`!DIFile(...)`); equal texts are one node."""
        number = self._metadata.setdefault(text, len(self._metadata))
        return f"!{number}"

    def never_unrolled(self) -> str:
        """The name of a metadata node for one loop, which says that it stays a loop."""
        hint, number = self.node('!{!"llvm.loop.unroll.disable"}'), len(self._metadata)
        self._metadata[f"distinct !{{!{number}, {hint}}}"] = number
        return f"!{number}"

    def named_metadata(self, name: str, nodes: Sequence[str]) -> None:
        """Define the list `!name` of the module."""
        self._named[name] = nodes

    def function(self, name: str, params: Sequence[tuple[str, Type]], result: Type = VOID, *, attributes: str = "",
                 param_attributes: Sequence[str] = (), linkage: str = "") -> FunctionWriter:
        """A new function; `params` are (name, type), the name without `%`."""
        f = FunctionWriter(self, name, params, result, attributes, param_attributes, linkage)
        self._functions[name] = f
        return f

    def has_function(self, name: str) -> bool:
        return name in self._functions

    def text(self) -> str:
        nodes = [f"!{name} = !{{{', '.join(members)}}}" for name, members in self._named.items()]
        nodes += [f"!{number} = {text}" for text, number in self._metadata.items()]
        parts = [*self._globals, *(f.text() for f in self._functions.values()), *self._declarations.values(), *nodes]
        return "\n".join(parts) + "\n"


class FunctionWriter:
    """A function under construction.  `block` is the label of the block that instructions now go to."""

    def __init__(self, module: ModuleWriter, name: str, params: Sequence[tuple[str, Type]], result: Type,
                 attributes: str, param_attributes: Sequence[str], linkage: str) -> None:
        self.module = module
        self.isa = module.isa
        self.name = name
        self.result = result
        self.params = tuple(Value(t, f"%{n}") for n, t in params)
        marks = list(param_attributes) + [""] * (len(params) - len(param_attributes))
        arguments = ", ".join(f"{p.type} {m + ' ' if m else ''}{p.name}" for p, m in zip(self.params, marks))
        self._head = (f"define {linkage + ' ' if linkage else ''}{result} @{name}({arguments})"
                      f"{' ' + attributes if attributes else ''}")
        self.attachment = ""    # metadata of the function, such as ` !dbg !3`
        self.mark = ""          # the same of each instruction that is written from now on, such as `, !dbg !7`
        self._stack_slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._quiet: set[str] = set()
        self.block = "entry"

    # --- names, blocks, raw instructions

    def fresh(self, hint: str = "v") -> str:
        self._count += 1
        return f"%{hint}{self._count}"

    def emit(self, result: Type, text: str) -> Value:
        """An instruction with a result: `text` is what follows `=`."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}{self.mark}")
        return Value(result, name)

    def is_quiet(self, a: Value) -> bool:
        """Whether the float `a` is known to be no signalling NaN: arithmetic gives none, memory may hold one."""
        return a.is_constant or a.name in self._quiet

    def note_quiet(self, a: Value) -> Value:
        """Remember that the float `a` is no signalling NaN; returns it."""
        self._quiet.add(a.name)
        return a

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append(f"  {text}{self.mark}")

    def label(self, hint: str = "b") -> str:
        """A fresh label, not yet placed."""
        self._count += 1
        return f"{hint}{self._count}"

    def place(self, label: str) -> None:
        """Start the block `label`; the block before it must have ended."""
        self._lines.append(f"{label}:")
        self.block = label

    def br(self, label: str) -> None:
        self._lines.append(f"  br label %{label}{self.mark}")

    def cond_br(self, condition: Value, on_true: str, on_false: str, *, unlikely: bool = False,
                mark: str = "") -> None:
        """`unlikely`: the first way is hardly ever taken, and its code goes to the function's end; `mark` is metadata
        of the branch, such as `, !llvm.loop !3`."""
        weights = mark
        if unlikely:
            weights += ", !prof " + self.module.metadata('!"branch_weights", i32 1, i32 1000000')
        self._lines.append(f"  br i1 {condition.name}, label %{on_true}, label %{on_false}{weights}{self.mark}")

    def ret(self, value: Value | None = None) -> None:
        self._lines.append(f"  ret {value if value is not None else 'void'}{self.mark}")

    def phi(self, t: Type, incoming: Sequence[tuple[Value, str]]) -> Value:
        arms = ", ".join(f"[ {v.name}, %{b} ]" for v, b in incoming)
        return self.emit(t, f"phi {t} {arms}")

    def comment(self, text: str) -> None:
        self._lines.append("  ; " + text.replace("\n", " "))

    def text(self) -> str:
        return "\n".join([f"{self._head}{self.attachment} {{", "entry:", *self._stack_slots, *self._lines, "}", ""])

    # --- structured control flow

    def loop(self, start: Value, stop: Value, step: Value, body: Callable[[Value, tuple[Value, ...]], Sequence[Value]],
             carried: Sequence[Value] = (), *, compare: str = "slt") -> tuple[Value, ...]:
        """`for i = start; i <compare> stop; i += step`: `body(i, values)` returns the carried values' next ones.

        Returns the carried values at the exit.  `i` must not wrap.
        """
        head, inside, leave = self.label("head"), self.label("body"), self.label("exit")
        before = self.block
        self.br(head)
        self.place(head)
        i = Value(start.type, self.fresh("i"))
        values = tuple(Value(v.type, self.fresh("c")) for v in carried)
        phis = len(self._lines)
        self._lines.append("")
        self.cond_br(self.icmp(compare, i, stop), inside, leave)
        self.place(inside)
        after = tuple(body(i, values))
        following = self.emit(i.type, f"add {i}, {step.name}")
        self._patch_phis(phis, (i, *values), (start, *carried), before, (following, *after))
        self.br(head)
        self.place(leave)
        return values

    def while_loop(self, carried: Sequence[Value], condition: Callable[[tuple[Value, ...]], Value],
                   body: Callable[[tuple[Value, ...]], Sequence[Value]]) -> tuple[Value, ...]:
        """`while condition(values): values = body(values)`; returns the values at the exit."""
        head, inside, leave = self.label("head"), self.label("body"), self.label("exit")
        before = self.block
        self.br(head)
        self.place(head)
        values = tuple(Value(v.type, self.fresh("c")) for v in carried)
        phis = len(self._lines)
        self._lines.append("")
        self.cond_br(condition(values), inside, leave)
        self.place(inside)
        after = tuple(body(values))
        self._patch_phis(phis, values, carried, before, after)
        self.br(head)
        self.place(leave)
        return values

    def tested_loop(self, carried: Sequence[Value], first: Value,
                    body: Callable[[tuple[Value, ...]], tuple[Sequence[Value], Value]]) -> tuple[Value, ...]:
        """The same where the condition is computed at the end: `body` gives the next values, and whether to go on;
        `first` says whether to begin."""
        inside, leave, before = self.label("body"), self.label("exit"), self.block
        self.cond_br(first, inside, leave)
        self.place(inside)
        values = tuple(Value(v.type, self.fresh("c")) for v in carried)
        phis = len(self._lines)
        self._lines.append("")
        after, again = body(values)
        self._patch_phis(phis, values, carried, before, tuple(after))
        end = self.block
        self.cond_br(again, inside, leave)
        self.place(leave)
        return tuple(self.phi(a.type, [(a, before), (b, end)]) for a, b in zip(carried, after, strict=True))

    def _patch_phis(self, position: int, values: Sequence[Value], initial: Sequence[Value], before: str,
                    after: Sequence[Value]) -> None:
        self._lines[position] = "\n".join(
            f"  {v.name} = phi {v.type} [ {a.name}, %{before} ], [ {b.name}, %{self.block} ]"
            for v, a, b in zip(values, initial, after, strict=True))

    def branch(self, condition: Value, then: Callable[[], Sequence[Value]],
               orelse: Callable[[], Sequence[Value]] | None = None) -> tuple[Value, ...]:
        """`if condition` with joined results; without `orelse` there are no results."""
        yes, join = self.label("then"), self.label("join")
        no = self.label("else") if orelse is not None else join
        self.cond_br(condition, yes, no)
        self.place(yes)
        first, first_end = tuple(then()), self.block
        self.br(join)
        if orelse is None:
            self.place(join)
            return ()
        self.place(no)
        second, second_end = tuple(orelse()), self.block
        self.br(join)
        self.place(join)
        return tuple(self.phi(a.type, [(a, first_end), (b, second_end)]) for a, b in zip(first, second, strict=True))

    # --- instructions

    def op(self, name: str, a: Value, b: Value) -> Value:
        """A binary instruction with both operands and the result of one type (`add`, `fmul`, `shl`, ...)."""
        result = self.emit(a.type, f"{name} {a}, {b.name}")
        if not a.type.is_float:
            return result
        trivial = float_value(a) in _TRIVIAL or float_value(b) in _TRIVIAL      # LLVM takes such an instruction away
        return result if trivial else self.note_quiet(result)

    def reciprocal(self, a: Value) -> Value:
        """1 / a of a float within 1 ulp; a denormal a or result may be taken for a zero of its sign."""
        return self.op("fdiv", constant(a.type, 1.0), a)

    def quotient(self, a: Value, b: Value) -> Value:
        """a / b of floats, mostly rounded to nearest, where b, 1 / b and a / b are normal; elsewhere anything."""
        return self.op("fdiv", a, b)

    def power_of_two(self, a: Value) -> Value | None:
        """2**a of a float within 2 ulp, where the machine has an instruction for it."""
        return None

    def fneg(self, a: Value) -> Value:
        return self.emit(a.type, f"fneg {a}")

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self.emit(a.type.of("i1"), f"icmp {predicate} {a}, {b.name}")

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self.emit(a.type.of("i1"), f"fcmp {predicate} {a}, {b.name}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.emit(a.type, f"select {condition}, {a}, {b}")

    def cast(self, name: str, a: Value, to: Type) -> Value:
        """A conversion instruction (`trunc`, `sext`, `fpext`, `bitcast`, ...); none if the type stays."""
        return a if a.type == to else self.emit(to, f"{name} {a} to {to}")

    def bitcast(self, a: Value, to: Type) -> Value:
        return self.cast("bitcast", a, to)

    def freeze(self, a: Value) -> Value:
        return self.emit(a.type, f"freeze {a}")

    def not_(self, a: Value) -> Value:
        return self.op("xor", a, constant(a.type, -1))

    # --- vectors

    def splat(self, a: Value, lanes: int) -> Value:
        """The scalar `a` in `lanes` lanes."""
        t = Type(a.type.element, lanes)
        if a.is_constant and a.name != "zeroinitializer":
            return poison(t) if a.name == "poison" else Value(t, f"splat ({a})")
        first = self.emit(t, f"insertelement {t} poison, {a}, i64 0")
        return self.emit(t, f"shufflevector {first}, {t} poison, <{lanes} x i32> zeroinitializer")

    def extract(self, a: Value, lane: int | Value) -> Value:
        index = lane if isinstance(lane, Value) else constant(I64, lane)
        return self.emit(a.type.scalar, f"extractelement {a}, {index}")

    def insert(self, a: Value, element: Value, lane: int | Value) -> Value:
        index = lane if isinstance(lane, Value) else constant(I64, lane)
        return self.emit(a.type, f"insertelement {a}, {element}, {index}")

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Lanes of `a` then `b` picked by number; -1 is poison."""
        picks = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in lanes)
        result = self.emit(Type(a.type.element, len(lanes)), f"shufflevector {a}, {b}, <{len(lanes)} x i32> <{picks}>")
        return self.note_quiet(result) if self.is_quiet(a) and self.is_quiet(b) else result

    def any_lane(self, mask: Value) -> Value:
        """i1: is some lane of an i1 vector (or scalar) true."""
        return self.intrinsic("vector.reduce.or", I1, (mask,), (mask.type,)) if mask.type.lanes else mask

    def all_lanes(self, mask: Value) -> Value:
        return self.intrinsic("vector.reduce.and", I1, (mask,), (mask.type,)) if mask.type.lanes else mask

    # --- calls

    def call(self, name: str, result: Type, args: Sequence[Value], *, attributes: Sequence[str] = (),
             flags: str = "") -> Value:
        """A call of a declared or defined function; `attributes` are those of the arguments."""
        if any(attributes):
            marks = [*attributes, *[""] * (len(args) - len(attributes))]
            text = ", ".join(f"{a.type} {m + ' ' if m else ''}{a.name}" for a, m in zip(args, marks))
        else:
            text = ", ".join(map(str, args))
        call = f"call {flags + ' ' if flags else ''}{result} @{name}({text})"
        if result == VOID:
            self.do(call)
            return Value(VOID, "")
        return self.emit(result, call)

    def intrinsic(self, name: str, result: Type, args: Sequence[Value], overloads: Sequence[Type], *,
                  attributes: Sequence[str] = (), flags: str = "") -> Value:
        """`llvm.<name>.<overloads>`, declared by use."""
        full = ".".join(["llvm", name, *(t.mangled for t in overloads)])
        self.module.declare(full, result, [a.type for a in args])
        return self.call(full, result, args, attributes=attributes, flags=flags)

    def unary_intrinsic(self, name: str, a: Value) -> Value:
        """An intrinsic from a type to itself (`floor`, `sqrt`, `fabs`, `ctpop`, ...)."""
        return self.intrinsic(name, a.type, (a,), (a.type,))

    def binary_intrinsic(self, name: str, a: Value, b: Value) -> Value:
        """An intrinsic of two operands of its result's type (`smin`, `maximum`, `copysign`, ...)."""
        return self.intrinsic(name, a.type, (a, b), (a.type,))

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a*b + c: fused where the machine can, else two roundings."""
        if self.isa.fma:
            result = self.intrinsic("fma", a.type, (a, b, c), (a.type,))
            return result if float_value(c) == 0 else self.note_quiet(result)
        return self.op("fadd", self.op("fmul", a, b), c)

    # --- memory

    def alloca(self, t: Type, count: int = 1, align: int = 64) -> Value:
        """A stack slot, made once on entry of the function wherever this is called."""
        name = self.fresh("s")
        self._stack_slots.append(f"  {name} = alloca {t}, i64 {count}, align {align}")
        return Value(PTR, name)

    def gep(self, base: Value, index: Value | int, element: Type, *, flags: str = "") -> Value:
        """`base` plus `index` elements; a vector of pointers if base or index is a vector."""
        i = index if isinstance(index, Value) else constant(I64, index)
        if i.name == "0":
            return base
        t = Type("ptr", base.type.lanes or i.type.lanes)
        return self.emit(t, f"getelementptr {flags + ' ' if flags else ''}{element}, {base}, {i}")

    def load(self, pointer: Value, t: Type, align: int, *, suffix: str = "") -> Value:
        return self.emit(t, f"load {t}, {pointer}, align {align}{suffix}")

    def store(self, value: Value, pointer: Value, align: int, *, suffix: str = "") -> None:
        self._lines.append(f"  store {value}, {pointer}, align {align}{suffix}{self.mark}")

    def prefetch(self, pointer: Value, level: int, writes: bool = False) -> None:
        """Ask for the line at `pointer`, which need not be memory, for reading or, with `writes`, for writing.

        `level`: 3 into the first cache, 2 the second.
        """
        numbers = (constant(I32, int(writes)), constant(I32, level), constant(I32, 1))
        self.intrinsic("prefetch", VOID, (pointer, *numbers), (PTR,))

    def masked_load(self, pointer: Value, mask: Value, other: Value, align: int) -> Value:
        """Lanes of a contiguous vector where `mask`, else `other`."""
        t = other.type
        return self.intrinsic("masked.load", t, (pointer, mask, other), (t, PTR), attributes=(f"align {align}",))

    def masked_store(self, value: Value, pointer: Value, mask: Value, align: int) -> None:
        self.intrinsic("masked.store", VOID, (value, pointer, mask), (value.type, PTR),
                       attributes=("", f"align {align}"))

    def gather(self, pointers: Value, mask: Value, other: Value, align: int) -> Value:
        t = other.type
        return self.intrinsic("masked.gather", t, (pointers, mask, other), (t, pointers.type),
                              attributes=(f"align {align}",))

    def scatter(self, value: Value, pointers: Value, mask: Value, align: int) -> None:
        self.intrinsic("masked.scatter", VOID, (value, pointers, mask), (value.type, pointers.type),
                       attributes=("", f"align {align}"))

    def prefix_mask(self, count: Value, lanes: int) -> Value:
        """i1 lanes: lane < count, for a signed i64 `count` of any value."""
        t = Type("i32", lanes)
        low = self.binary_intrinsic("smax", count, zero(I64))
        limited = self.binary_intrinsic("smin", low, constant(I64, lanes))
        iota = Value(t, "<" + ", ".join(f"i32 {k}" for k in range(lanes)) + ">")
        return self.icmp("slt", iota, self.splat(self.cast("trunc", limited, I32), lanes))
