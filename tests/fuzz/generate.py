"""Random well-typed kernels.

Every expression has a type that the generator knows, and is defined for all inputs: divisors are positive, shifts are
below the width, floats are brought into range before they become integers, indices are reduced into their array.  So a
kernel that is refused, and engines that disagree, are findings.  Values of inexact operations are stored at once, with
a bound, and never used again: all else is compared bit for bit.
"""

from __future__ import annotations

import random

from tests.fuzz.trees import Expr, Kind, Output, Program, Stmt, offsets, spelled

SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")
INTS = (*SIGNED, *UNSIGNED)
FLOATS = ("fp16", "bf16", "fp32", "fp64")
INPUTS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "fp16", "fp32", "fp64")
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 33)
ATOMICS = ("add", "max", "min", "and", "or", "xor")
COUNTERS = 8
TOP = 2            # how deep blocks may nest below the kernel's own


class Maker:
    """Grows one program."""

    def __init__(self, seed: int, statements: int = 9) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.fresh = 0
        self.statements = statements
        a, b, c = (self.choose(SIZES) for _ in range(3))
        while a * b * c > 600:
            c = self.choose(SIZES[:6])
            b = self.choose(SIZES[:9])
        self.shapes = [(), (a,), (b,), (a, b), (b, a), (a, b, c), (a * b,), (a, 2), (c,)]
        self.dtypes = [*self.random.sample(INTS, 3), *self.random.sample(FLOATS, 2), "i32", "i1"]
        self.variables: dict[str, Kind] = {}
        self.sizes = {n for s in self.shapes for n in s}
        self.sides = sorted({a, b, c, 2})
        self.inputs: set[str] = set()
        self.functions: list[tuple[str, Kind, tuple[Kind, ...], str]] = []
        self.outputs: list[Output] = []
        self.per_program = max(*(Kind("i32", s).numel for s in self.shapes), max(a, b, c) ** 2) + 64
        self.locked: set[str] = set()           # names that loops count with

    def choose(self, items):
        return items[self.random.randrange(len(items))]

    def chance(self, p):
        return self.random.random() < p

    def name(self, stem):
        self.fresh += 1
        return f"{stem}{self.fresh}"

    def kind(self):
        return Kind(self.choose(self.dtypes), self.choose(self.shapes))

    # -- programs --------------------------------------------------------------------------------------------

    def program(self) -> Program:
        for _ in range(self.random.randrange(3)):
            self.function()
        body = [self.definition(3) for _ in range(2)]
        body += self.block(self.statements, TOP)
        for name, kind in list(self.variables.items())[-7:]:
            self.outputs.append(Output(name, kind, _storage(kind.dtype)))
        return Program(
            self.seed, self.random.randrange(1, 5), tuple(text for *_, text in self.functions), tuple(body),
            tuple(self.outputs), (("n", self.random.randrange(0, 12)), ("m", self.random.randrange(2, 40))),
            (("C", self.random.randrange(0, 5)),), tuple(sorted(self.sizes)), tuple(sorted(self.inputs)),
            self.per_program, (("buffer", "i32", self.per_program), ("fbuffer", "fp32", self.per_program),
                               *((f"count_{k}", "i32", COUNTERS) for k in ATOMICS)))

    def function(self):
        """A device function on two values; its types are those of its one kind of call."""
        dtype, shape = self.choose(self.dtypes[:-1]), self.choose(self.shapes)
        kinds = (Kind(dtype, shape), Kind(dtype, shape))
        outer, self.variables = self.variables, {"a": kinds[0], "b": kinds[1]}
        name = self.name("f")
        inputs, self.inputs = self.inputs, set()
        functions, self.functions = self.functions, []
        self.in_function = True
        result = self.expr(kinds[0], 2)
        lines = [f"def {name}(a, b):"]
        if self.chance(0.5):
            condition = self.expr(Kind("i1", ()), 1) if not shape else None
            if condition is not None:
                lines += [f"    if {condition.render()}:", f"        return {self.expr(kinds[0], 1).render()}"]
        lines.append(f"    return {result.render()}")
        self.in_function = False
        self.variables, self.inputs, self.functions = outer, inputs, functions
        self.functions.append((name, kinds[0], kinds, "\n".join(lines)))

    in_function = False

    # -- statements ------------------------------------------------------------------------------------------

    def block(self, count, depth):
        body = []
        for _ in range(count):
            body += self.statement(depth)
        return body

    def statement(self, depth):
        kinds = ["define"] * 5 + ["update"] * 3 + ["buffer", "atomic", "approximate", "split"]
        if depth:
            kinds += ["for", "for", "if", "if", "while"]
        return getattr(self, f"_{self.choose(kinds)}")(depth)

    def definition(self, depth):
        kind = self.kind()
        value = self.expr(kind, depth)
        name = self.name("v")
        self.variables[name] = kind
        return Stmt(f"{name} = {{0}}", (value,))

    def _define(self, depth):
        return [self.definition(3)]

    def _update(self, depth):
        names = [n for n in self.variables if n not in self.locked]
        if not names:
            return self._define(depth)
        name = self.choose(names)
        return [Stmt(f"{name} = {{0}}", (self.expr(self.variables[name], 3),))]

    def _scoped(self, count, depth):
        """A body whose new names do not go out of it."""
        outer = dict(self.variables)
        body = tuple(self.block(count, depth))
        self.variables = outer
        return body

    def _for(self, depth):
        index = self.name("i")
        bounds = self.choose(["range(n)", "range(3)", "range(0, m, 7)", "range(n, 0, -3)", "tl.static_range(2)",
                              "tl.static_range(C)", "tl.range(1, n, 2)", "range(n & 3, 4)"])
        outer = dict(self.variables)
        if "static" not in bounds:
            self.variables[index] = Kind("i32")
        self.locked.add(index)
        body = list(self._scoped(self.random.randrange(1, 4), depth - 1))
        if "static" not in bounds and self.chance(0.3):
            word = self.choose(["break", "continue"])
            place = self.random.randrange(len(body) + 1)
            body.insert(place, Stmt("if {0}:", (self._condition(outer),), ((Stmt(word),),)))
        self.variables = outer
        return [Stmt(f"for {index} in {bounds}:", (), (tuple(body),))]

    def _condition(self, variables):
        inner, self.variables = self.variables, variables
        condition = self.expr(Kind("i1"), 2)
        self.variables = inner
        return condition

    def _while(self, depth):
        count = self.name("k")
        condition = self.expr(Kind("i1"), 2)
        self.locked.add(count)
        outer = dict(self.variables)
        self.variables[count] = Kind("i32")
        body = self._scoped(self.random.randrange(1, 3), depth - 1)
        self.variables = outer
        if self.chance(0.5):
            return [Stmt(f"{count} = 0", fixed=True),
                    Stmt(f"while {count} < 3:", (), ((Stmt(f"{count} += 1", fixed=True), *body),))]
        return [Stmt(f"{count} = 0", fixed=True),
                Stmt(f"while ({count} < 4) & ({{0}}):", (condition,), ((Stmt(f"{count} += 1", fixed=True), *body),))]

    def _if(self, depth):
        condition = self.expr(Kind("i1"), 2)
        then = self._scoped(self.random.randrange(1, 3), depth - 1)
        if self.chance(0.4):
            return [Stmt("if {0}:", (condition,), (then,))]
        otherwise = self._scoped(self.random.randrange(1, 3), depth - 1)
        if self.chance(0.5):        # a name that both ways define
            kind, name = self.kind(), self.name("v")
            then = (*then, Stmt(f"{name} = {{0}}", (self.expr(kind, 2),)))
            otherwise = (*otherwise, Stmt(f"{name} = {{0}}", (self.expr(kind, 2),)))
            self.variables[name] = kind
        return [Stmt("if {0}:", (condition,), (then, otherwise), ("else:",))]

    def _buffer(self, depth):
        """A store into the program's own part of a buffer, and a load of it in another order."""
        dtype, buffer = self.choose([("i32", "buffer"), ("fp32", "fbuffer")])
        shape = self.choose(self.shapes)
        kind, name = Kind(dtype, shape), self.name("v")
        value = self.expr(kind, 2)
        place = f"{buffer} + pid * {self.per_program} + "
        store = Stmt(f"tl.store({place}{self.places(shape)}, {{0}}, mask={{1}})",
                     (value, self.expr(Kind("i1", shape), 2)))
        load = Stmt(f"{name} = tl.load({place}{self.places(shape)})")
        self.variables[name] = kind
        return [store, load] if self.chance(0.6) else [load, store]

    def places(self, shape):
        """Distinct offsets of a tile's elements within a program's part of an array, in one of several orders."""
        at, count = offsets(shape), Kind("i32", shape).numel
        room = self.per_program - count
        forms = [at, at, at, f"({count - 1} - {at})", f"({at} + {self.random.randrange(room)})"]
        if 2 * count <= self.per_program:
            forms.append(f"({at} * 2)")
        if len(shape) == 2:
            forms.append(offsets_transposed(shape))
        return self.choose(forms)

    def _atomic(self, depth):
        """Integer atomics that commute, each kind in an array of its own, the results unused."""
        kind, shape = self.choose(ATOMICS), self.choose(self.shapes)
        index = self.expr(Kind("i32", shape), 1)
        value = self.expr(Kind("i32", shape), 2)
        mask = self.expr(Kind("i1", shape), 1)
        return [Stmt(f"tl.atomic_{kind}(count_{kind} + ({{0}} & {COUNTERS - 1}), {{1}}, mask={{2}})",
                     (index, value, mask))]

    def _split(self, depth):
        dtype = self.choose(self.dtypes)
        pair = self.expr(Kind(dtype, self.shapes[7]), 2)
        first, second = self.name("v"), self.name("v")
        half = Kind(dtype, self.shapes[7][:-1])
        self.variables[first] = self.variables[second] = half
        return [Stmt(f"{first}, {second} = tl.split({{0}})", (pair,))]

    def _approximate(self, depth):
        """A value of an inexact operation, and where it needs one, the bound of its error; both are outputs."""
        if depth < TOP:             # the names have to exist at the end
            return self._define(depth)
        dtype, shape = self.choose(["fp32", "fp32", "fp64"]), self.choose(self.shapes[1:])
        name, bound = self.name("w"), self.name("w")
        x = self.tame(Kind(dtype, shape))
        kind = self.choose(["sum", "scan", "dot", "exp", "log", "sin", "sqrt", "division", "sigmoid", "tanh"])
        if kind == "dot":
            return self._approximate_dot(name, bound)
        if kind in ("sum", "scan"):
            axis = self.random.randrange(len(shape))
            call = f"tl.{'sum' if kind == 'sum' else 'cumsum'}({{}}, axis={axis})"
            left = shape if kind == "scan" else shape[:axis] + shape[axis + 1:]
            result = Kind(dtype, left)
            self.outputs += [Output(bound, result, dtype), Output(name, result, dtype, bound=bound)]
            return [Stmt(f"{name} = {call.format('{0}')}", (x,), fixed=False),
                    Stmt(f"{bound} = {call.format('tl.abs({0})')}", (x,))]
        forms = {"exp": "tl.exp({0})", "log": "tl.log(tl.abs({0}) + 0.5)", "sin": "tl.sin({0})",
                 "sqrt": "tl.sqrt(tl.abs({0}))", "division": "({0} / (tl.abs({0}) + 1.5))",
                 "sigmoid": "tl.sigmoid({0})", "tanh": "tl.exp2({0})"}
        self.outputs.append(Output(name, Kind(dtype, shape), dtype, ulps=8.0))
        return [Stmt(f"{name} = {forms[kind]}", (x,))]

    def _approximate_dot(self, name, bound):
        m, k, n = (self.choose(self.sides) for _ in range(3))
        left, right = self.tame(Kind("fp32", (m, k))), self.tame(Kind("fp32", (k, n)))
        self.outputs += [Output(bound, Kind("fp32", (m, n)), "fp32"),
                         Output(name, Kind("fp32", (m, n)), "fp32", bound=bound)]
        return [Stmt(f"{name} = tl.dot({{0}}, {{1}}, input_precision='ieee')", (left, right)),
                Stmt(f"{bound} = tl.dot(tl.abs({{0}}), tl.abs({{1}}), input_precision='ieee')", (left, right))]

    def tame(self, kind):
        """A float of moderate size that is no NaN."""
        x = self.expr(kind, 1)
        return Expr(kind, "tl.where(tl.abs({0}) < 64.0, {0}, 1.25)", (x,))

    # -- expressions -----------------------------------------------------------------------------------------

    def expr(self, kind, depth) -> Expr:
        """A random expression of this kind."""
        if depth <= 0:
            return self.leaf(kind)
        makers = [self.leaf, self.where, self.cast]
        if kind.dtype == "i1":
            makers += [self.compare, self.compare, self.logic]
        elif kind.dtype in INTS:
            makers += [self.int_binary] * 4 + [self.int_unary, self.int_special, self.dot_int]
        else:
            makers += [self.float_binary] * 4 + [self.float_unary, self.float_special, self.dot_float]
        if kind.shape:
            makers += [self.broadcast, self.rearrange, self.rearrange, self.scan, self.gather]
        makers += [self.reduce, self.reduce, self.call]
        for _ in range(12):
            made = self.choose(makers)(kind, depth - 1)
            if made is not None:
                return made
        return self.leaf(kind)

    def leaf(self, kind, depth=0):
        names = [n for n, k in self.variables.items() if k == kind]
        if names and self.chance(0.6):
            return Expr(kind, self.choose(names[-5:]))
        if self.in_function:
            same = [n for n, k in self.variables.items() if k.shape == kind.shape]
            if same and kind.dtype not in FLOATS and self.variables[same[0]].dtype in INTS:
                return Expr(kind, f"{same[0]}.to({spelled(kind.dtype)})")
            return self.constant(kind)
        if self.chance(0.15):
            return self.constant(kind)
        if not kind.shape and kind.dtype in INTS:
            return Expr(kind, f"({self.choose(['pid', 'n', 'm', 'tl.num_programs(0)', 'pid * n', 'm - pid', 'C'])}"
                              f" + {self.random.randrange(3)} + pid * 0).to({spelled(kind.dtype)})")
        if len(kind.shape) == 1 and kind.dtype in INTS and self.chance(0.3):
            return Expr(kind, f"r{kind.shape[0]}.to({spelled(kind.dtype)})")
        return self.load(kind)

    def constant(self, kind):
        number = self.random.randrange(0, 100)
        if kind.dtype == "i1":
            return Expr(kind, f"(tl.full({kind.shape}, {number % 2}, tl.int32) != 0)")
        if kind.dtype in FLOATS:
            text = self.choose(["0.0", "-0.0", "1.5", "-2.0", "float('inf')", "0.1", "1e-5", "1024.0"])
        else:
            text = str(number if kind.dtype[0] == "u" else number - 50)
        return Expr(kind, f"tl.full({kind.shape}, {text}, {spelled(kind.dtype)})")

    def load(self, kind):
        dtype = kind.dtype if kind.dtype in INPUTS else {"bf16": "fp32", "i1": "u8", "u64": "i64"}[kind.dtype]
        self.inputs.add(dtype)
        place = f"in_{dtype} + pid * {self.per_program} + {self.places(kind.shape)}"
        if kind.shape and self.chance(0.5):
            at = offsets(kind.shape)
            mask = self.choose([f"{at} < n", f"{at} >= m", f"({at} & 1) == 0", f"{at} < {kind.numel - 1}", "n > 3"])
            if self.chance(0.4):
                return self.converted(Kind(dtype, kind.shape), kind, Expr(
                    Kind(dtype, kind.shape), f"tl.load({place}, mask=({mask}), other={{0}})",
                    (self.constant(Kind(dtype, kind.shape)),)))
            other = self.choose(["0", "1"]) if dtype in INTS else "-1.5"
            text = f"tl.load({place}, mask=({mask}), other={other})"
        else:
            text = f"tl.load({place})"
        return self.converted(Kind(dtype, kind.shape), kind, Expr(Kind(dtype, kind.shape), text))

    def converted(self, have, want, value):
        """`value` as another dtype of the same shape, floats brought into range before they become integers."""
        if have.dtype == want.dtype:
            return value
        if want.dtype == "i1":
            return Expr(want, "({0} != 0)", (value,))
        to = spelled(want.dtype)
        if have.dtype in FLOATS and want.dtype in INTS:
            low = "0.0" if want.dtype[0] == "u" else "-100.0"
            return Expr(want, f"tl.where(({{0}} > {low}) & ({{0}} < 100.0), {{0}}, 3.0).to({to})", (value,))
        return Expr(want, f"{{0}}.to({to})", (value,))

    def where(self, kind, depth):
        condition = self.expr(Kind("i1", kind.shape if self.chance(0.7) else ()), depth)
        return Expr(kind, "tl.where({0}, {1}, {2})", (condition, self.expr(kind, depth), self.expr(kind, depth)))

    def cast(self, kind, depth):
        other = Kind(self.choose(self.dtypes), kind.shape)
        if other.dtype == kind.dtype:
            return None
        if other.dtype in FLOATS and kind.dtype in FLOATS and self.chance(0.3):
            narrow = self.choose(["fp8e5", "fp8e4nv"])
            return Expr(kind, f"{{0}}.to({spelled(narrow)}).to({spelled(kind.dtype)})", (self.expr(other, depth),))
        return self.converted(other, kind, self.expr(other, depth))

    def operands(self, kind, depth):
        """Two operands of a binary operation: one may be a scalar, a number, or of another dtype of the same sort."""
        shape = () if kind.shape and self.chance(0.25) else kind.shape
        left, right = self.expr(kind, depth), self.expr(Kind(kind.dtype, shape), depth)
        if self.chance(0.2):
            right = Expr(Kind(kind.dtype), "1.5" if kind.dtype in FLOATS else str(self.random.randrange(1, 9)))
        return (left, right) if self.chance(0.5) or not right.parts else (left, right)

    def int_binary(self, kind, depth):
        left, right = self.operands(kind, depth)
        bits = int(kind.dtype[1:])
        to = spelled(kind.dtype)
        form = self.choose(["({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} & {1})", "({0} | {1})", "({0} ^ {1})",
                            "tl.minimum({0}, {1})", "tl.maximum({0}, {1})", "//", "%", "<<", ">>", "mixed"])
        if form in ("//", "%"):
            return Expr(kind, f"({{0}} {form} (({{1}} & 7) + 1)).to({to})", (left, right))
        if form in ("<<", ">>"):
            return Expr(kind, f"({{0}} {form} ({{1}} & {bits - 1})).to({to})", (left, right))
        if form == "mixed":
            other = self.expr(Kind(self.choose(INTS), kind.shape), depth)
            return Expr(kind, f"({{0}} {self.choose(['+', '*', '^', '-'])} {{1}}).to({to})", (left, other))
        return Expr(kind, form, (left, right))

    def int_unary(self, kind, depth):
        form = self.choose(["(-{0})", "(~{0})", "tl.abs({0})"])
        if kind.dtype[0] == "u" and form != "(~{0})":
            form = "(~{0})"
        return Expr(kind, form, (self.expr(kind, depth),))

    def int_special(self, kind, depth):
        if kind.dtype in ("i32", "u32", "i64", "u64") and self.chance(0.5):
            return Expr(kind, "tl.umulhi({0}, {1})", (self.expr(kind, depth), self.expr(kind, depth)))
        dtype = self.choose(["fp32", "fp16", "i8", "u16"])
        return self.converted(Kind(dtype, kind.shape), kind, self.expr(Kind(dtype, kind.shape), depth))

    def float_binary(self, kind, depth):
        left, right = self.operands(kind, depth)
        form = self.choose(["({0} + {1})", "({0} - {1})", "({0} * {1})", "tl.minimum({0}, {1})",
                            "tl.maximum({0}, {1})", "nan-min", "mixed", "({0} + {1} * {0})"])
        if form == "nan-min":
            form = (f"tl.{self.choose(['minimum', 'maximum'])}({{0}}, {{1}}, "
                    "propagate_nan=tl.PropagateNan.ALL)")
        if form == "mixed":
            other = self.expr(Kind(self.choose((*FLOATS, "i16", "u8")), kind.shape), depth)
            return Expr(kind, f"({{0}} {self.choose(['+', '*', '-'])} {{1}}).to({spelled(kind.dtype)})", (left, other))
        return Expr(kind, form, (left, right))

    def float_unary(self, kind, depth):
        forms = ["(-{0})", "tl.abs({0})"]
        if kind.dtype in ("fp32", "fp64"):
            forms += ["tl.floor({0})", "tl.ceil({0})"]
        if kind.dtype == "fp32":
            forms.append("tl.sqrt_rn({0})")
        return Expr(kind, self.choose(forms), (self.expr(kind, depth),))

    def float_special(self, kind, depth):
        if kind.dtype == "fp32" and self.chance(0.3):
            return Expr(kind, "tl.div_rn({0}, {1})", (self.expr(kind, depth), self.expr(kind, depth)))
        if self.chance(0.4):
            return Expr(kind, "tl.fma({0}, {1}, {2})", tuple(self.expr(kind, depth) for _ in range(3)))
        return Expr(kind, "tl.clamp({0}, -8.0, 12.0)" if kind.dtype != "fp64" else "tl.maximum({0}, 0.5)",
                    (self.expr(kind, depth),))

    def compare(self, kind, depth):
        other = Kind(self.choose(self.dtypes[:-1]), kind.shape)
        left, right = self.operands(other, depth)
        return Expr(kind, f"({{0}} {self.choose(['<', '<=', '>', '>=', '==', '!='])} {{1}})", (left, right))

    def logic(self, kind, depth):
        if self.chance(0.2):
            return Expr(kind, "({0} == 0)", (self.expr(Kind("i32", kind.shape), depth),))
        return Expr(kind, f"({{0}} {self.choose(['&', '|', '^'])} {{1}})",
                    (self.expr(kind, depth), self.expr(kind, depth)))

    def dot_int(self, kind, depth):
        """An exact product of bytes."""
        if kind.dtype != "i32" or len(kind.shape) != 2:
            return None
        k = self.choose(self.sides)
        left = self.expr(Kind("i8", (kind.shape[0], k)), depth)
        return Expr(kind, "tl.dot({0}, {1})", (left, self.expr(Kind("i8", (k, kind.shape[1])), depth)))

    def dot_float(self, kind, depth):
        """A product of small integers in a float format, which is exact in any order."""
        if kind.dtype != "fp32" or len(kind.shape) != 2:
            return None
        k, format_ = self.choose(self.sides), self.choose(["fp16", "bf16", "fp32"])
        parts = [Expr(Kind(format_, s), f"({{0}} & 15).to({spelled(format_)})", (self.expr(Kind("i32", s), depth),))
                 for s in ((kind.shape[0], k), (k, kind.shape[1]))]
        if self.chance(0.3):
            acc = Expr(kind, "({0} & 255).to(tl.float32)", (self.expr(Kind("i32", kind.shape), depth),))
            return Expr(kind, "tl.dot({0}, {1}, {2})", (*parts, acc))
        return Expr(kind, "tl.dot({0}, {1})", tuple(parts))

    def broadcast(self, kind, depth):
        shape = kind.shape
        if len(shape) == 1 or self.chance(0.3):
            return Expr(kind, f"tl.broadcast_to({{0}}, {shape})", (self.expr(Kind(kind.dtype), depth),))
        axis = self.random.randrange(len(shape))
        small = shape[axis]
        index = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        if (small,) not in self.shapes:
            return None
        return Expr(kind, f"tl.broadcast_to({{0}}[{index}], {shape})", (self.expr(Kind(kind.dtype, (small,)), depth),))

    def rearrange(self, kind, depth):
        shape = kind.shape
        way = self.random.randrange(5)
        if way == 0 and len(shape) == 2:
            return Expr(kind, "tl.trans({0})", (self.expr(Kind(kind.dtype, shape[::-1]), depth),))
        if way == 1 and len(shape) == 3:
            order = list(range(3))
            self.random.shuffle(order)
            before = [0, 0, 0]
            for i, o in enumerate(order):
                before[o] = shape[i]
            return Expr(kind, f"tl.permute({{0}}, {tuple(order)})", (self.expr(Kind(kind.dtype, tuple(before)), depth),))
        if way == 2:
            same = [s for s in self.shapes if s and s != shape and Kind("i32", s).numel == kind.numel]
            if same:
                return Expr(kind, f"tl.reshape({{0}}, {shape})", (self.expr(Kind(kind.dtype, self.choose(same)), depth),))
        if way == 3 and shape[-1] == 2 and len(shape) > 1:
            half = Kind(kind.dtype, shape[:-1])
            return Expr(kind, "tl.join({0}, {1})", (self.expr(half, depth), self.expr(half, depth)))
        if way == 4 and len(shape) == 1 and shape[0] % 2 == 0:
            half = Kind(kind.dtype, (shape[0] // 2,))
            self.sizes.add(shape[0] // 2)
            return Expr(kind, "tl.interleave({0}, {1})", (self.expr(half, depth), self.expr(half, depth)))
        return None

    def reduce(self, kind, depth):
        """A reduction over one axis of a tile of a known shape."""
        wider = [(s, a) for s in self.shapes for a in range(len(s)) if s[:a] + s[a + 1:] == kind.shape]
        if not wider:
            return None
        shape, axis = self.choose(wider)
        whole = Kind(kind.dtype, shape)
        if kind.dtype == "i1":
            return Expr(kind, f"(tl.max({{0}}.to(tl.int32), axis={axis}) > 0)", (self.expr(whole, depth),))
        to = spelled(kind.dtype)
        if kind.dtype in FLOATS:
            form = self.choose(["max", "min"])
            if kind.dtype == "fp32" and self.chance(0.3):
                small = Expr(whole, "({0} & 63).to(tl.float32)", (self.expr(Kind("i32", shape), depth),))
                return Expr(kind, f"tl.sum({{0}}, axis={axis})", (small,))
            return Expr(kind, f"tl.{form}({{0}}, axis={axis}).to({to})", (self.expr(whole, depth),))
        form = self.choose(["sum", "max", "min", "xor_sum", "argmax", "argmin"])
        if form.startswith("arg"):
            whole = Kind(self.choose(("i32", "fp32")), shape)
        return Expr(kind, f"tl.{form}({{0}}, axis={axis}).to({to})", (self.expr(whole, depth),))

    def scan(self, kind, depth):
        if kind.dtype not in INTS:
            return None
        axis = self.random.randrange(len(kind.shape))
        reverse = ", reverse=True" if self.chance(0.4) else ""
        return Expr(kind, f"tl.{self.choose(['cumsum', 'cumprod'])}({{0}}, axis={axis}{reverse})"
                          f".to({spelled(kind.dtype)})", (self.expr(kind, depth),))

    def gather(self, kind, depth):
        if len(kind.shape) != 1:
            return None
        source = self.choose([s for s in self.shapes if len(s) == 1])
        index = self.expr(Kind("i32", kind.shape), depth)
        return Expr(kind, f"tl.gather({{0}}, ({{1}} & 1023) % {source[0]}, 0)",
                    (self.expr(Kind(kind.dtype, source), depth), index))

    def call(self, kind, depth):
        fitting = [f for f in self.functions if f[1] == kind]
        if not fitting or self.in_function:
            return None
        name, _, kinds, _ = self.choose(fitting)
        return Expr(kind, f"{name}({{0}}, {{1}})", tuple(self.expr(k, depth) for k in kinds))


def offsets_transposed(shape):
    """The offsets of a matrix stored by columns."""
    return f"(r{shape[0]}[:, None] + r{shape[1]}[None, :] * {shape[0]})"


def _storage(dtype):
    return {"i1": "i8", "bf16": "fp32"}.get(dtype, dtype)


def generate(seed: int, statements: int = 9) -> Program:
    """The program of a seed."""
    return Maker(seed, statements).program()
