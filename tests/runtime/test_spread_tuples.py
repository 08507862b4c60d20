"""Native launches with tuples and NumPy's numbers: the same kernels, results and errors as by Python."""

import gc
import sys
from collections import namedtuple
from contextlib import contextmanager

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import KernelAssertionError
from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.hooks import HOOKS
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.spread_launch import MOST_WAYS
from tilewright.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.unchecked("native code launches nothing there")

Pair = namedtuple("Pair", "x scale")
Other = namedtuple("Other", "x scale")
OFFSET = tl.constexpr(3)


@pytest.fixture
def through_python(monkeypatch):
    """The launches that Python does."""
    if DEVICES.cpu(knobs.snapshot()).launchers() is None:
        pytest.skip("this Python has no native launchers")
    seen, launch = [], JITFunction.launch_call

    def noted(self, call, grid, key):
        seen.append(call)
        return launch(self, call, grid, key)

    monkeypatch.setattr(JITFunction, "launch_call", noted)
    return seen


@contextmanager
def by_python():
    """All launches are Python's, inside."""
    HOOKS.judge_arguments(lambda *_: None)
    try:
        yield
    finally:
        HOOKS.judge_arguments(None)


@triton.jit
def twice(x):
    return x * 2


def scaled_source(o, p, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(p[0] + i, mask=i < n) * p[1] + OFFSET, mask=i < n)


def first_source(o, p, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(p[0] + i, mask=i < n) + OFFSET, mask=i < n)


def nested_source(o, p, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(p[1][0] + i, mask=i < n) * p[1][1] + p[0], mask=i < n)


def optional_source(o, p, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(p[0] + i, mask=i < n)
    if p[1] is not None:
        x += tl.load(p[1] + i, mask=i < n)
    tl.store(o + i, x, mask=i < n)


def block_source(o, p, n, B: tl.constexpr):
    i = tl.arange(0, p[1])
    tl.store(o + i, tl.load(p[0] + i, mask=i < n), mask=i < n)


def function_source(o, p, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, p[1](tl.load(p[0] + i, mask=i < n)), mask=i < n)


def described_source(o, p, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, p[0].load([0]) * p[1], mask=i < n)


CASES = {
    "tuple": (scaled_source, lambda x: (x, 5)),
    "named tuple": (scaled_source, lambda x: Pair(x, 5)),
    "one": (scaled_source, lambda x: (x, 1)),
    "float": (scaled_source, lambda x: (x, 2.5)),
    "bool": (scaled_source, lambda x: (x, True)),
    "wide": (scaled_source, lambda x: (x, 2**40)),
    "divisible": (scaled_source, lambda x: (x, 32)),
    "descriptors only": (first_source, lambda x: (x,)),
    "nested": (nested_source, lambda x: (7, (x, 5))),
    "named in a named tuple": (nested_source, lambda x: Pair(7, Pair(x, 5))),
    "None": (optional_source, lambda x: (x, None)),
    "two tensors": (optional_source, lambda x: (x, x)),
    "constexpr": (block_source, lambda x: (x, tl.constexpr(8))),
    "NumPy's number": (scaled_source, lambda x: (x, np.int64(1))),
    "function": (function_source, lambda x: (x, twice)),
    "descriptor": (described_source, lambda x: (TensorDescriptor.from_tensor(x, [8]), 5)),
}


@pytest.mark.parametrize(("source", "make"), CASES.values(), ids=CASES)
def test_the_fourth_launch_is_native(through_python, source, make):
    kernel = triton.jit(source)
    x = np.arange(8, dtype=np.float32)
    outs, compiled = [], set()
    for count in range(6):
        outs.append(np.zeros(8, np.float32))
        compiled.add(kernel[(1,)](outs[-1], make(x + count), 7, B=8))
    assert len(through_python) == 3 and len(compiled) == 1
    for count, out in enumerate(outs):
        expected = np.zeros(8, np.float32)
        with by_python():
            assert kernel[(1,)](expected, make(x + count), 7, B=8) in compiled
        np.testing.assert_array_equal(out, expected)
        assert out[:7].any() and out[7] == 0


def aligned(offset, dtype=np.float32):
    """Eight numbers, `offset` bytes behind a multiple of 16."""
    raw = np.zeros(8 * np.dtype(dtype).itemsize + 32, np.uint8)
    start = -raw.ctypes.data % 16 + offset
    found = raw[start:start + 8 * np.dtype(dtype).itemsize].view(dtype)
    found[:] = range(8)
    return found


@pytest.mark.parametrize("options", [{}, {"do_not_specialize": ["p"]}, {"do_not_specialize_on_alignment": ["p"]}],
                         ids=["plain", "not specialized", "not on alignment"])
def test_values_are_specialised_as_by_python(through_python, options):
    kernel = triton.jit(**options)(scaled_source)
    values = [cls(x, scale) for cls in (Pair, Other, lambda *items: items)
              for x in (aligned(0), aligned(4), aligned(0, np.float64), aligned(0, np.int32))
              for scale in (1, 3, 16, 2**31, 2**63, 1.0, True)]
    for value in values:
        native = []
        for _ in range(3):
            out = np.zeros(8, np.float32)
            native.append(kernel[(1,)](out, value, 7, B=8))
        before = len(through_python)
        native.append(kernel[(1,)](out, value, 7, B=8))
        assert len(through_python) == before + (value[1] == 2**63)       # is u64, which native code does not read
        with by_python():
            assert {kernel[(1,)](out, value, 7, B=8)} == set(native)
    del through_python[:]
    kernel[(1,)](out, value, 7, B=8)
    assert not through_python


def test_lengths_in_turn(through_python):
    @triton.jit
    def summed(o, xs):
        total = tl.load(o)
        for k in tl.static_range(len(xs)):
            total += tl.load(xs[k])
        tl.store(o, total)

    for _ in range(5):
        for count in (0, 1, 2, 3, 30):
            out = np.zeros(1, np.float32)
            summed[(1,)](out, tuple(np.full(1, k, np.float32) for k in range(count)))
            assert out[0] == sum(range(count))
    before = len(through_python)
    summed[(1,)](out, (out, out))
    assert len(through_python) == before + 1        # they overlap, which is compiled by Python
    summed[(1,)](out, (np.ones(1, np.float32),) * 2)
    assert len(through_python) == before + 1


def test_more_ways_than_are_kept(through_python):
    @triton.jit
    def counted(o, xs):
        tl.store(o, len(xs))

    out = np.zeros(1, np.int32)
    for _ in range(4):
        for count in range(MOST_WAYS + 5):
            counted[(1,)](out, (5,) * count)
            assert out[0] == count
    assert len(counted._natives) == MOST_WAYS


def test_more_parts_than_native_code_binds(through_python):
    @triton.jit
    def last(o, xs):
        tl.store(o, xs[len(xs) - 1])

    out = np.zeros(1, np.int32)
    for count in range(5):
        last[(1,)](out, (*[5] * 70, count))
        assert out[0] == count
    assert len(through_python) == 5


def test_further_positional_arguments(through_python):
    @triton.jit
    def summed(o, *xs):
        total = 0.0
        for k in tl.static_range(len(xs)):
            total += tl.load(xs[k])
        tl.store(o, total)

    for _ in range(5):
        for count in (0, 1, 3):
            out = np.zeros(1, np.float32)
            summed[(1,)](out, *(np.full(1, k, np.float32) for k in range(count)), num_warps=4)
            assert out[0] == sum(range(count))
    before = len(through_python)
    summed[(1,)](out, np.ones(1, np.float32), num_warps=4)
    assert len(through_python) == before


def test_ways_to_call(through_python):
    kernel, seen = triton.jit(scaled_source), []
    x = np.arange(8, dtype=np.float32)

    def grid(meta):
        seen.append(meta["p"])
        return (meta["p"][1],)

    for _ in range(5):
        for call in (lambda o: kernel[grid](o, n=8, p=(x, 2), B=8), lambda o: kernel[(1,)](o, (x, 2), 8, B=8),
                     lambda o: kernel[(1,)](o, (x, 2), 8, B=8, num_warps=2), lambda o: kernel[1,](o, (x, 2), 8, 8)):
            before, out = len(through_python), np.zeros(8, np.float32)
            call(out)
            np.testing.assert_array_equal(out, 2 * x + 3)
            last = len(through_python) - before
    assert last == 0 and len(seen) == 5 and all(p[0] is x and p[1] == 2 for p in seen)


def test_changed_globals_recompile(through_python, monkeypatch):
    kernel = triton.jit(scaled_source)
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for _ in range(5):
        kernel[(1,)](out, (x, 2), 8, B=8)
    monkeypatch.setitem(globals(), "OFFSET", tl.constexpr(4))
    for _ in range(5):
        kernel[(1,)](out, (x, 2), 8, B=8)
        np.testing.assert_array_equal(out, 2 * x + 4)
    assert len(through_python) < 8


def test_overlap_is_seen(through_python):
    @triton.jit
    def shifted(p, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(p.scale + i, tl.load(p.x + i) + 1)

    memory = np.zeros(24, np.float32)
    for _ in range(5):
        for start in (0, 1, 16):
            memory[:] = range(24)
            x, o = memory[:8], memory[start:start + 8]
            expected = x + 1
            found = shifted[(1,)](Pair(x, o), B=8)
            np.testing.assert_array_equal(o, expected)
            assert found.facts.disjoint == (start == 16)
    before = len(through_python)
    for start in (0, 1, 16):
        shifted[(1,)](Pair(memory[:8], memory[start:start + 8]), B=8)
    assert len(through_python) == before


def told(kernel, *args):
    """What a launch raises, without the frames."""
    with pytest.raises(Exception) as caught:
        kernel[(1,)](*args)
    return type(caught.value), str(caught.value)


def test_what_is_wrong_is_told(through_python):
    @triton.jit
    def scaled(p, o, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(o[0] + i, tl.load(p[0] + i) * p[1])

    x, out, fixed = (np.zeros(8, np.float32) for _ in range(3))
    fixed.flags.writeable = False
    wrong = [(((x, object()), (out,), 8)), ((x, "a"), (out,), 8), ((x, [1]), (out,), 8), ((x, 2**64), (out,), 8),
             ((x, 2), (fixed,), 8), ((x, 2), (np.zeros(8, object),), 8), ((x, 2), (out,)), ((x, 2), (out,), 8, 9),
             ((x, 2), (out,), [8])]
    cold = [told(scaled, *args) for args in wrong]
    for _ in range(5):
        scaled[(1,)]((x, 2), (out,), 8)
    assert [told(scaled, *args) for args in wrong] == cold
    del through_python[:]
    scaled[(1,)]((x, 2), (out,), 8)
    assert not through_python


def test_assertions_are_raised(through_python):
    @triton.jit(debug=True)
    def asserting(p):
        tl.device_assert(p[1] > 3, "small")
        tl.store(p[0], p[1])

    out = np.zeros(1, np.int32)
    for _ in range(5):
        asserting[(1,)]((out, 5))
    with pytest.raises(KernelAssertionError, match="small") as caught:
        asserting[(1,)]((out, 2))
    assert len(through_python) == 3 and len(caught.traceback) == 1


def test_hooks_see_every_launch(through_python):
    kernel, seen = triton.jit(scaled_source), []
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for _ in range(5):
        kernel[(1,)](out, (x, 2), 8, B=8)
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(args[1]))
    for _ in range(3):
        kernel[(1,)](out, (x, 2), 8, B=8)
    assert seen == [(x, 2)] * 3


def test_a_tuple_that_is_a_tensor(through_python):
    """What can be read as a tensor is one, whatever else it is."""
    class Both(tuple):
        dtype = np.dtype(np.float32)

        def data_ptr(self):
            return self[0].ctypes.data

    @triton.jit
    def put(o, value):
        tl.store(o, value)

    out = np.zeros(1, np.float32)
    for count in range(6):
        put[(1,)](Both((out,)), count)
        assert out[0] == count


def test_launches_leave_nothing_behind(through_python):
    kernel = triton.jit(scaled_source)
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)

    def launch(count):
        for _ in range(count):
            kernel[(1,)](out, Pair(x, 2), 8, B=8)
        gc.collect()
        return sys.getallocatedblocks()

    before, references = launch(100), sys.getrefcount(x)
    assert launch(5_000) - before < 300 and sys.getrefcount(x) == references


# -- numbers of NumPy's


def scaled_by_source(o, x, by, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) * by, mask=i < n)


def annotated(text):
    def kernel(o, x, by, n, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(o + i, tl.load(x + i, mask=i < n) * by, mask=i < n)
    kernel.__annotations__["by"] = text
    return triton.jit(kernel)


NUMBERS = [np.int8(-3), np.int16(48), np.int32(1), np.int64(16), np.longlong(5), np.uint8(200), np.uint32(2**32 - 1),
           np.uint64(2**63 + 5), np.float32(0.1), np.float64(0.1), np.float64(1e300), np.float16(0.5), np.bool_(True)]
MADE = {"plain": lambda: triton.jit(scaled_by_source),
        "not specialized": lambda: triton.jit(do_not_specialize=["by"])(scaled_by_source),
        "int64": lambda: annotated(tl.int64), "float": lambda: annotated(float), "fp64": lambda: annotated("fp64")}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_numbers_of_numpy_are_read_as_by_python(through_python, make):
    kernel, x = make(), np.arange(8, dtype=np.float64)
    for number in NUMBERS:
        out, expected = np.zeros(8), np.zeros(8)
        with by_python():
            try:
                compiled = kernel[(1,)](expected, x, number, 7, 8)
            except (TypeError, OverflowError) as error:
                for _ in range(4):
                    assert told(kernel, out, x, number, 7, 8) == (type(error), str(error))
                continue
        for _ in range(4):
            before = len(through_python)
            out[:] = 0
            assert kernel[(1,)](out, x, number, 7, 8) is compiled
            np.testing.assert_array_equal(out, expected)
        native = len(through_python) == before
        assert native or isinstance(number, np.float16 | np.bool_) or number == np.uint64(2**63 + 5)


# -- compile-time values that are equal, and other objects at each launch


def new(*items):
    """A tuple that is no constant of the code."""
    return items


def test_new_compile_time_tuples(through_python):
    @triton.jit
    def kernel(o, S: tl.constexpr, n):
        tl.store(o, S[0] * n + len(S))

    out = np.zeros(1, np.float32)
    for round_ in range(6):
        for sizes in ([5, 6], [5], [1, 2], [True, 2], [1.0, 2], [0.0], [-0.0], [tl.constexpr(5), 6], [5, 6, (7, 8)],
                      [np.int32(5), 6], [np.float32(5), 6]):
            before = len(through_python)
            found = kernel[(1,)](out, new(*sizes), n=2)
            in_python = len(through_python) - before
            with by_python():
                assert kernel[(1,)](out, new(*sizes), n=2) is found
            assert out[0] == 2 * getattr(sizes[0], "value", sizes[0]) + len(sizes)
            assert not in_python or round_ < 5
    assert len({kernel[(1,)](out, new(one, 2), n=2) for one in (1, True, 1.0)}) == 3
    assert len({kernel[(1,)](out, new(zero), n=2) for zero in (0.0, -0.0)}) == 2


def test_a_tuple_that_stays_is_known_without_python(through_python, monkeypatch):
    @triton.jit
    def kernel(o, S: tl.constexpr):
        tl.store(o, S[0])

    seen, launch = [], JITFunction._launch
    monkeypatch.setattr(JITFunction, "_launch", lambda self, *args: [seen.append(args), launch(self, *args)][1])
    out = np.zeros(1, np.float32)
    for _ in range(6):
        kernel[(1,)](out, (7, 8))
    assert len(seen) == 3
    for _ in range(6):
        kernel[(1,)](out, new(7, 8))
    del seen[:], through_python[:]
    kernel[(1,)](out, new(7, 8))
    assert len(seen) == 1 and not through_python


def test_new_tuples_and_a_grid_function(through_python):
    @triton.jit
    def kernel(o, S: tl.constexpr):
        tl.store(o + tl.program_id(0), S[0])

    out, asked = np.zeros(4, np.float32), []

    def grid(meta):
        asked.append(meta["S"])
        return (np.int64(meta["S"][1]),)        # which native code leaves to Python

    for _ in range(7):
        out[:] = 0
        kernel[grid](out, new(7, 3))
        assert out.tolist() == [7, 7, 7, 0]
    assert asked == [(7, 3)] * 7
