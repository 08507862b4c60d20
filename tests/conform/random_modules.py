"""Random well-typed modules of exact rows, for engines and passes to agree on bit for bit.

A module loads tiles of every element type, computes a few dozen values with rows of the table (also in loops,
branches and reductions), and stores the last ones.  Rows that are undefined for some operands, or whose results
depend on the bits of a NaN, are left out or kept in their domain.
"""

from __future__ import annotations

import numpy as np

from tests.conform import edges
from tests.conform.cases import elementwise_cases
from tests.conform.modules import module, ptr
from tilewright.ir.ops import TABLE
from tilewright.ir.types import (
    ALL_SCALARS,
    I1,
    I32,
    STORED_ONLY,
    Pointer,
    Tile,
    element_of,
    shape_of,
    storage_dtype,
)

SHIFTS = ("shl", "shr_s", "shr_u")
SHAPES = ((7,), (16,), (3, 5), (2, 17), (1,))


def _usable(case) -> bool:
    row = TABLE[case.row]
    if any(isinstance(t, Pointer) for t in (*case.elements, case.result)) or not row.bound.exact:
        return False
    if case.row == "bitcast":
        return case.elements[0].is_int      # of a float it would show the bits of a NaN
    return row.domain is None or case.row in SHIFTS


CASES = [c for c in elementwise_cases() if _usable(c)]


class Maker:
    """Grows one module: a pool of values by type, all tiles of one shape or scalars."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape = SHAPES[self.rng.integers(len(SHAPES))]

    def choose(self, items):
        return items[self.rng.integers(len(items))]

    def module(self, steps=25):
        """(module, number of programs, input arrays, output types)."""
        elements = ALL_SCALARS
        self.outputs = []
        self.steps = steps
        count = int(np.prod(self.shape))
        programs = int(self.rng.integers(1, 5))
        inputs = [self.values(e, programs * count).reshape(programs, *self.shape) for e in elements]
        types = [ptr(e) for e in elements]
        # built twice with the same choices: first to learn the results' types, then with parameters for them
        state = self.rng.bit_generator.state
        module(types, lambda k, *p: self.fill(k, p, ()))
        self.rng.bit_generator.state = state
        results = [element_of(t) for t in self.outputs]
        shapes = [shape_of(t) for t in self.outputs]
        m = module([*types, *map(ptr, results)], lambda k, *p: self.fill(k, p[:len(types)], p[len(types):]))
        outputs = [np.zeros((programs, *s), storage_dtype(e)) for s, e in zip(shapes, results, strict=True)]
        return m, programs, inputs, outputs, results

    def values(self, element, count):
        some = np.concatenate([edges.values(element), edges.random_values(element, count, 1)])
        return some[self.rng.integers(0, len(some), count)]

    def fill(self, k, sources, targets):
        pool = [k.load(k.tile_pointers(p, self.shape)) for p in sources]
        pool += [k.pid(), k.const(True, I1), k.const(3), k.splat(k.pid(), self.shape)]
        pool = self.grow(k, pool, self.steps, depth=2)
        chosen = pool[-8:]
        self.outputs = [v.type for v in chosen]
        for target, value in zip(targets, chosen, strict=False):
            k.store(k.tile_pointers(target, shape_of(value.type)), value)

    def grow(self, k, pool, steps, depth):
        """The pool with the results of some more ops."""
        pool = list(pool)
        for _ in range(steps):
            kind = self.rng.integers(12)
            if kind == 0 and depth:
                pool += self.branch(k, pool, depth)
            elif kind == 1 and depth:
                pool += self.loop(k, pool, depth)
            elif kind == 2:
                pool += self.reduction(k, pool)
            elif kind == 3:
                pool += self.rearrangement(k, pool)
            else:
                pool += self.elementwise(k, pool)
        return pool

    def operands(self, pool, elements, shape):
        """Values of these elements and this shape, or None."""
        found = []
        for element in elements:
            fitting = [v for v in pool if element_of(v.type) == element and shape_of(v.type) == shape]
            if not fitting:
                return None
            found.append(fitting[-1 - int(self.rng.integers(min(4, len(fitting))))])
        return found

    def elementwise(self, k, pool):
        for _ in range(20):
            case = self.choose(CASES)
            shape = shape_of(self.choose(pool).type)
            args = self.operands(pool, case.elements, shape)
            if args is None:
                continue
            if case.row in SHIFTS:
                width = k.const(case.elements[1].bits - 1, case.elements[1])
                args[1] = k.one("and", args[1], k.splat(width, shape) if shape else width)
            return [k.one(case.row, *args, **case.attrs)]
        return []

    def branch(self, k, pool, depth):
        (flag,) = self.operands(pool, [I1], ()) or [None]
        if flag is None:
            return []
        kept = [v.type for v in pool[-3:]]

        def body():
            inner = self.grow(k, pool, 4, depth - 1)
            return [[v for v in inner if v.type == t][-1] for t in kept]

        return list(k.if_(flag, body, body))

    def loop(self, k, pool, depth):
        (end,) = self.operands(pool, [I32], ())
        few = k.one("and", end, k.const(3))
        inits = pool[-2:]

        def body(i, *carried):
            inner = self.grow(k, [*pool, i, *carried], 4, depth - 1)
            return [[v for v in inner if v.type == c.type][-1] for c in carried]

        return list(k.for_(k.const(0), few, k.const(1), inits, body))

    def reduction(self, k, pool):
        x = self.choose([v for v in pool if isinstance(v.type, Tile) and element_of(v.type) not in STORED_ONLY])
        element, axis = element_of(x.type), int(self.rng.integers(x.type.rank))
        row = "max_f" if element.is_float else "xor" if element == I1 else self.choose(("add", "max_s", "min_u"))
        return [k.one("reduce", x, axis=axis, regions=[k.region([element] * 2, lambda a, b: [k.one(row, a, b)])])]

    def rearrangement(self, k, pool):
        x = self.choose(pool)
        if not isinstance(x.type, Tile):
            return [k.splat(x, self.shape)]
        kind = self.choose(("permute", "reshape", "join", "round trip"))
        if kind == "permute":
            return [k.one("permute", x, order=tuple(reversed(range(x.type.rank))))]
        if kind == "join":
            return list(k.create("split", [k.one("join", x, x)]))
        flat = k.one("reshape", x, shape=(x.type.numel,))
        return [flat] if kind == "reshape" else [flat, k.one("reshape", flat, shape=x.type.shape)]
