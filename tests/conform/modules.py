"""Building small modules by hand for tests below the language: a kernel from a Python function over IR values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tilewright.interpret import batched
from tilewright.interpret.memory import Memory
from tilewright.ir.build import Builder
from tilewright.ir.node import Block, Function, Module, Value
from tilewright.ir.types import I32, Pointer, Scalar, Tile


class Kernel(Builder):
    """A builder with short names for what most test kernels say."""

    def one(self, name, *operands, regions=(), **attrs):
        (result,) = self.create(name, operands, attrs, regions)
        return result

    def const(self, value, t=I32):
        return self.one("constant", value=value, type=t)

    def splat(self, value, shape):
        return self.one("splat", value, shape=tuple(shape))

    def iota(self, size):
        return self.one("iota", start=0, end=size)

    def pid(self, axis=0):
        return self.one("program_id", axis=axis)

    def lanes(self, pointer, size, per_program=True):
        """Pointers to `size` elements, those of this program."""
        offset = self.iota(size)
        if per_program:
            start = self.one("mul", self.pid(), self.const(size))
            offset = self.one("add", self.splat(start, (size,)), offset)
        return self.one("ptr_add", self.splat(pointer, (size,)), offset)

    def tile_pointers(self, pointer, shape):
        """Pointers to a row-major tile, that of this program; a scalar one for the shape ()."""
        if not shape:
            return self.one("ptr_add", pointer, self.pid())
        size = math.prod(shape)
        flat = self.lanes(pointer, size)
        return flat if len(shape) == 1 else self.one("reshape", flat, shape=tuple(shape))

    def load(self, pointer, mask=None, other=None):
        operands = [v for v in (pointer, mask, other) if v is not None]
        return self.one("load", *operands, has_mask=mask is not None, has_other=other is not None)

    def store(self, pointer, value, mask=None):
        operands = [v for v in (pointer, value, mask) if v is not None]
        self.create("store", operands, {"has_mask": mask is not None})

    def if_(self, flag, then, otherwise):
        """Results of `then()` or `otherwise()`, lists of values."""
        return self.create("if", [flag], regions=[self.region([], then), self.region([], otherwise)])

    def for_(self, lower, upper, step, inits, body, **attrs):
        region = self.region([lower.type, *(v.type for v in inits)], body)
        return self.create("for", [lower, upper, step, *inits], attrs, [region])

    def while_(self, inits, before, body):
        """`before(*carried)` gives (flag, *passed), `body(*passed)` the next carried values."""
        first = self.region([v.type for v in inits], before, "condition")
        passed = [v.type for v in first.terminator.operands[1:]]
        return self.create("while", list(inits), regions=[first, self.region(passed, body)])


def function(name: str, param_types: Sequence[object], body: Callable[..., Sequence[Value] | None]) -> Function:
    """`body(kernel, *params)` builds the function; what it returns are the function's results."""
    k = Kernel()
    params = [Value(t, f"arg{i}") for i, t in enumerate(param_types)]
    with k.block() as ops:
        results = list(body(k, *params) or ())
        k.create("return", results)
    return Function(name, tuple(v.hint for v in params), Block(tuple(params), tuple(ops)),
                    tuple(v.type for v in results))


def module(param_types, body, *functions: Function) -> Module:
    entry = function("kernel", param_types, body)
    return Module("kernel", {f.name: f for f in (entry, *functions)})


def run(m: Module, grid, *args, **options) -> None:
    """Run on NumPy arrays and numbers: every array is an argument of its address space."""
    arrays = {f"arg{i}": a for i, a in enumerate(args) if isinstance(a, np.ndarray)}
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
    batched.run(m, grid, values, Memory.of_arrays(arrays), **options)


def ptr(element: Scalar | Pointer, const: bool = False) -> Pointer:
    return Pointer(element, const)


def tile(element, *shape: int) -> Tile:
    return Tile(tuple(shape), element)
