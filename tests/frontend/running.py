"""Compiling and running kernels for the frontend's tests: signatures, the batched interpreter, Python as the oracle."""

from __future__ import annotations

import itertools

import numpy as np

import tilewright.language as tl
from tilewright.frontend import compile_function
from tilewright.interpret import batched
from tilewright.interpret.memory import Memory
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.ir.walk import ops_in
from tilewright.language.core import parse_type
from tilewright.language.function import SourceFunction
from tilewright.language.options import ConstantArg, Options, RuntimeArg, Signature, TupleArg


def jit(fn):
    return SourceFunction(fn)


def argument(spec):
    """A string spells a run-time type, a list is a tuple of arguments, anything else a compile-time value."""
    if isinstance(spec, str):
        return RuntimeArg(parse_type(spec))
    if isinstance(spec, list):
        return TupleArg(tuple(map(argument, spec)))
    return ConstantArg(spec)


def compiled(fn, debug=False, **args):
    """The verified module of a kernel; see `argument` for how arguments are written."""
    fn = fn if isinstance(fn, SourceFunction) else SourceFunction(fn)
    module = compile_function(fn, Signature({n: argument(s) for n, s in args.items()}), Options(debug=debug))
    verify(module)
    return module


def op_names(module):
    return [op.name for f in module.functions.values() for op in ops_in(f.body)]


def text_of(module):
    return print_module(module)


def launch(module, grid, *args, write=None):
    """Run a module in the batched interpreter; NumPy arrays stand for pointers."""
    arrays = {f"arg{i}": a for i, a in enumerate(args) if isinstance(a, np.ndarray)}
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
    batched.run(module, grid, values, Memory.of_arrays(arrays), write=write)


def spread(function):
    """A kernel that applies a device function of two int32 to element `pid` of two arrays."""

    def kernel(x, y, out):
        i = tl.program_id(0)
        tl.store(out + i, device(tl.load(x + i), tl.load(y + i)))

    device = SourceFunction(function)
    return SourceFunction(kernel)


POINTS = list(itertools.product(range(-3, 9), range(-2, 8)))


def agrees_with_python(function, points=POINTS):
    """Check that `function(a, b)` on int32, compiled, gives what Python gives on ints, on all points at once."""
    module = compiled(spread(function), x="*i32", y="*i32", out="*i32")
    x, y = (np.array(column, np.int32) for column in zip(*points))
    out = np.full(len(points), 12345, np.int32)
    launch(module, (len(points),), x, y, out)
    expected = [function(a, b) for a, b in points]
    assert out.tolist() == expected
    return module


def results(fn, count=1, dtype=np.float32, debug=False, write=None, **args):
    """What a kernel with the pointer parameter `out` stores there; other run-time arguments are (type, value) pairs."""
    fn = fn if isinstance(fn, SourceFunction) else SourceFunction(fn)
    out = np.zeros(count, dtype)
    names = {"float32": "*fp32", "int32": "*i32", "int64": "*i64", "float16": "*fp16", "uint32": "*u32"}
    specs = {n: v[0] if isinstance(v, tuple) and isinstance(v[0], str) else v for n, v in args.items()}
    module = compiled(fn, debug, **{p.name: names[out.dtype.name] if p.name == "out" else specs[p.name]
                                    for p in fn.params if p.name == "out" or p.name in specs})
    given = [out if p.name == "out" else args[p.name][1] for p in fn.params
             if p.name == "out" or (isinstance(args.get(p.name), tuple) and isinstance(args[p.name][0], str))]
    launch(module, (1,), *given, write=write)
    return out.tolist()
