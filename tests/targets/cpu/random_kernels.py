"""Random kernels on int32 tiles: chains, loads and stores that overlap, reductions, rearrangements, loops, branches.

All arithmetic wraps, so every engine must give the same bits.
"""

from __future__ import annotations

import random

import numpy as np

from tests.targets.cpu.harness import I8, I32, kernel, ptr

WORDS = 4096
SHAPES = [(24,), (17,), (4, 6), (6, 4), (5, 16), (16, 5), (2, 3, 8), (1, 20), (20, 1), (40,)]


class Generator:
    """One random kernel; `depth` counts the open regions."""

    def __init__(self, seed: int, ops: int = 14) -> None:
        self.r = random.Random(seed)
        self.ops = ops

    def module(self):
        return kernel([("x", ptr(I32)), ("o", ptr(I32)), ("n", I32), ("m", I32)], self.body,
                      disjoint=self.r.random() < 0.7)

    def body(self, b, x, o, n, m):
        self.b, self.x, self.o, self.n, self.m = b, x, o, n, m
        self.place = 0
        pool = []
        self.run(pool, self.ops, 0)
        for v in pool[-6:]:
            self.put(v)

    def put(self, v):
        """Store a value to a fresh place of the output."""
        b = self.b
        shape = getattr(v.type, "shape", ())
        size = int(np.prod(shape))
        at = b.at(self.o, b.const(self.place))
        self.place = (self.place + size) % (WORDS - 200)
        if shape:
            b.store(b.at(at, b.iota(size)), b.op("reshape", v, shape=(size,)))
        else:
            b.store(at, v)

    def run(self, pool, ops, depth):
        for _ in range(ops):
            choice = self.r.choice(["load", "load", "chain", "chain", "chain", "dear", "store", "reduce", "shape",
                                    "spread", "for", "if", "dot", "scalar"])
            if choice in ("for", "if") and depth >= 2:
                continue
            getattr(self, choice)(pool, depth)

    def offsets(self, shape):
        """A tile of offsets: straight, shifted, reversed, wrapped, strided, or the same everywhere."""
        b, r = self.b, self.r
        size = int(np.prod(shape))
        i = b.iota(size)
        kind = r.choice(["straight", "straight", "shift", "back", "wrap", "stride", "same", "runtime"])
        if kind == "shift":
            i = b.add(i, r.randrange(40))
        elif kind == "back":
            i = b.op("sub", b.const(size + r.randrange(9), I32, (size,)), i)
        elif kind == "wrap":
            i = b.binary("rem_s", i, b.like(self.m, i))
        elif kind == "stride":
            i = b.mul(i, r.choice([2, 3]))
        elif kind == "same":
            i = b.binary("div_s", i, r.choice([3, 1000]))
        elif kind == "runtime":
            i = b.add(i, b.like(self.n, i))
        return b.op("reshape", i, shape=shape) if len(shape) > 1 else i

    def mask(self, offsets):
        b, r = self.b, self.r
        kind = r.randrange(4)
        if kind == 0:
            return b.binary("cmp_lt_s", offsets, b.like(b.op("add", self.n, b.const(r.randrange(60))), offsets))
        if kind == 1:
            return b.binary("cmp_ne", b.binary("and", offsets, 1), 0)
        return None

    def load(self, pool, depth):
        offsets = self.offsets(self.r.choice(SHAPES))
        mask = self.mask(offsets)
        other = self.b.mul(offsets, 3) if mask is not None and self.r.random() < 0.5 else None
        pool.append(self.b.load(self.b.at(self.x, offsets), mask, other))

    def store(self, pool, depth):
        tiles = [v for v in pool if getattr(v.type, "shape", ())]
        if not tiles:
            return
        v = self.r.choice(tiles)
        offsets = self.offsets(v.type.shape)
        self.b.store(self.b.at(self.x, offsets), v, self.mask(offsets))

    def pick(self, pool, shape=None):
        fitting = [v for v in pool if shape is None or getattr(v.type, "shape", ()) == shape]
        if fitting:
            return self.r.choice(fitting[-8:])
        shape = shape if shape is not None else self.r.choice(SHAPES)
        v = self.b.op("reshape", self.b.iota(int(np.prod(shape))), shape=shape) if shape else self.n
        pool.append(v)
        return v

    def chain(self, pool, depth):
        a = self.pick(pool)
        c = self.pick(pool, getattr(a.type, "shape", ()))
        row = self.r.choice(["add", "sub", "mul", "xor", "min_s", "max_u", "select"])
        if row == "select":
            pool.append(self.b.op("select", self.b.op("cmp_lt_s", a, c), c, self.b.op("add", a, c)))
        else:
            pool.append(self.b.op(row, a, c))

    def dear(self, pool, depth):
        a = self.pick(pool)
        c = self.pick(pool, getattr(a.type, "shape", ()))
        pool.append(self.b.op("add", self.b.op("div_s", a, c), self.b.op("rem_u", c, a)))

    def reduce(self, pool, depth):
        tiles = [v for v in pool if getattr(v.type, "shape", ())]
        if tiles:
            v = self.r.choice(tiles)
            row = self.r.choice(["add", "max_s", "xor"])
            pool.append(self.b.reduce(v, self.r.randrange(v.type.rank), lambda p, q: [self.b.op(row, p, q)]))

    def shape(self, pool, depth):
        tiles = [v for v in pool if getattr(v.type, "shape", ())]
        if not tiles:
            return
        v, b, r = self.r.choice(tiles), self.b, self.r
        kind = r.choice(["permute", "reshape", "join", "cat"])
        if kind == "permute":
            order = list(range(v.type.rank))
            r.shuffle(order)
            pool.append(b.op("permute", v, order=tuple(order)))
        elif kind == "reshape":
            same = [s for s in SHAPES if np.prod(s) == v.type.numel]
            pool.append(b.op("reshape", v, shape=r.choice(same or [(v.type.numel,)])))
        elif kind == "join":
            p, q = b.op("split", b.op("join", v, self.pick(pool, v.type.shape)))
            pool.append(b.op("sub", q, p))
        else:
            both = b.op("cat", v, self.pick(pool, v.type.shape), axis=r.randrange(v.type.rank))
            if both.type.numel < 400:
                pool.append(both)

    def spread(self, pool, depth):
        """A row or column, or a scalar, broadcast over a tile of two dimensions."""
        b = self.b
        tiles = [v for v in pool if len(getattr(v.type, "shape", ())) == 1]
        if not tiles:
            return
        v = self.r.choice(tiles)
        if v.type.numel > 40:
            return
        if self.r.random() < 0.5:
            pool.append(b.op("broadcast", b.row(v), shape=(5, v.type.numel)))
        else:
            pool.append(b.op("broadcast", b.col(v), shape=(v.type.numel, 6)))

    def scalar(self, pool, depth):
        b = self.b
        at = b.at(self.x, b.op("and", self.pick(pool, ()), b.const(63)))
        if self.r.random() < 0.4:
            b.store(at, self.pick(pool, ()))
        pool.append(b.load(at))

    def dot(self, pool, depth):
        b = self.b
        a, c, acc = self.pick(pool, (5, 16)), self.pick(pool, (16, 5)), self.pick(pool, (5, 5))
        pool.append(b.op("dot", b.op("trunc", a, to=I8), b.op("trunc", c, to=I8), acc))

    def carried(self, pool):
        if not pool:
            self.load(pool, 0)
        return [self.r.choice(pool[-8:]) for _ in range(self.r.randint(1, 3))]

    def inside(self, pool, values, depth, like):
        """Random ops in a region, then a value of each wanted type."""
        inner = [*pool, *values]
        self.run(inner, self.r.randint(1, 5), depth + 1)
        out = []
        for v in like:
            fitting = [w for w in inner if w.type == v.type]
            out.append(self.r.choice(fitting[-6:]))
        return out

    def _for(self, pool, depth):
        b = self.b
        inits = self.carried(pool)
        step = self.r.choice([1, 1, 2, -1])
        lower, upper = (0, self.r.randrange(4)) if step > 0 else (2, -1)
        results = b.for_(lower, upper, step, inits,
                         lambda i, *values: self.inside(pool, [i, *values], depth, inits))
        pool.extend(results)

    def _if(self, pool, depth):
        b = self.b
        like = self.carried(pool)
        flag = b.op("cmp_ne", b.op("and", self.pick(pool, ()), b.const(1)), b.const(0))
        results = b.create("if", [flag], {}, [
            b.region([], lambda: self.inside(pool, [], depth, like)) for _ in range(2)])
        pool.extend(results)


setattr(Generator, "for", Generator._for)
setattr(Generator, "if", Generator._if)
