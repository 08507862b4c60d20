"""Random well-typed kernels.

Every expression has a type that the generator knows, and is defined for all inputs: divisors are positive, shifts are
below the width, floats are brought into range before they become integers, indices are reduced into their array.  So a
kernel that is refused, and engines that disagree, are findings.  Values of inexact operations are stored at once, with
a bound, and never used again: all else is compared bit for bit.
"""

from __future__ import annotations

import random

from tests.fuzz.expressions import FLOATS, INTS, Expressions
from tests.fuzz.products import BLOCK_NUMBERS, Products
from tests.fuzz.trees import Kind, Output, Program, Stmt

SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 33)
ATOMICS = ("add", "max", "min", "and", "or", "xor")
COUNTERS = 8
TOP = 2            # how deep blocks may nest below the kernel's own


class Maker(Products, Expressions):
    """Grows one program."""

    def __init__(self, seed: int, statements: int = 6, crowded: bool = True) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.fresh = 0
        self.statements = statements
        self.crowded = crowded
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
        self.has_blocks = False                 # whether products of blocks in memory are made

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
                               *((f"count_{k}", "i32", COUNTERS) for k in ATOMICS),
                               *((("blocks", "fp16", BLOCK_NUMBERS),) if self.has_blocks else ())))

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

    # -- statements ------------------------------------------------------------------------------------------

    def block(self, count, depth):
        body = []
        for _ in range(count):
            body += self.statement(depth)
        return body

    def statement(self, depth):
        kinds = ["define"] * 4 + ["update"] * 3 + ["buffer"] * 4
        kinds += ["in_place", "atomic", "approximate", "split", "alias", "swap"]
        if depth:
            kinds += ["for", "for", "if", "if", "while", "products", "blocks", "exchange"]
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

    def _alias(self, depth):
        """A second name of a value, and one of them changes: loops may not put both into one buffer."""
        names = [n for n in self.variables if n not in self.locked]
        if not names:
            return self._define(depth)
        old, name = self.choose(names), self.name("v")
        self.variables[name] = self.variables[old]
        changed = self.choose([old, name])
        return [Stmt(f"{name} = {old}"), Stmt(f"{changed} = {{0}}", (self.expr(self.variables[old], 2),))]

    def _swap(self, depth):
        """Two variables that become each other, one of them moved about: neither may be overwritten too early."""
        pairs = [(a, b) for a in self.variables for b in self.variables
                 if a != b and not {a, b} & self.locked and self.variables[a] == self.variables[b]]
        if not pairs:
            return self._define(depth)
        a, b = self.choose(pairs)
        shape = self.variables[a].shape
        ways = ["{0}"]
        if len(shape) == 2 and shape[0] == shape[1]:
            ways += ["tl.trans({0})"] * 3
        if len(shape) == 1:
            ways += [f"tl.gather({{0}}, {shape[0] - 1} - r{shape[0]}, 0)"] * 2
        return [Stmt(f"{a}, {b} = {self.choose(ways).format(b)}, {self.choose(ways).format(a)}")]

    def _exchange(self, depth):
        """A loop whose variables are exchanged or moved about at the end of each round."""
        shape = self.choose([s for s in self.shapes if len(s) == 1] + [(n, n) for n in self.sides])
        kind, (a, b), index = Kind(self.choose(self.dtypes), shape), (self.name("v"), self.name("v")), self.name("i")
        tiles = [(n, k) for n, k in self.variables.items()
                 if k.shape and (len(k.shape) == 1 or k.shape[:1] == k.shape[1:])]
        if tiles and self.chance(0.5):      # one that is needed afterwards as well
            old, kind = self.choose(tiles)
            shape, first = kind.shape, Stmt(f"{a} = {old}")
        else:
            first = Stmt(f"{a} = {{0}}", (self.expr(kind, 2),))
        starts = [first,
                  Stmt(f"{b} = {a}") if self.chance(0.4) else Stmt(f"{b} = {{0}}", (self.expr(kind, 2),))]
        self.variables[a] = self.variables[b] = kind
        self.locked.add(index)
        body = (*self._scoped(self.random.randrange(2), depth - 1), *self._swap_of(a, b, shape))
        return [*starts, Stmt(f"for {index} in range({self.choose(['n', '3', 'm & 3'])}):", (), (body,))]

    def _swap_of(self, a, b, shape):
        moved = "tl.trans({})" if len(shape) == 2 else f"tl.gather({{}}, {shape[0] - 1} - r{shape[0]}, 0)"
        form = self.choose([f"{a}, {b} = {b}, {moved.format(a)}", f"{a}, {b} = {moved.format(b)}, {moved.format(a)}",
                            f"{a} = {moved.format(a)}", f"{a}, {b} = {b}, {a}"])
        return [Stmt(form)]

    def _scoped(self, count, depth):
        """A body whose new names do not go out of it."""
        outer = dict(self.variables)
        body = tuple(self.block(count, depth))
        self.variables = outer
        return body

    def _for(self, depth):
        index = self.name("i")
        bounds = self.choose(["range(n)", "range(3)", "range(0, m, 7)", "range(n, 0, -3)", "tl.static_range(2)",
                              "tl.static_range(C)", "tl.range(1, n, 2)", "range(n & 3, 4)", "range(5, 0, -2)"])
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
            return [Stmt(f"{count} = 0"),
                    Stmt(f"while {count} < 3:", (), ((Stmt(f"{count} += 1", fixed=True), *body),))]
        return [Stmt(f"{count} = 0"),
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
        kind, mask, name = Kind(dtype, shape), Kind("i1", shape), self.name("v")
        value = self.expr(kind, 2)
        place = f"{buffer} + pid * {self.per_program} + "
        where = self.crowded_places(shape) if self.chance(0.25) and self.crowded else self.places(shape)
        store = Stmt(f"tl.store({place}{where}, {{0}}, mask={{1}})",
                     (value, self.constant(mask) if self.chance(0.2) else self.expr(mask, 2)))
        load = Stmt(f"{name} = tl.load({place}{self.places(shape)})")
        self.variables[name] = kind
        if self.chance(0.4):
            return [store, load]
        updated = Stmt(f"{name} = {{0}}", (self.expr(kind, 2),))        # what was loaded is needed after the store
        if depth and self.chance(0.5):
            store = self.choose([Stmt("if {0}:", (self._condition(self.variables),), ((store,),)),
                                 Stmt(f"for {self.name('i')} in range({self.choose(['n', '2'])}):", (), ((store,),))])
        return [load, store, updated]

    def _in_place(self, depth):
        """What is at some places, some of them equal, changes by what was there before any of them changed."""
        dtype, buffer, ways = self.choose([("i32", "buffer", "+^-"), ("fp32", "fbuffer", "+-")])
        shape = self.choose([s for s in self.shapes if s])
        crowded = self.chance(0.6) and self.crowded
        place = f"{buffer} + pid * {self.per_program} + "
        place += self.crowded_places(shape) if crowded else self.places(shape)
        changed = f"tl.load({place}) {self.choose(ways)} {{0}}"
        return [Stmt(f"tl.store({place}, {changed})", (self.expr(Kind(dtype, shape), 2),))]

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
        halves = Stmt(f"{first}, {second} = tl.split({{0}})", (pair,))
        if self.chance(0.5):
            return [halves]
        name = self.name("v")
        self.variables[name] = pair.kind
        order = self.choose([f"{first}, {second}", f"{second}, {first}"])
        return [halves, Stmt(f"{name} = tl.join({order})")]

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


def _storage(dtype):
    return {"i1": "i8", "bf16": "fp32"}.get(dtype, dtype)


def generate(seed: int, statements: int = 6, crowded: bool = True) -> Program:
    """The program of a seed; `crowded`: with stores of several elements to one place, which GPUs do in any order."""
    return Maker(seed, statements, crowded).program()
