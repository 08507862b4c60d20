"""The layer that the host's own code is written in: small functions, compiled and called."""

import ctypes

import pytest

from tests.targets.cpu_host.kernels import CHILDREN, KINDS
from tilewright.targets.cpu.host.elf import Image
from tilewright.targets.cpu.host.library import Symbols, load_object
from tilewright.targets.cpu.host.native import NativeModule
from tilewright.targets.llvm.types import I8, I32, I64, PTR, constant

pytestmark = pytest.mark.skipif("linux" not in KINDS, reason="loads objects of this machine")


def compiled(write, *params, result=I64):
    """What `write(n, *values)` writes, as a function of Python ints; it ends with `n.end`."""
    module = NativeModule()
    module.external("abs", I32, I32)
    module.external("snprintf", I32, PTR, I64, PTR, variadic=True)
    n = module.function("f", [(f"p{k}", t) for k, t in enumerate(params)], result, public=True)
    write(n, *n.params)
    image = Image(load_object("", module.text, CHILDREN, None), Symbols())
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64 for _ in params))(image.symbols["f"])
    call.image = image      # the code lives as long as this
    return call


def test_loops_with_stop_and_again():
    """The sum of the odd numbers below the first one that is divisible by 7 and not below the argument."""
    def write(n, start):
        total, i = n.variable(0), n.variable(0)

        def step(stop, again):
            now = n.read(i)
            n.increase(i)
            ends = n.both(n.is_("uge", now, start), n.is_("eq", n.op("urem", now, 7), 0))
            n.when(ends, stop)
            n.when(n.is_("eq", n.both(now, 1), 0), again)
            n.increase(total, now)

        n.loop(step)
        n.end(n.read(total))

    f = compiled(write, I64)
    for start in (0, 1, 7, 8, 20, 100):
        end = -(-start // 7) * 7
        assert f(start) == sum(range(1, end, 2))


def test_nested_counts_and_early_return():
    """The first i * j of ascending i, j < n that is not below the limit, else -1."""
    def write(n, size, limit):
        n.count(0, size, lambda i: n.count(0, size, lambda j: n.when(
            n.is_("uge", n.mul(i, j), limit), lambda: n.leave(n.mul(i, j)))))
        n.end(-1)

    f = compiled(write, I64, I64)
    assert f(10, 20) == 21 and f(10, 81) == 81 and f(10, 82) == -1 and f(0, 0) == -1 and f(1, 0) == 0


def test_conditions_with_two_sides():
    def write(n, a, b):
        result = n.variable(0)
        n.when(n.is_("slt", a, b), lambda: n.write(result, n.sub(b, a)), lambda: n.write(result, n.sub(a, b)))
        n.end(n.add(n.read(result), n.mul(1000, n.least(a, b))))

    f = compiled(write, I64, I64)
    assert f(3, 10) == 3007 and f(10, 3) == 3007 and f(4, 4) == 4000


@pytest.mark.parametrize(("a", "b"), [(0, 1), (7, 7), (8, 7), (100, 9)])
def test_numbers(a, b):
    def write(n, x, y):
        n.end(n.add(n.mul(n.divided_up(x, y), 1000), n.greatest(x, y)))

    assert compiled(write, I64, I64)(a, b) == -(-a // b) * 1000 + max(a, b)


def test_memory_and_atomics():
    def write(n, address):
        p = n.as_pointer(address)
        n.put(p, 0, n.add(n.get(p, 0), 1))
        n.put(p, 8, constant(I32, -2))
        n.put(p, 12, n.narrow(n.atomic_get(p, 0), I32))
        before = n.atomic_change("add", p, 16, 5)
        swapped = n.exchange_if(p, 24, n.value(7), n.value(9))
        n.atomic_put(p, 32, n.either(n.op("shl", before, 8), n.widen(swapped)))
        n.put(n.item(p, 5), 3, constant(I8, 255))
        n.end(n.extend(n.get(p, 8, I32)))

    memory = (ctypes.c_int64 * 6)(41, 0, 100, 7, 0, 0)
    f = compiled(write, I64)
    assert f(ctypes.addressof(memory)) == -2
    assert list(memory) == [42, 42 << 32 | 0xFFFFFFFE, 105, 9, 100 << 8 | 1, 0xFF << 24]
    assert f(ctypes.addressof(memory)) == -2 and memory[3] == 9 and memory[4] == 105 << 8


def test_calls():
    def write(n, number, address):
        text = n.f.alloca(I8, 8)
        for k, letter in enumerate(b"<%d>\0"):
            n.put(text, k, constant(I8, letter))
        size = n.call("abs", n.narrow(number, I32))
        written = n.call("snprintf", n.as_pointer(address), 32, text, size, variadic="i32 (ptr, i64, ptr, ...)")
        n.end(n.extend(written))

    memory = ctypes.create_string_buffer(32)
    assert compiled(write, I64, I64)(-1234, ctypes.addressof(memory)) == 6 and memory.value == b"<1234>"
