"""Kernels of test_values_control_flow.py: loops, branches, exits, calls, tuples."""

import tilewright as triton
import tilewright.language as tl


@triton.jit
def count_up(out, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.int32)
    for i in range(n):
        acc += i
    tl.store(out + tl.arange(0, BLOCK), acc)


@triton.jit
def range_bounds(out, start, stop, step):
    total = 0
    last = -100
    for i in range(start, stop, step):
        total += i
        last = i
    tl.store(out, total)
    tl.store(out + 1, last)


@triton.jit
def reversed_static(out, x):
    total = 0.0
    for i in range(7, -1, -1):
        total = total * 2.0 + tl.load(x + i)
    tl.store(out, total)


@triton.jit
def static_unrolled(out, x, N: tl.constexpr):
    total = 0.0
    for i in tl.static_range(N):
        if i % 2 == 0:
            total += tl.load(x + i)
        else:
            total -= tl.load(x + i)
    tl.store(out, total)


@triton.jit
def collatz(out, start):
    n = start
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(out, steps)


@triton.jit
def find_first(out, x, n, wanted):
    found = -1
    for i in range(n):
        if tl.load(x + i) == wanted:
            found = i
            break
    tl.store(out, found)


@triton.jit
def sum_odd_until(out, x, n, limit):
    total = 0
    for i in range(n):
        v = tl.load(x + i)
        if v % 2 == 0:
            continue
        if total + v > limit:
            break
        total += v
    tl.store(out, total)


@triton.jit
def early_return(out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(out + pid, pid + 1)


@triton.jit
def return_in_loop(out, x, n):
    for i in range(n):
        if tl.load(x + i) < 0:
            tl.store(out, i)
            return
    tl.store(out, n)


@triton.jit
def first_negative(x, n):
    for i in range(n):
        if tl.load(x + i) < 0:
            return i
    return n


@triton.jit
def call_first_negative(out, x, n):
    tl.store(out + tl.program_id(0), first_negative(x, n))


@triton.jit
def while_true(out, n):
    i = 0
    while True:
        i += 3
        if i > n:
            break
    tl.store(out, i)


@triton.jit
def nested(out, n, m):
    total = 0
    for i in range(n):
        for j in range(m):
            if j > i:
                break
            if (i + j) % 3 == 0:
                continue
            total += i * 10 + j
    tl.store(out, total)


@triton.jit
def branch_join(out, x, flag, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    v = tl.load(x + offs)
    if flag > 0:
        w = v * 2.0
        s = 1
    else:
        w = v - 1.0
        s = 2
    tl.store(out + offs, w + s)


@triton.jit
def min_max(a, b):
    return tl.minimum(a, b), tl.maximum(a, b)


@triton.jit
def tuple_return(out, x, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    low, high = min_max(tl.load(x + offs), tl.load(x + BLOCK + offs))
    pair = (low, high)
    tl.store(out + offs, pair[0])
    tl.store(out + BLOCK + offs, pair[1])


@triton.jit
def swap_in_loop(out, n):
    a = 1
    b = 2
    for _ in range(n):
        a, b = b, a + b
    tl.store(out, a)
    tl.store(out + 1, b)


@triton.jit
def swap_tiles(out, x, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    a = tl.load(x + offs)
    b = tl.load(x + BLOCK + offs)
    for _ in range(n):
        a, b = b, a
    tl.store(out + offs, a)
    tl.store(out + BLOCK + offs, b)


@triton.jit
def constexpr_branches(out, MODE: tl.constexpr, SCALE: tl.constexpr = None):
    if MODE == "double":
        v = 2
    elif MODE == "triple":
        v = 3
    else:
        v = 1
    if SCALE is not None:
        v = v * SCALE
    tl.store(out, v)


@triton.jit
def loop_index_after(out, n):
    for i in range(n):
        tl.store(out + i, i)
    tl.store(out + n, i)


@triton.jit
def ternary(out, n):
    a = 10 if n > 5 else 20
    b = a if n == 3 else -a
    tl.store(out, a)
    tl.store(out + 1, b)


@triton.jit
def logic(out, a, b):
    x = a > 0 and b > 0
    y = a > 0 or b > 0
    z = not x
    tl.store(out, x)
    tl.store(out + 1, y)
    tl.store(out + 2, z)
    if a > 0 and not b > 0:
        tl.store(out + 3, 7)


@triton.jit
def while_two(out, n):
    i = 0
    total = 0
    while i < n and total < 100:
        total += i * i
        i += 1
    tl.store(out, i)
    tl.store(out + 1, total)


@triton.jit
def pointer_carry(out, x, n, BLOCK: tl.constexpr):
    ptrs = x + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        acc += tl.load(ptrs)
        ptrs += BLOCK
    tl.store(out + tl.arange(0, BLOCK), acc)


@triton.jit
def factorial(N: tl.constexpr):
    if N <= 1:
        return 1
    else:
        return N * factorial(N - 1)


@triton.jit
def recursion(out):
    tl.store(out, factorial(5))


@triton.jit
def index_after(out, start, end, step):
    for i in range(start, end, step):
        pass
    tl.store(out, i)


@triton.jit
def numbers_of_too_many_bits(out):
    tl.store(out, tl.full((), 300, tl.int8).to(tl.int32))
    tl.store(out + 1, tl.cast(300, tl.int8).to(tl.int32))
    tl.store(out + 2, tl.full((), 5000000000, tl.int32))
    tl.store(out + 3, tl.full((), -1, tl.uint8).to(tl.int32))
    tl.store(out + 4, tl.cast(0xFFFFFFFF, tl.int32))
