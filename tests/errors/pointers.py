"""Values that are used as pointers and are none."""

import tilewright.language as tl
from tests.errors.harness import case


@case(x="*fp32", f="fp32")
def load_of_float_argument(x, f):
    tl.store(x, tl.load(f))  # error: CompilationError: fp32


@case(x="*fp32", n="i32")
def store_to_integer(x, n):
    tl.store(n, 1.0)  # error: CompilationError: int32


@case(x="*fp32", f="fp32")
def pointer_plus_float(x, f):
    tl.store(x + f, 1.0)  # error: CompilationError: fp32


@case(x="*fp32")
def load_of_loaded_value(x):
    v = tl.load(x + tl.arange(0, 16))
    tl.store(x, tl.sum(tl.load(v)))  # error: CompilationError: fp32


@case(x="*fp32", f="fp32")
def load_of_tile_of_floats(x, f):
    v = tl.load(f + tl.arange(0, 16))  # error: CompilationError: fp32
    tl.store(x, tl.sum(v))


@case(x="*fp32")
def pointer_times_number(x):
    tl.store(x * 2, 1.0)  # error: CompilationError: pointer


@case(x="*kfp32")
def store_to_const(x):
    tl.store(x, 1.0)  # error: CompilationError: const


@case(x="*fp32")
def sizes_of_a_pointer(x):
    tl.store(x, x.shape[0])  # error: CompilationError: has the shape (): pass the sizes of a tensor as arguments


@case(x="*fp32")
def element_of_a_pointer(x):
    tl.store(x, x[0])  # error: CompilationError: 0 dimensions; an element is read with tl.load


@case(x="*fp32")
def descriptor_as_a_pointer(x):
    d = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 16])
    tl.load(d + tl.arange(0, 16))  # error: CompilationError: not take a tensor_descriptor and the run-time value
