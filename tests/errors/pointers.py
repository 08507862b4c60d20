"""Values that are used as pointers and are none."""

import tilewright.language as tl
from tests.errors.harness import case
from tilewright.language.extra import libdevice


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
    tl.store(x, x[0])  # error: CompilationError: a pointer, which has no elements: memory is read with tl.load(x + 0)


@case(x="*fp32")
def descriptor_as_a_pointer(x):
    d = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 16])
    tl.load(d + tl.arange(0, 16))  # error: CompilationError: not take a tensor_descriptor and the run-time value


# A forgotten tl.load: whatever takes numbers names the cure, with the operand as it is written.


@case(x="*fp32")
def twice(x):
    tl.store(x, x * 2)  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def half_of_a_tile(x):
    i = tl.arange(0, 16)
    tl.store(x + i, 0.5 * (x + i))  # error: CompilationError: is a pointer: read what it points to with tl.load(x + i)


@case(x="*fp32")
def increased(x):
    s = tl.load(x)
    s *= x  # error: CompilationError: `*` takes numbers, but x is a pointer: read what it points to with tl.load(x)
    tl.store(x, s)


@case(x="*fp32", y="*fp32")
def sum_of_two_pointers(x, y):
    tl.store(x, x + y)  # error: CompilationError: by pointer<fp32>; for the numbers that it points to write tl.load(x)


@case(x="*fp32")
def negative_pointer(x):
    tl.store(x, -x)  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*i32")
def inverted_pointer(x):
    tl.store(x, ~x)  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*i1")
def not_a_pointer(x):
    tl.store(x, not x)  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*i32")
def bits_of_a_pointer(x):
    tl.store(x, 7 & x)  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def squared(x):
    tl.store(x, x ** 2)  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def compared(x):
    tl.store(x, 3 < x)  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def exponential(x):
    i = tl.arange(0, 16)
    tl.store(x + i, tl.exp(x + i))  # error: CompilationError: is a pointer: read what it points to with tl.load(x + i)


@case(x="*fp32")
def exponential_by_the_method(x):
    i = tl.arange(0, 16)
    tl.store(x + i, (x + i).exp())  # error: CompilationError: tl.exp takes numbers, but x + i is a pointer


@case(x="*fp32")
def hyperbolic(x):
    tl.store(x, libdevice.tanh(x))  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def power(x):
    tl.store(x, libdevice.pow(2.0, x))  # error: CompilationError: is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def absolute(x):
    tl.store(x, tl.abs(x=x))  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def greater(x):
    tl.store(x, tl.maximum(0.0, x))  # error: CompilationError: x is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def limited(x):
    tl.store(x, tl.clamp(x, 0.0, 1.0))  # error: CompilationError: is a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def chosen(x):
    tl.store(x, tl.where(x == x, x, 0.0))  # error: CompilationError: compare the numbers that they point to, by tl.load


@case(x="*fp32", n="i32")
def chosen_by_number(x, n):
    tl.store(x, tl.where(n > 0, 0.0, x))  # error: CompilationError: a pointer: read what it points to with tl.load(x)


@case(x="*fp32")
def total(x):
    i = tl.arange(0, 16)
    tl.store(x, tl.sum(x + i))  # error: CompilationError: + i is a pointer: read what it points to with tl.load(x + i)


@case(x="*fp32")
def running(x):
    i = tl.arange(0, 16)
    tl.store(x + i, tl.cumsum(x + i))  # error: CompilationError: tl.cumsum takes numbers, but x + i is a pointer


@case(x="*fp32")
def ordered(x):
    i = tl.arange(0, 16)
    tl.store(x + i, tl.sort(x + i))  # error: CompilationError: tl.sort takes numbers, but x + i is a pointer


@case(x="*fp32", y="*fp32")
def copied(x, y):
    i = tl.arange(0, 16)
    tl.store(y + i, x + i)  # error: CompilationError: x + i is a pointer: read what it points to with tl.load(x + i)


@case(x="*fp32", y="*fp32")
def added(x, y):
    i = tl.arange(0, 16)
    tl.atomic_add(y + i, x + i)  # error: CompilationError: is a pointer: read what it points to with tl.load(pointer)


@case(x="*fp32", m="*i1")
def masked(x, m):
    i = tl.arange(0, 16)
    tl.store(x + i, 1.0, mask=m + i)  # error: CompilationError: a pointer: read what it points to with tl.load(m + i)


@case(x="*fp16")
def product(x):
    i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)
    tl.store(x + i, tl.dot(x + i, x + i))  # error: CompilationError: read what it points to with tl.load(x + i)


@case(x="*fp16")
def converted(x):
    tl.store(x, x.to(tl.float32))  # error: CompilationError: for the numbers that it points to use tl.load


@case(x="*fp32")
def run_time_element(x):
    i = tl.program_id(0)
    tl.store(x, x[i])  # error: CompilationError: memory is read with tl.load(x + i), and written with tl.store


@case(x="*fp32")
def elements(x):
    i = tl.arange(0, 16)
    tl.store(x + i, x[i])  # error: CompilationError: which has no elements: memory is read with tl.load(x + i)


@case(x="*i32")
def many_times(x):
    for i in range(x):  # error: CompilationError: is a pointer: read what it points to with tl.load, or pass a number
        tl.store(x, i)


@case(x="*fp32")
def seeded(x):
    tl.store(x, tl.rand(x, 0))  # error: CompilationError: `seed` takes numbers, but this is a pointer


@case(x="*fp32")
def range_of_elements(x):
    tl.store(x, x[1:3])  # error: CompilationError: memory is read with tl.load(x + i), and written with tl.store


@case(x="*i32")
def picked_by_pointers(x):
    i = tl.arange(0, 16)
    tl.store(x + i, tl.gather(i, x + i, 0))  # error: CompilationError: read what it points to with tl.load(x + i)


@case(x="*i32")
def counted(x):
    i = tl.arange(0, 16)
    tl.store(x + i, tl.histogram(x + i, 16))  # error: CompilationError: read what it points to with tl.load(x + i)


@case(x="*i32")
def joined_with_numbers(x):
    i = tl.arange(0, 16)
    tl.store(x, tl.sum(tl.join(i, x + i)))  # error: CompilationError: read what it points to with tl.load(x + i)


@case(x="*fp32")
def limited_by_a_pointer(x):
    tl.store(x, tl.clamp(1.0, 0, x))  # error: CompilationError: invalid operands of type int32 and pointer<fp32>;


@case(x="*fp32")
def length_of_a_pointer(x):
    tl.store(x, len(x))  # error: CompilationError: a scalar has no length; pass the sizes of an array as arguments
