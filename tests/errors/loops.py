"""Loops whose variables change their type, and other loops that cannot be."""

import tilewright.language as tl
from tests.errors.harness import case


@case(x="*fp32", n="i32")
def int_becomes_float(x, n):
    s = 0
    for i in range(n):
        s = s + 1.5  # error: CompilationError: s has initial type int32 (assigned at line 9) but is
    tl.store(x, s)


@case(x="*fp32", n="i32")
def scalar_becomes_tile(x, n):
    s = 0.0
    for i in range(n):
        s += tl.load(x + tl.arange(0, 16))  # error: CompilationError: the loop makes: s = tl.zeros((16,), tl.float32)
    tl.store(x + tl.arange(0, 16), s)


@case(x="*fp16", n="i32")
def half_becomes_single(x, n):
    s = tl.zeros((16,), tl.float16)
    i = 0
    while i < n:
        s = s + tl.zeros((16,), tl.float32)  # error: CompilationError: re-assigned to fp32[16] in the loop at line 27
        i += 1
    tl.store(x + tl.arange(0, 16), s)


@case(x="*fp32", n="i32")
def none_becomes_tile(x, n):
    s = None
    for i in range(n):
        s = tl.zeros((4,), tl.float32)  # error: CompilationError: None cannot become a run-time value in a loop
    tl.store(x + tl.arange(0, 4), s)


@case(x="*fp32", n="i32")
def parameter_changes(x, n):
    for i in range(4):
        n = n * 0.5  # error: CompilationError: has initial type int32 (a parameter) but is re-assigned to fp32
    tl.store(x, n)


@case(x="*fp32", n="i32")
def tuple_changes(x, n):
    t = (0, 1.0)
    for i in range(n):
        t = (t[1], t[0])  # error: CompilationError: has initial type (int32, fp32)
    tl.store(x, t[0])


@case(x="*fp32", n="i32")
def shape_doubles(x, n):
    t = tl.zeros((4,), tl.float32)
    while n > 0:
        t = tl.join(t, t).reshape((8,))  # error: CompilationError: fp32[4]
        n -= 1
    tl.store(x, tl.sum(t))


@case(x="*fp32", f="fp32")
def float_bound(x, f):
    for i in range(f):  # error: CompilationError: the end of a range must be an integer scalar, not fp32
        tl.store(x + i, 1)


@case(x="*fp32")
def tile_bound(x):
    for i in tl.range(0, tl.arange(0, 4)):  # error: CompilationError: must be an integer scalar, not int32[4]
        tl.store(x + i, 1)


@case(x="*fp32", n="i32")
def over_a_tile(x, n):
    for v in tl.arange(0, 4):  # error: CompilationError: a `for` goes over range, tl.range, tl.static_range or a tuple
        tl.store(x, v)


@case(x="*fp32", n="i32")
def loop_with_else(x, n):
    for i in range(n):
        tl.store(x, i)
    else:
        tl.store(x, 0)  # error: UnsupportedLanguageConstruct: node type: For. A kernel cannot contain `else` on a loop


@case(x="*fp32", n="i32")
def condition_of_tile(x, n):
    while tl.arange(0, 4) < n:  # error: CompilationError: ambiguous
        n -= 1
    tl.store(x, n)


@case(n="i32", x="*fp32")
def half_as_an_end(n, x):
    for i in range(n / 2):  # error: CompilationError: not fp32; divide with // or tl.cdiv, or convert with
        tl.store(x + i, 1.0)


@case(n="i32", x="*fp32")
def misspelt_option_of_range(n, x):
    for i in tl.range(0, n, num_stage=3):  # error: CompilationError: tl.range: got an unexpected keyword argument 'num
        tl.store(x + i, 1.0)
