"""Hand-built kernels, run on the CPU target and on the batched interpreter, on copies of the same arrays."""

from __future__ import annotations

import functools

import numpy as np

from tilewright.interpret import batched
from tilewright.interpret.memory import Memory, extent_of
from tilewright.ir.build import Builder
from tilewright.ir.node import Block, Function, Module, Value
from tilewright.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Pointer,
    Scalar,
    element_of,
    shape_of,
)
from tilewright.ir.verify import verify
from tilewright.language.options import Options
from tilewright.passes.manager import run_passes
from tilewright.targets.cpu.generate import generate
from tilewright.targets.cpu.target import CpuTarget, vector_bits
from tilewright.targets.llvm.isa import Isa

DTYPES = {I1: np.bool_, I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64, F16: np.float16, BF16: np.uint16,
          F32: np.float32, F64: np.float64, F8E4M3: np.uint8, F8E5M2: np.uint8}


class K(Builder):
    """A builder with short names for the ops that most tests use; `x + y` style helpers pick the row by type."""

    def op(self, name, *operands, regions=(), **attrs):
        results = self.create(name, operands, attrs, regions)
        return results[0] if len(results) == 1 else results

    def const(self, value, t=I32, shape=None):
        c = self.op("constant", value=value, type=t)
        return c if shape is None else self.splat(c, shape)

    def splat(self, x, shape):
        return self.op("splat", x, shape=tuple(shape))

    def iota(self, n, start=0):
        return self.op("iota", start=start, end=start + n)

    def pid(self, axis=0):
        return self.op("program_id", axis=axis)

    def like(self, x, other):
        """A scalar, or a tile with sizes of one, in the shape of another value."""
        if shape_of(x.type) == shape_of(other.type):
            return x
        if not shape_of(x.type):
            return self.splat(x, shape_of(other.type))
        return self.op("broadcast", x, shape=shape_of(other.type))

    def binary(self, name, a, b):
        if not isinstance(b, Value):
            b = self.const(b, element_of(a.type))
        if len(shape_of(a.type)) == len(shape_of(b.type)) and shape_of(a.type) != shape_of(b.type):
            shape = tuple(max(p, q) for p, q in zip(shape_of(a.type), shape_of(b.type)))
            a, b = (x if shape_of(x.type) == shape else self.op("broadcast", x, shape=shape) for x in (a, b))
        if not shape_of(a.type):
            a = self.like(a, b)
        return self.op(name, a, self.like(b, a))

    def add(self, a, b):
        e = element_of(a.type)
        return self.binary("ptr_add" if isinstance(e, Pointer) else "add" if e.is_int else "add_f", a, b)

    def mul(self, a, b):
        return self.binary("mul" if element_of(a.type).is_int else "mul_f", a, b)

    def row(self, x):
        return self.op("expand_dims", x, axis=0)

    def col(self, x):
        return self.op("expand_dims", x, axis=1)

    def at(self, pointer, offset):
        """pointer + offset: a scalar pointer and a tile of offsets."""
        return self.op("ptr_add", self.like(pointer, offset), offset)

    def load(self, pointer, mask=None, other=None, **attrs):
        operands = [pointer] + [v for v in (mask, other) if v is not None]
        return self.op("load", *operands, has_mask=mask is not None, has_other=other is not None, **attrs)

    def store(self, pointer, value, mask=None):
        self.create("store", [pointer, value] + ([mask] if mask is not None else []), {"has_mask": mask is not None})

    def reduce(self, inputs, axis, body):
        inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        elements = [element_of(v.type) for v in inputs]
        region = self.region(elements * 2, lambda *args: body(*args))
        return self.op("reduce", *inputs, regions=[region], axis=axis)

    def sum(self, x, axis):
        return self.reduce(x, axis, lambda a, b: [self.add(a, b)])

    def max(self, x, axis):
        return self.reduce(x, axis, lambda a, b: [self.op("max_f", a, b)])

    def for_(self, lower, upper, step, inits, body, **attrs):
        lower, upper, step = (self.const(v) if isinstance(v, int) else v for v in (lower, upper, step))
        region = self.region([lower.type, *(v.type for v in inits)], body)
        return self.create("for", [lower, upper, step, *inits], attrs, [region])


def kernel(params, body, disjoint=True, name="k"):
    """A module; `params` are (name, type); `body(b, *values)` builds it."""
    b = K()
    args = [Value(t, n) for n, t in params]
    with b.block() as ops:
        body(b, *args)
        b.create("return")
    function = Function(name, tuple(n for n, _ in params), Block(tuple(args), tuple(ops)))
    module = Module(name, {name: function}, disjoint=disjoint)
    verify(module)
    return module


def ptr(t):
    return Pointer(t)


@functools.cache
def target():
    return CpuTarget()


def generated(module, optimise=True, isa=None):
    """The text for this machine; for vectors of 512 bits, whatever this machine has, with an `isa`."""
    if optimise:
        module = run_passes(module, target().passes(Options()))
    bits = vector_bits(target().machine) if isa is None else 512
    return generate(module, target().machine.isa if isa is None else isa, bits)


WIDE = Isa(fma=True, half=True, avx512=True, round=True)


def slot(value, t):
    if isinstance(value, np.ndarray):
        return value.ctypes.data + 0
    if isinstance(t, Scalar) and t.is_float:
        return int.from_bytes(np.float64(value).tobytes() if t.bits == 64 else np.float32(value).tobytes()
                              if t.bits == 32 else np.float16(value).tobytes(), "little")
    return int(value) & (2**63 - 1) if int(value) >= 0 else int(value)


def words(args, params):
    """The slots of a launch: a pattern for each argument, then the extents of the arrays."""
    arrays = [v for v in args if isinstance(v, np.ndarray)]
    extents = [extent_of("", a) for a in arrays]
    return [slot(v, p.type) for v, p in zip(args, params)] + [w for e in extents for w in (e.address, e.end)]


def run_cpu(module, grid, args, optimise=True):
    if optimise:
        module = run_passes(module, target().passes(Options()))
    code = target().compile(module, Options())
    target().load(code).launch((*grid, 1, 1)[:3], words(args, module.entry.params))
    return code


def run_oracle(module, grid, args, write=None):
    arrays = {f"a{k}": v for k, v in enumerate(args) if isinstance(v, np.ndarray)}
    memory = Memory.of_arrays(arrays)
    values = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in args]
    batched.run(module, grid, values, memory, write=write)


def both(module, grid, args, exact=True, rtol=1e-6, atol=1e-6, optimise=(True, False)):
    """Run on both engines (the CPU with and without passes); compare every array.  Returns the CPU's arrays."""
    expected = [v.copy() if isinstance(v, np.ndarray) else v for v in args]
    run_oracle(module, grid, expected)
    for passes in optimise:
        got = [v.copy() if isinstance(v, np.ndarray) else v for v in args]
        run_cpu(module, grid, got, passes)
        for k, (g, e) in enumerate(zip(got, expected)):
            if isinstance(g, np.ndarray):
                if exact:
                    np.testing.assert_array_equal(g, e, err_msg=f"argument {k}, passes {passes}")
                else:
                    np.testing.assert_allclose(g, e, rtol=rtol, atol=atol, err_msg=f"argument {k}, passes {passes}")
    return got
