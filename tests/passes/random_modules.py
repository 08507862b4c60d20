"""Random small modules: typed ops, memory, loops and branches, of values that are often constant, equal or uniform.

Accesses are in bounds of `executing.run_on_random_memory` whatever the values are: offsets are masked.
"""

from __future__ import annotations

import random

from tilewright.ir.build import Builder
from tilewright.ir.node import Block, Function, Module, ParamFacts, Value
from tilewright.ir.types import F16, F32, I1, I8, I32, I64, Pointer, Scalar, Tile, Type, element_of, shape_of

SHAPES = ((), (), (8,), (6,), (2, 4), (1, 8), (8, 1))
INTS = (I32, I32, I32, I64, I8)
INT_OPS = ("add", "add", "sub", "mul", "and", "or", "xor", "div_s", "div_u", "rem_s", "rem_u", "shl", "shr_s", "shr_u",
           "min_s", "max_s", "min_u", "max_u", "mulhi_u")
FLOAT_OPS = ("add_f", "sub_f", "mul_f", "max_f", "min_f", "max_nan_f", "min_nan_f", "div_rn")
FLOAT_UNARY = ("neg_f", "abs_f", "floor", "ceil")
COMPARE = ("cmp_eq", "cmp_ne", "cmp_lt_s", "cmp_ge_s", "cmp_gt_s", "cmp_le_s", "cmp_lt_u", "cmp_ge_u", "cmp_gt_u")
FLOAT_COMPARE = ("cmp_olt", "cmp_oeq", "cmp_une", "cmp_oge")
NUMBERS = (0, 1, -1, 2, 3, 4, 7, 8, 12, 16, 31, 32, -8, 100, 127)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.25)


def tiled(shape: tuple[int, ...], element: Scalar | Pointer) -> Type:
    return Tile(shape, element) if shape else element


class Generator:
    def __init__(self, seed: int, size: int = 25) -> None:
        self.rng = random.Random(seed)
        self.size = size
        self.k = Builder()
        self.pool: list[Value] = []
        self.depth = 0

    def module(self) -> Module:
        params = [Value(Pointer(I32), "p"), Value(Pointer(F32), "q"), Value(I32, "n"), Value(I32, "m"),
                  Value(F32, "x"), Value(I1, "flag")]
        self.pointers = params[:2]
        self.pool += params[2:]
        with self.k.block() as ops:
            self.statements(self.size)
            for value in self.pool[-6:]:
                self.store(value)
            self.k.create("return", [])
        facts = tuple(ParamFacts(d) for d in (16, 16, self.rng.choice((1, 2)), 1, 1, 1))
        function = Function("k", tuple(p.hint for p in params), Block(tuple(params), tuple(ops)), (), facts)
        return Module("k", {"k": function}, disjoint=True, wide=self.rng.random() < 0.5)

    def one(self, name, *operands, regions=(), **attrs) -> Value:
        (result,) = self.k.create(name, operands, attrs, regions)
        return result

    def statements(self, count: int) -> None:
        kinds = [self.arithmetic] * 10 + [self.compare, self.select, self.cast, self.rearrange, self.rearrange,
                                          self.load, self.load, self.store_something, self.reduce, self.constant]
        if self.depth < 2:
            kinds += [self.loop, self.loop, self.branch, self.countdown]
        for _ in range(count):
            value = self.rng.choice(kinds)()
            if value is not None:
                self.pool.append(value)

    # Values of a type

    def constant(self, t: Type | None = None) -> Value:
        t = t if t is not None else tiled(self.rng.choice(SHAPES), self.rng.choice((*INTS, F32)))
        element = element_of(t)
        if element.is_float:
            value = self.rng.choice(FLOATS)
        elif element == I1:
            value = self.rng.random() < 0.5
        else:
            value = self.rng.choice(NUMBERS)
        scalar = self.one("constant", value=value, type=element)
        return self.one("splat", scalar, shape=shape_of(t)) if shape_of(t) else scalar

    def of(self, t: Type) -> Value:
        """A value of type `t`: one that there is, a splat of one, an iota, or a constant."""
        have = [v for v in self.pool if v.type == t]
        choice = self.rng.random()
        if have and choice < 0.65:
            return self.rng.choice(have)
        scalars = [v for v in self.pool if v.type == element_of(t)]
        if shape_of(t) and scalars and choice < 0.85:
            return self.one("splat", self.rng.choice(scalars), shape=shape_of(t))
        if isinstance(t, Tile) and t.element == I32 and t.rank == 1 and choice < 0.97:
            start = self.rng.choice((0, 0, 4, 5))
            return self.one("iota", start=start, end=start + t.shape[0])
        if t == I32 and choice < 0.9:
            return self.one("program_id", axis=self.rng.choice((0, 1)))
        return self.constant(t)

    def shape(self) -> tuple[int, ...]:
        return self.rng.choice(SHAPES)

    # Statements

    def arithmetic(self) -> Value:
        if self.rng.random() < 0.7:
            element = self.rng.choice((*INTS, I1))
            t = tiled(self.shape(), element)
            names = ("and", "or", "xor") if element == I1 else INT_OPS
            return self.one(self.rng.choice(names), self.of(t), self.of(t))
        t = tiled(self.shape(), F32)
        if self.rng.random() < 0.3:
            return self.one(self.rng.choice(FLOAT_UNARY), self.of(t))
        return self.one(self.rng.choice(FLOAT_OPS), self.of(t), self.of(t))

    def compare(self) -> Value:
        if self.rng.random() < 0.75:
            t = tiled(self.shape(), I32)
            return self.one(self.rng.choice(COMPARE), self.of(t), self.of(t))
        t = tiled(self.shape(), F32)
        return self.one(self.rng.choice(FLOAT_COMPARE), self.of(t), self.of(t))

    def select(self) -> Value:
        shape = self.shape()
        t = tiled(shape, self.rng.choice((I32, F32, I1)))
        return self.one("select", self.of(tiled(shape, I1)), self.of(t), self.of(t))

    def cast(self) -> Value:
        shape = self.shape()
        name, source, target = self.rng.choice((
            ("ext_s", I32, I64), ("ext_u", I32, I64), ("ext_s", I8, I32), ("ext_u", I8, I32), ("ext_u", I1, I32),
            ("ext_s", I1, I32), ("trunc", I64, I32), ("trunc", I32, I8), ("trunc", I32, I1), ("trunc", I64, I8),
            ("int_to_fp_s", I32, F32), ("int_to_fp_u", I8, F32), ("fp_trunc", F32, F16), ("fp_ext", F16, F32),
            ("fp_to_int_s", F32, I32)))
        return self.one(name, self.of(tiled(shape, source)), to=target)

    def rearrange(self) -> Value:
        element = self.rng.choice((I32, F32, I1))
        kind = self.rng.randrange(6)
        if kind == 0:
            return self.one("expand_dims", self.of(tiled((8,), element)), axis=self.rng.choice((0, 1)))
        if kind == 1:
            x = self.of(tiled(self.rng.choice(((1, 8), (8, 1))), element))
            return self.one("broadcast", x, shape=(8, 8))
        if kind == 2:
            x = self.of(tiled(self.rng.choice(((2, 4), (8,), (1, 8), (8, 1))), element))
            return self.one("reshape", x, shape=self.rng.choice(((2, 4), (8,), (1, 8), (8, 1), (4, 2))))
        if kind == 3:
            return self.one("permute", self.of(tiled((2, 4), element)), order=self.rng.choice(((0, 1), (1, 0))))
        if kind == 4:
            t = tiled((8,), element)
            return self.one("cat", self.of(t), self.of(t), axis=0)
        t = tiled((8,), element)
        joined = self.one("join", self.of(t), self.of(t))
        self.pool.append(joined)
        return self.k.create("split", [joined])[self.rng.choice((0, 1))]

    def address(self, pointer: Value, shape: tuple[int, ...]) -> Value:
        t = tiled(shape, I32)
        mask = self.one("constant", value=self.rng.choice((63, 127, 60)), type=I32)
        mask = self.one("splat", mask, shape=shape) if shape else mask
        offset = self.one("and", self.of(t), mask)
        base = self.one("splat", pointer, shape=shape) if shape else pointer
        return self.one("ptr_add", base, offset)

    def load(self) -> Value:
        pointer, shape = self.rng.choice(self.pointers), self.shape()
        at = self.address(pointer, shape)
        if self.rng.random() < 0.4:
            return self.one("load", at)
        mask = self.of(tiled(shape, I1))
        if self.rng.random() < 0.5:
            return self.one("load", at, mask, has_mask=True)
        return self.one("load", at, mask, self.of(tiled(shape, pointer.type.element)), has_mask=True, has_other=True)

    def store_something(self) -> None:
        self.store(self.rng.choice(self.pool))

    def store(self, value: Value) -> None:
        """Each program has lanes of its own, so that the order of programs does not matter."""
        element, shape = element_of(value.type), shape_of(value.type)
        if element == F16:
            value = self.one("fp_ext", value, to=F32)
        elif element.is_int and element.bits < 32:
            value = self.one("ext_u", value, to=I32)
        elif element == I64:
            value = self.one("trunc", value, to=I32)
        pointer = self.pointers[1 if element.is_float else 0]
        pid = self.one("add", self.one("program_id", axis=0),
                       self.one("mul", self.one("program_id", axis=1), self.one("constant", value=3, type=I32)))
        start = self.one("mul", pid, self.one("constant", value=128, type=I32))
        start = self.one("add", start, self.one("constant", value=130, type=I32))
        if not shape:
            self.k.create("store", [self.one("ptr_add", pointer, start), value])
            return
        flat = 1
        for s in shape:
            flat *= s
        lanes = self.one("reshape", self.one("iota", start=0, end=flat), shape=shape)
        at = self.one("add", self.one("splat", start, shape=shape), lanes)
        where = self.one("ptr_add", self.one("splat", pointer, shape=shape), at)
        self.k.create("store", [where, value])

    def reduce(self) -> Value:
        element = self.rng.choice((I32, F32))
        t = tiled(self.rng.choice(((8,), (6,), (2, 4))), element)
        name = self.rng.choice(("add", "max_s", "xor") if element == I32 else ("max_f", "min_f"))

        def combine(a: Value, b: Value) -> list[Value]:
            c = self.one("constant", value=3, type=I32) if element == I32 else self.one("constant", value=0.5, type=F32)
            return [self.one(name, self.one("max_s" if element == I32 else "max_f", a, c), b)]

        region = self.k.region([element, element], combine)
        return self.one("reduce", self.of(t), axis=self.rng.randrange(len(shape_of(t))), regions=[region])

    # Control flow

    def inside(self, count: int) -> None:
        self.depth += 1
        self.statements(count)
        self.depth -= 1

    def carried_types(self) -> list[Type]:
        return [tiled(self.shape(), self.rng.choice((I32, I32, F32, I64))) for _ in range(self.rng.randrange(4))]

    def next_values(self, types: list[Type], carried: tuple[Value, ...]) -> list[Value]:
        """What an iteration yields: the carried value advanced by a scalar, as it is, or anything."""
        results = []
        for t, arg in zip(types, carried):
            scalar = tiled((), element_of(t))
            if element_of(t).is_int and self.rng.random() < 0.4:
                advance = self.one("splat", self.of(scalar), shape=shape_of(t)) if shape_of(t) else self.of(scalar)
                results.append(self.one(self.rng.choice(("add", "add", "sub")), arg, advance))
            else:
                results.append(arg if self.rng.random() < 0.2 else self.of(t))
        return results

    def loop(self) -> None:
        bounds = [self.of(I32), self.of(I32), self.one("constant", value=self.rng.choice((1, 2, 3, -1)), type=I32)]
        # few iterations: upper = lower + (x & 3) * step
        three = self.one("constant", value=3, type=I32)
        trips = self.one("mul", self.one("and", bounds[1], three), bounds[2])
        bounds[1] = self.one("add", bounds[0], trips)
        types = self.carried_types()
        inits = [self.of(t) for t in types]
        tile = Tile((8,), Pointer(I32))
        inits.append(self.address(self.pointers[0], (8,)))
        step = self.of(I32)
        known = len(self.pool)

        def body(index: Value, *carried: Value) -> list[Value]:
            *numbers, at = carried
            self.pool += [index, *numbers]
            self.inside(5)
            mask = self.one("splat", self.one("constant", value=31, type=I32), shape=(8,))
            self.pool.append(self.one("load", at))
            results = self.next_values(types, numbers)
            small = self.one("and", self.one("splat", step, shape=(8,)), mask)
            return [*results, self.one("ptr_add", at, small)]

        region = self.k.region([I32, *types, tile], body)
        del self.pool[known:]
        *results, at = self.k.create("for", [*bounds, *inits], regions=[region])
        self.pool += results
        self.pool.append(self.one("load", at))

    def branch(self) -> None:
        types = self.carried_types()
        flag = self.of(I1)
        regions = []
        for _ in range(2):
            known = len(self.pool)

            def body() -> list[Value]:
                self.inside(4)
                return [self.of(t) for t in types]

            regions.append(self.k.region([], body))
            del self.pool[known:]
        self.pool += self.k.create("if", [flag], regions=regions)

    def countdown(self) -> None:
        """`while (x >= 0) x -= 1`, with other values carried along."""
        types = self.carried_types()
        start = self.one("and", self.of(I32), self.one("constant", value=3, type=I32))
        inits = [self.of(t) for t in types]
        known = len(self.pool)

        def before(x: Value, *carried: Value) -> list[Value]:
            self.pool += [x, *carried]
            self.inside(2)
            go = self.one("cmp_gt_s", x, self.one("constant", value=0, type=I32))
            return [go, x, *(arg if self.rng.random() < 0.5 else self.of(t) for t, arg in zip(types, carried))]

        first = self.k.region([I32, *types], before, "condition")
        del self.pool[known:]

        def body(x: Value, *carried: Value) -> list[Value]:
            self.pool += [x, *carried]
            self.inside(3)
            return [self.one("sub", x, self.one("constant", value=1, type=I32)), *self.next_values(types, carried)]

        second = self.k.region([I32, *types], body)
        del self.pool[known:]
        self.pool += self.k.create("while", [start, *inits], regions=[first, second])


def random_module(seed: int, size: int = 25) -> Module:
    return Generator(seed, size).module()
