"""Shapes that do not fit."""

import tilewright.language as tl
from tests.errors.harness import case


@case(x="*fp32")
def add_of_two_sizes(x):
    a = tl.arange(0, 16)
    b = tl.arange(0, 8)
    c = a + b  # error: CompilationError: 16 and 8
    tl.store(x, c)


@case(x="*fp32")
def store_of_larger_value(x):
    a = tl.arange(0, 16)
    tl.store(x + a, tl.zeros((32,), tl.float32))  # error: CompilationError: 32


@case(x="*fp32")
def tile_into_scalar_pointer(x):
    tl.store(x, tl.zeros((4,), tl.float32))  # error: CompilationError: block


@case(x="*fp32")
def reshape_to_other_count(x):
    a = tl.arange(0, 16)
    b = tl.reshape(a, (4, 8))  # error: CompilationError: reshape
    tl.store(x, b)


@case(x="*fp32")
def mask_of_other_size(x):
    offsets = tl.arange(0, 16)
    mask = tl.arange(0, 8) < 3
    v = tl.load(x + offsets, mask=mask)  # error: CompilationError: mask
    tl.store(x + offsets, v)


@case(x="*fp32", n="i32")
def dot_of_unequal_inner_sizes(x, n):
    a = tl.zeros((16, 32), tl.float32)
    b = tl.zeros((16, 16), tl.float32)
    c = tl.dot(a, b)  # error: CompilationError: 32
    tl.store(x, tl.sum(c))


@case(x="*fp32")
def too_many_indices(x):
    a = tl.arange(0, 16)
    b = a[:, :]  # error: CompilationError: too many indices
    tl.store(x + b, 1)


@case(x="*fp32", n="i32")
def tile_as_condition(x, n):
    if tl.arange(0, 16) < n:  # error: CompilationError: ambiguous
        tl.store(x, 1)


@case(x="*fp32")
def axis_out_of_range(x):
    s = tl.sum(tl.zeros((4, 4), tl.float32), axis=2)  # error: CompilationError: axis
    tl.store(x, s)


@case(x="*fp32", n="i32")
def element_by_index(x, n):
    a = tl.arange(0, 16)
    tl.store(x, a[n])  # error: CompilationError: unsupported tensor index


# Operands and arguments are named as they are written.


@case(x="*fp32")
def sum_of_named_tiles(x):
    rows, columns = tl.arange(0, 16), tl.arange(0, 8)
    tl.store(x, rows + columns * 2)  # error: CompilationError: (shapes rows [16], columns * 2 [8]); sizes must be equal


@case(x="*fp32")
def comparison_of_named_tiles(x):
    rows, columns = tl.arange(0, 16), tl.arange(0, 8)
    tl.store(x, rows < columns)  # error: CompilationError: (shapes rows [16], columns [8]); sizes must be equal


@case(x="*fp32")
def quotient_of_named_tiles(x):
    rows, columns = tl.arange(0, 16), tl.arange(0, 8)
    tl.store(x, rows / columns)  # error: CompilationError: (shapes rows [16], columns [8]); sizes must be equal


@case(x="*fp32")
def offset_of_another_size(x):
    rows, columns = tl.arange(0, 16), tl.arange(0, 8)
    tl.store(columns + (x + rows), 1.0)  # error: CompilationError: (shapes x + rows [16], columns [8]); sizes must


@case(x="*fp32")
def greater_of_named_tiles(x):
    rows, columns = tl.arange(0, 16), tl.arange(0, 8)
    tl.store(x, tl.maximum(rows, columns))  # error: CompilationError: (shapes rows [16], columns [8]); sizes must be


@case(x="*fp32", n="i32")
def zeros_of_a_run_time_size(x, n):
    v = tl.zeros((4, n), tl.float32)  # error: CompilationError: kernel is compiled, but n is the run-time value int32
    tl.store(x, v)


@case(x="*fp32", n="i32")
def range_of_a_run_time_size(x, n):
    tl.store(x, tl.arange(0, n + 1))  # error: CompilationError: `n + 1` is the run-time value int32; annotate


@case(x="*fp32", n="i32")
def sum_along_a_run_time_axis(x, n):
    tl.store(x, tl.sum(tl.zeros((4,), tl.float32), n))  # error: CompilationError: is compiled, but n is the run-time


@case(x="*fp32", n="i32")
def sum_along_a_run_time_axis_by_name(x, n):
    tl.store(x, tl.zeros((4,), tl.float32).sum(axis=n))  # error: CompilationError: is compiled, but n is the run-time


@case(x="*fp32")
def sum_along_no_axis(x):
    v = tl.zeros((8,), tl.float32)
    tl.store(x, tl.sum(v, axis=1))  # error: CompilationError: axis=1 of tl.sum is out of range for a tile with 1


@case(x="*fp32")
def more_than_all(x):
    v = tl.zeros((8,), tl.float32)
    tl.store(x, tl.topk(v, 16))  # error: CompilationError: from 1 to 8, the size of dimension 0 of fp32[8], not 16


@case(x="*fp32")
def product_with_the_second_to_transpose(x):
    q, k = tl.zeros((32, 16), tl.float32), tl.zeros((64, 16), tl.float32)
    tl.store(x, tl.sum(tl.dot(q, k)))  # error: CompilationError: transpose the second: tl.trans(k)


@case(x="*fp32")
def product_with_the_first_to_transpose(x):
    q, k = tl.zeros((16, 32), tl.float32), tl.zeros((16, 64), tl.float32)
    tl.store(x, tl.sum(tl.dot(q, other=k)))  # error: CompilationError: transpose the first: tl.trans(q)


@case(x="*fp32")
def product_of_other_sizes(x):
    q, k = tl.zeros((16, 32), tl.float32), tl.zeros((64, 128), tl.float32)
    tl.store(x, tl.sum(tl.dot(q, k)))  # error: CompilationError: q is [M, K] and k [K, N]: make both with the same K


@case(x="*fp32", n="i32")
def mask_of_numbers(x, n):
    tl.store(x, 1.0, mask=n)  # error: CompilationError: it is int32; write `n != 0`, or a comparison
