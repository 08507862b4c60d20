"""Element types that do not fit."""

import tilewright.language as tl
from tests.errors.harness import case, jit


@case(x="*fp32", f="fp32")
def bits_of_floats(x, f):
    tl.store(x, f & 3)  # error: CompilationError: invalid operands of type fp32


@case(x="*fp32", a="i32", b="u32")
def division_of_mixed_signs(x, a, b):
    tl.store(x, a // b)  # error: CompilationError: different signedness


@case(x="*fp32", a="i8")
def literal_out_of_range(x, a):
    tl.store(x, a + 300)  # error: CompilationError: out of range for type int8


@case(x="*fp32", f="fp32")
def floor_division_of_floats(x, f):
    tl.store(x, f // 2.0)  # error: CompilationError: fp32


@case(x="*fp32", n="i32")
def branches_of_two_types(x, n):
    if n > 3:
        y = 1
    else:
        y = 2.0  # error: CompilationError: Mismatched type for y between then block (int32) and else block (fp32)
    tl.store(x, y)


@case(x="*fp32", n="i32")
def reassigned_in_then_branch(x, n):
    y = 1
    if n > 3:
        y = tl.zeros((4,), tl.int32)  # error: CompilationError: Mismatched type for y
    tl.store(x + y, 1)


@case(x="*fp32", n="i32")
def conditional_of_two_types(x, n):
    y = 1 if n > 3 else 2.0  # error: CompilationError: both sides must have one type
    tl.store(x, y)


@jit
def two_types(n):
    if n > 3:
        return 1
    return 2.0  # error: CompilationError: this returns constexpr 2.0, but the `return` at line


@case(x="*fp32", n="i32")
def returns_of_two_types(x, n):
    tl.store(x, two_types(n))


@jit
def sometimes(n):
    if n > 3:
        return n  # error: CompilationError: may also reach its end


@case(x="*fp32", n="i32")
def returns_sometimes(x, n):
    tl.store(x, sometimes(n))


@case(x="*fp32", y="*fp32")
def sum_of_pointers(x, y):
    tl.store(x + y, 1)  # error: CompilationError: pointer


@case(x="*fp32", f="fp32")
def power_of_tensor(x, f):
    tl.store(x, f ** 2)  # error: CompilationError: `**` is not available on tensors


@case(x="*fp32", f="fp32")
def type_called(x, f):
    tl.store(x, tl.int32(f))  # error: CompilationError: cannot be called; convert with x.to


@case(x="*fp32", n="i32")
def number_called(x, n):
    tl.store(x, n(3))  # error: CompilationError: int32 is not a function


@case(x="*fp32", n="i32")
def unpacking_a_scalar(x, n):
    a, b = n  # error: CompilationError: cannot unpack int32 into 2 names
    tl.store(x, a + b)


@case(x="*fp32", n="i32")
def unpacking_too_few(x, n):
    a, b = n, n, n  # error: CompilationError: cannot unpack a tuple of 3 into 2 names
    tl.store(x, a + b)


@case(x="*fp32", n="*i64")
def pointer_as_a_number(x, n):
    i = tl.arange(0, 8)
    tl.store(x + i, 1.0, mask=i < n)  # error: CompilationError: n is a pointer: read what it points to with tl.load(n)


@case(x="*i32", n="u32")
def bits_of_an_unsigned_number(x, n):
    tl.store(x, tl.extra.libdevice.popc(n))  # error: CompilationError: write x.to(tl.int32, bitcast=True)


@case(x="*i32", n="i8")
def bits_of_a_byte(x, n):
    tl.store(x, tl.extra.libdevice.popc(n))  # error: CompilationError: write x.to(tl.int32)


@case(x="*fp32")
def type_of_python(x):
    tl.store(x, tl.load(x).to(float))  # error: CompilationError: not the function 'float'; write tl.float32
