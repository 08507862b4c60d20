"""Writing the host's own native functions: a thin layer over the LLVM text writer for code that a C compiler would get.

Variables are stack slots, which LLVM's sroa pass turns into registers; numbers stand for constants of the type at
hand; words of a record are named by their byte offset.  Every function here is used by `pool_code` and
`launcher_code`; nothing is loaded or compiled in this module.
Tests: tests/targets/cpu_host/test_native.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import I8, I64, PTR, VOID, Type, Value, constant

Operand = Value | int
Jump = Callable[[], object]      # emits code; what it gives back does not matter


@dataclass(frozen=True, slots=True)
class Variable:
    """A named stack slot of one function."""

    type: Type
    slot: Value


class NativeModule:
    """A module of host code.  External functions are declared once and called by name."""

    def __init__(self) -> None:
        self.writer = ModuleWriter(Isa())
        self._results: dict[str, Type] = {}

    def external(self, name: str, result: Type, *params: Type, variadic: bool = False) -> None:
        """Declare a C function that code calls."""
        self._results[name] = result
        if variadic:
            self.writer.declare(name, result, [*params, Type("...")])
        else:
            self.writer.declare(name, result, params)

    def external_object(self, name: str) -> Value:
        """Declare an object of another library; its address."""
        self.writer.add_global(f"@{name} = external global i8")
        return Value(PTR, f"@{name}")

    def function(self, name: str, params: Sequence[tuple[str, Type]], result: Type = VOID,
                 *, public: bool = False, inline: bool = False, attributes: str = "nounwind uwtable") -> Native:
        """A new function of this module; only a public one can be found by name after loading.

        `uwtable`: a debugger finds the way from a kernel out to Python through it.
        """
        self._results[name] = result
        attributes += " alwaysinline" if inline else ""
        writer = self.writer.function(name, params, result, attributes=attributes, linkage="" if public else "internal")
        return Native(self, writer)

    def result_of(self, name: str) -> Type:
        return self._results[name]

    def text(self) -> str:
        return self.writer.text()


class Native:
    """The body of one function."""

    def __init__(self, module: NativeModule, writer: FunctionWriter) -> None:
        self.module = module
        self.f = writer
        self.params = writer.params

    # -- values

    def value(self, operand: Operand, t: Type = I64) -> Value:
        """`operand`, numbers as constants of type `t`."""
        return operand if isinstance(operand, Value) else constant(t, operand)

    def op(self, name: str, a: Operand, b: Operand) -> Value:
        """An integer instruction; the type is that of the operand that has one."""
        t = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else I64
        return self.f.op(name, self.value(a, t), self.value(b, t))

    def add(self, a: Operand, b: Operand) -> Value:
        return self.op("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        return self.op("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        return self.op("mul", a, b)

    def both(self, a: Operand, b: Operand) -> Value:
        return self.op("and", a, b)

    def either(self, a: Operand, b: Operand) -> Value:
        return self.op("or", a, b)

    def is_(self, predicate: str, a: Operand, b: Operand) -> Value:
        t = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else I64
        return self.f.icmp(predicate, self.value(a, t), self.value(b, t))

    def least(self, a: Operand, b: Operand) -> Value:
        """The smaller of two unsigned numbers."""
        a, b = self.value(a), self.value(b)
        return self.f.select(self.is_("ult", a, b), a, b)

    def greatest(self, a: Operand, b: Operand) -> Value:
        a, b = self.value(a), self.value(b)
        return self.f.select(self.is_("ugt", a, b), a, b)

    def pick(self, condition: Value, a: Operand, b: Operand) -> Value:
        t = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else I64
        return self.f.select(condition, self.value(a, t), self.value(b, t))

    def divided_up(self, a: Operand, b: Operand) -> Value:
        """a / b for unsigned numbers, rounded up."""
        return self.op("udiv", self.sub(self.add(a, b), 1), b)

    def as_int(self, pointer: Value) -> Value:
        return self.f.emit(I64, f"ptrtoint {pointer} to i64")

    def as_pointer(self, number: Value) -> Value:
        return self.f.emit(PTR, f"inttoptr {number} to ptr")

    def narrow(self, a: Value, t: Type) -> Value:
        return self.f.cast("trunc", a, t)

    def widen(self, a: Value, t: Type = I64) -> Value:
        return self.f.cast("zext", a, t)

    def extend(self, a: Value, t: Type = I64) -> Value:
        return self.f.cast("sext", a, t)

    # -- variables

    def variable(self, initial: Operand, t: Type = I64) -> Variable:
        start = self.value(initial, t)
        variable = Variable(start.type, self.f.alloca(start.type, align=8))
        self.f.store(start, variable.slot, 8)
        return variable

    def read(self, variable: Variable) -> Value:
        return self.f.load(variable.slot, variable.type, 8)

    def write(self, variable: Variable, value: Operand) -> None:
        self.f.store(self.value(value, variable.type), variable.slot, 8)

    def increase(self, variable: Variable, by: Operand = 1) -> None:
        self.write(variable, self.add(self.read(variable), by))

    # -- memory

    def at(self, base: Value, offset: Operand) -> Value:
        """The address `offset` bytes behind `base`."""
        return base if offset == 0 else self.f.gep(base, self.value(offset), I8)

    def item(self, base: Value, index: Operand, element: Type = I64) -> Value:
        """The address of element `index`."""
        return self.f.gep(base, self.value(index), element)

    def get(self, base: Value, offset: Operand = 0, t: Type = I64) -> Value:
        return self.f.load(self.at(base, offset), t, t.bits // 8)

    def put(self, base: Value, offset: Operand, value: Operand, t: Type = I64) -> None:
        v = self.value(value, t)
        self.f.store(v, self.at(base, offset), v.type.bits // 8)

    def atomic_get(self, base: Value, offset: Operand = 0, t: Type = I64, order: str = "acquire") -> Value:
        return self.f.emit(t, f"load atomic {t}, {self.at(base, offset)} {order}, align {t.bits // 8}")

    def atomic_put(self, base: Value, offset: Operand, value: Operand, t: Type = I64, order: str = "release") -> None:
        v = self.value(value, t)
        self.f.do(f"store atomic {v}, {self.at(base, offset)} {order}, align {v.type.bits // 8}")

    def atomic_change(self, name: str, base: Value, offset: Operand, value: Operand, t: Type = I64,
                      order: str = "seq_cst") -> Value:
        """`atomicrmw name`; what was there before."""
        v = self.value(value, t)
        return self.f.emit(v.type, f"atomicrmw {name} {self.at(base, offset)}, {v} {order}")

    def exchange_if(self, base: Value, offset: Operand, old: Value, new: Value) -> Value:
        """Put `new` where `old` is; whether it was there (i1)."""
        pair = self.f.emit(old.type, f"cmpxchg {self.at(base, offset)}, {old}, {new} acq_rel acquire")
        return self.f.emit(old.type.of("i1"), f"extractvalue {{ {old.type}, i1 }} {pair.name}, 1")

    # -- calls

    def call(self, name: str, *args: Operand, variadic: str = "") -> Value:
        """Call a declared or defined function; bare numbers are i64.  `variadic` is the type for such callees."""
        values = [self.value(a) for a in args]
        result = self.module.result_of(name)
        kind = variadic or str(result)
        text = f"call {kind} @{name}({', '.join(map(str, values))})"
        if result == VOID:
            self.f.do(text)
            return Value(VOID, "")
        return self.f.emit(result, text)

    def call_pointer(self, target: Value, result: Type, *args: Operand) -> Value:
        """Call a function by its address."""
        text = f"call {result} {target.name}({', '.join(str(self.value(a)) for a in args)})"
        if result == VOID:
            self.f.do(text)
            return Value(VOID, "")
        return self.f.emit(result, text)

    # -- control

    def when(self, condition: Value, then: Jump, orelse: Jump | None = None) -> None:
        """`if`; a branch may end with `leave`, `stop` or `again`."""
        yes, no, join = self.f.label("then"), self.f.label("else"), self.f.label("join")
        self.f.cond_br(condition, yes, no if orelse is not None else join)
        self.f.place(yes)
        then()
        self.f.br(join)
        if orelse is not None:
            self.f.place(no)
            orelse()
            self.f.br(join)
        self.f.place(join)

    def loop(self, body: Callable[[Jump, Jump], object]) -> None:
        """Repeat `body(stop, again)` until it calls `stop`."""
        head, after = self.f.label("head"), self.f.label("after")
        self.f.br(head)
        self.f.place(head)
        body(lambda: self._jump(after), lambda: self._jump(head))
        self.f.br(head)
        self.f.place(after)

    def count(self, start: Operand, stop: Operand, body: Callable[[Value], object]) -> None:
        """`for i in range(start, stop)`, unsigned."""
        i = self.variable(start)
        end = self.value(stop)

        def step(leave: Jump, _: Jump) -> None:
            now = self.read(i)
            self.when(self.is_("uge", now, end), leave)
            body(now)
            self.increase(i)

        self.loop(step)

    def leave(self, value: Operand | None = None) -> None:
        """Return from the function here."""
        self.f.ret(None if value is None else self.value(value, self.f.result))
        self.f.place(self.f.label("dead"))

    def end(self, value: Operand | None = None) -> None:
        """Return at the end of the function."""
        self.f.ret(None if value is None else self.value(value, self.f.result))

    def _jump(self, label: str) -> None:
        self.f.br(label)
        self.f.place(self.f.label("dead"))
