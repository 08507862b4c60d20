"""Launches that never come to Python: when they do so, that they do the same, and that they leak nothing."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import KernelAssertionError
from tilewright.runtime import knobs
from tilewright.runtime.grid import ANSWERED
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.native_launch import MOST_SPECS
from tilewright.targets.cpu.host.choice import best_kind
from tilewright.targets.cpu.host.records import WORD, Launcher, Spec

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(best_kind() != "linux", reason="native launchers are for Linux"),
    pytest.mark.unchecked("native code launches nothing there"),
]

OFFSET = tl.constexpr(3)


def fresh(fn):
    """A kernel of the test's own."""
    return triton.jit(fn)


def fresh_from(source):
    """A kernel of this text, in which `tl` is known."""
    namespace = {"tl": tl}
    source = textwrap.dedent(source)
    exec(source, namespace)
    return triton.jit(namespace["kernel"], source=source.lstrip())


def affine_source(x, o, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * a + OFFSET, mask=i < n)


@pytest.fixture
def affine():
    return fresh(affine_source)


@pytest.fixture
def slow(monkeypatch):
    """The arguments of the launches that came to Python."""
    calls = []
    launch = JITFunction._launch

    def counted(self, grid, key, args, kwargs):
        calls.append((self.__name__, key, args))
        return launch(self, grid, key, args, kwargs)

    monkeypatch.setattr(JITFunction, "_launch", counted)
    return calls


MAKERS = {"torch": lambda *a, **k: torch.tensor(*a, **k), "numpy": lambda v, dtype="float32": np.array(v, dtype)}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_fourth_launch_is_native(affine, slow, make):
    x, o = make([1.0, 2.0, 3.0]), make([0.0] * 3)
    for launch in range(6):
        o[:] = 0
        kernel = affine[(2,)](x, o, 2, 3, BLOCK=2)
        assert kernel.name == "affine_source" and o.tolist() == [5, 7, 9]
        assert len(slow) == min(launch + 1, 3)
    assert len(slow) == 3       # one to compile, one to learn the names, one to learn the key


class Typed:
    """An address and a dtype: what triton takes for a tensor."""

    def __init__(self, tensor, dtype=None):
        self.tensor, self.dtype = tensor, tensor.dtype if dtype is None else dtype

    def data_ptr(self):
        return self.tensor.data_ptr()


class Strided(Typed):
    """The same that says where it is, and what it reaches."""

    def __init__(self, tensor, dtype=None):
        super().__init__(tensor, dtype)
        self.shape, self.device = tensor.shape, tensor.device

    def stride(self):
        return self.tensor.stride()


class Subclass(torch.Tensor):
    pass


LIKE_TENSORS = {"typed": Typed, "strided": Strided, "subclass": lambda t: t.as_subclass(Subclass),
                "parameter": lambda t: type("Mine", (torch.nn.Parameter,), {})(t, requires_grad=False)}


@pytest.mark.parametrize("make", LIKE_TENSORS.values(), ids=LIKE_TENSORS)
def test_what_is_like_a_tensor_is_read_natively(affine, slow, make):
    for launch in range(6):
        x, o = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
        affine[(2,)](make(x), make(o), 2, 3, BLOCK=2)
        assert o.tolist() == [5, 7, 9]
        assert len(slow) == min(launch + 1, 3) or make is LIKE_TENSORS["parameter"]     # each of a new class
    affine[(2,)](x, make(o), 2, 3, BLOCK=2)
    assert o.tolist() == [5, 7, 9]


FIXED = [      # annotation, values that fit with what is stored of them, values that do not
    ("int", [0, 1, 16, -5, 2**31 - 1, -2**31, True], [2**31, -2**31 - 1, 2.0, 2**70]),
    ("tl.int64", [0, 1, 32, -2**63, 2**63 - 1, False], [2**63, 1.0]),
    ("tl.uint8", [0, 1, 16, 255, True], [256, -1]), ("tl.int8", [-128, 127, 16], [128, -129]),
    ("tl.uint64", [0, 1, 2**63 - 1], [-1, 2**64]), ("tl.int1", [0, 1, True, False], [2, -1]), ("bool", [True, 0], [2]),
    ("float", [0.5, 1.0, 3, -7.25, 16], ["a"]), ("tl.float64", [0.1, 1.0, 7, 2**60], ["a"]),
]


@pytest.mark.parametrize("annotation, good, bad", FIXED, ids=[case[0] for case in FIXED])
def test_numbers_whose_type_is_fixed(slow, annotation, good, bad):
    kernel = fresh_from(f"""
        def kernel(o, n: {annotation}):
            tl.store(o, n.to(tl.float64))
    """)
    o = torch.zeros(1, dtype=torch.float64)
    for _ in range(5):
        for value in good:
            kernel[(1,)](o.fill_(-1), value)
            assert o.item() == float(value)
    assert len(slow) <= 4       # two to learn how it is called, one for multiples of 16, one for others
    for value in bad:
        with pytest.raises((TypeError, OverflowError), match="parameter 'n'"):
            kernel[(1,)](o, value)
        kernel[(1,)](o, good[0])
    with pytest.raises(TypeError, match="takes a number"):
        kernel[(1,)](o, o)
    kernel[(1,)](o, good[0])
    assert o.item() == float(good[0])


def test_numbers_whose_half_precision_is_fixed_and_others_of_python_are_read_in_python():
    kernel = fresh_from("""
        def kernel(o, n: tl.float16, k: int):
            tl.store(o, n.to(tl.float32) + k)
    """)
    o = torch.zeros(1)
    for value in (0.5, 2, np.float32(0.1), 0.1, 0.1):
        kernel[(1,)](o, value, np.int64(3))
        assert o.item() == float(np.float16(value)) + 3


def test_pointers_whose_elements_are_fixed(slow):
    kernel = fresh_from("""
        def kernel(x: "*u32", o: tl.pointer_type(tl.float32)):
            tl.store(o, tl.load(x).to(tl.float32))
    """)
    for launch in range(6):
        o = torch.zeros(1)
        kernel[(1,)](torch.tensor([-1], dtype=torch.int32), o)
        assert o.item() == 2**32
        assert len(slow) == min(launch + 1, 3)
    kernel[(1,)](torch.tensor([7], dtype=torch.uint32), o)
    assert o.item() == 7
    for wrong in (3, 1.5, True):
        with pytest.raises(TypeError, match="parameter 'x': annotated as the pointer"):
            kernel[(1,)](wrong, o)


def test_elements_that_are_like_others_by_their_bits_are_told_apart(slow):
    @fresh
    def widened(x, o):
        tl.store(o, tl.load(x).to(tl.float32))

    bits, o = torch.tensor([0x3C00], dtype=torch.int16), torch.zeros(1)
    for _ in range(4):
        for dtype, value in ((torch.float16, 1.0), (torch.int16, 15360.0), (torch.bfloat16, 0.0078125)):
            widened[(1,)](Typed(bits, dtype), o)
            assert o.item() == value
        widened[(1,)](bits, o)
        assert o.item() == 15360
    assert len(slow) == 6       # a launch and the next, then one of each kind


def test_what_tells_of_itself_may_fail(affine):
    x, o = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    told = Typed(x)
    warm(affine, told, o, 2, 3, BLOCK=2)
    told.dtype = torch.complex64
    with pytest.raises(TypeError, match="parameter 'x': elements of dtype torch.complex64"):
        affine[(2,)](told, o, 2, 3, BLOCK=2)
    told.dtype = torch.float32
    for error in (KeyboardInterrupt, ZeroDivisionError, TimeoutError):
        def fails(error=error):
            raise error

        told.data_ptr = fails
        with pytest.raises(error):
            affine[(2,)](told, o, 2, 3, BLOCK=2)
    del told.data_ptr
    affine[(2,)](told, o, 2, 3, BLOCK=2)
    assert o.tolist() == [5, 7, 9]


def test_a_subclass_that_tells_of_its_data_itself_is_asked(affine, slow):
    class Other(torch.Tensor):
        def data_ptr(self):
            return o.data_ptr()

    class Hidden(torch.Tensor):
        def __getattribute__(self, name):
            return o.data_ptr if name == "data_ptr" else super().__getattribute__(name)

    x, o = torch.tensor([1.0, 2.0, 3.0]), torch.ones(3)
    for kind in (Other, Hidden):
        slow.clear()
        for _ in range(6):
            o.fill_(1)
            affine[(2,)](x.as_subclass(kind), o, 2, 3, BLOCK=2)
            assert o.tolist() == [5, 5, 5]
        assert len(slow) == 6


def warm(kernel, *args, grid=(1,), **kwargs):
    for _ in range(3):
        kernel[grid](*args, **kwargs)


CALLS = [
    lambda k, x, o: k[(2,)](x, o, 2, 3, 2),
    lambda k, x, o: k[(2,)](x, o, 2, 3, BLOCK=2),
    lambda k, x, o: k[(2,)](x, o, n=3, a=2, BLOCK=2),
    lambda k, x, o: k[(2,)](BLOCK=2, o=o, x=x, n=3, a=2),
    lambda k, x, o: k[(2, 1)](*(x, o, 2), n=3, BLOCK=2),
    lambda k, x, o: k[2, 1, 1](x, o, 2, 3, BLOCK=2, num_warps=4),
    lambda k, x, o: k[(2,)](x, o, 2, 3, num_stages=2, BLOCK=2, num_warps=4),
    lambda k, x, o: k[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, o, 2, 3, BLOCK=2),
    lambda k, x, o: k.run(x, o, 2, 3, BLOCK=2, grid=(2,)),
]


@pytest.mark.parametrize("call", CALLS)
def test_ways_to_call(affine, slow, call):
    x, o = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    for _ in range(5):
        o.zero_()
        call(affine, x, o)
        assert o.tolist() == [5, 7, 9]
    assert len(slow) == 3


def test_defaults(slow):
    @fresh
    def kernel(o, a=5, b: tl.constexpr = 7):
        tl.store(o, a + b)

    o = torch.zeros(1, dtype=torch.int32)
    for _ in range(5):
        kernel[(1,)](o)
    assert o.item() == 12 and len(slow) == 3
    for _ in range(5):
        kernel[(1,)](o, b=1)
    assert o.item() == 6 and len(slow) == 5


def test_values_that_change(affine, slow):
    """Values that are no part of the key are read at every launch."""
    x, o = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.zeros(4)
    warm(affine, x, o, 2, 3, BLOCK=4)
    del slow[:]
    for a, n in ((3, 2), (-7, 4), (2**31 - 1, 3), (0 + 5, 2)):
        o.zero_()
        affine[(1,)](x, o, a, n, BLOCK=4)
        expected = (x.double() * a + OFFSET.value).float()
        expected[n:] = 0
        assert o.tolist() == expected.tolist()
    assert not slow
    other = torch.zeros(4)
    affine[(1,)](x * 2, other, 3, 4, BLOCK=4)
    assert other.tolist() == [9, 15, 21, 27] and not slow


@pytest.mark.parametrize(("first", "second"), [
    (2, 1), (2, 16), (2, 2**31), (2, 2.5), (2, True), (2, np.int64(2)), (2.5, 2), (True, 2), (16, 2), (2**40, 2)])
def test_other_kinds_of_numbers_are_other_keys(affine, slow, first, second):
    """The second value's kernel is another one, and going back is native."""
    x, o = torch.tensor([1.0, 2.0]), torch.zeros(2)
    warm(affine, x, o, first, 2, BLOCK=2)
    del slow[:]
    a = affine[(1,)](x, o, first, 2, BLOCK=2)
    assert not slow
    b = affine[(1,)](x, o, second, 2, BLOCK=2)
    assert len(slow) == 1 and b is not a
    assert np.allclose(o.numpy(), x.numpy() * np.float32(second) + OFFSET.value)
    assert affine[(1,)](x, o, first, 2, BLOCK=2) is a and len(slow) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
                                   "uint8", "bool"])
def test_element_types(slow, dtype):
    @fresh
    def copy(x, o):
        tl.store(o + tl.arange(0, 4), tl.load(x + tl.arange(0, 4)))

    t = getattr(torch, dtype)
    x, o = torch.tensor([1, 0, 1, 1]).to(t), torch.zeros(4, dtype=t)
    y, p = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.complex64).real.contiguous(), torch.zeros(4)
    for _ in range(4):
        copy[(1,)](x, o)
        copy[(1,)](y, p)
    assert torch.equal(x, o) and torch.equal(y, p)
    if dtype != "bfloat16":
        a, b = x.numpy(), np.zeros_like(o.numpy())
        del slow[:]
        copy[(1,)](a, b)        # the key that torch's tensors have
        assert (a == b).all() and not slow


def test_alignment_is_part_of_the_key(affine, slow):
    x, o = torch.arange(8.0), torch.zeros(8)
    warm(affine, x, o, 2, 4, BLOCK=4)
    whole = affine[(1,)](x, o, 2, 4, BLOCK=4)
    del slow[:]
    shifted = affine[(1,)](x[1:], o, 2, 4, BLOCK=4)
    assert len(slow) == 1 and shifted is not whole
    assert affine[(1,)](x[1:], o, 2, 4, BLOCK=4) is shifted and len(slow) == 1
    assert o[:4].tolist() == [5, 7, 9, 11]


def test_overlap_is_seen(slow):
    """Disjoint arguments run another kernel than overlapping ones."""
    @fresh
    def shift(x, o, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)

    data = torch.arange(16.0)
    warm(shift, data, torch.zeros(16), 12, BLOCK=16)
    apart = shift[(1,)](data, torch.zeros(16), 12, BLOCK=16)
    assert apart.facts.disjoint
    for _ in range(3):
        base = torch.arange(16.0)
        together = shift[(1,)](base[0:12], base[4:16], 12, BLOCK=16)
        assert not together.facts.disjoint and base.tolist() == [0, 1, 2, 3, *range(12)]
    del slow[:]
    assert shift[(1,)](base[0:12], base[4:16], 12, BLOCK=16) is together
    assert shift[(1,)](data, torch.zeros(16), 12, BLOCK=16) is apart
    empty = base[4:4]
    assert shift[(1,)](empty, base, 0, BLOCK=16) is not together     # an empty tensor overlaps nothing
    backwards = np.arange(16, dtype=np.float32)
    assert not shift[(1,)](backwards[11::-1], backwards[:4], 1, BLOCK=16).facts.disjoint


def test_wide_is_seen(slow):
    @fresh
    def put(x, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), 1)

    small = np.zeros(64, np.int8)
    for _ in range(4):
        narrow = put[(1,)](small, BLOCK=16)
    assert not narrow.facts.wide
    large = np.lib.stride_tricks.as_strided(small, (2,), (2**30 - 1,))      # reaches far; only its start is touched
    for _ in range(3):
        wide = put[(1,)](large, BLOCK=16)
        assert wide.facts.wide
    del slow[:]
    assert put[(1,)](large, BLOCK=16) is wide and put[(1,)](small, BLOCK=16) is narrow and not slow


def test_read_only_arrays(affine):
    x, o = np.ones(4, np.float32), np.zeros(4, np.float32)
    warm(affine, x, o, 2, 4, BLOCK=4)
    x.flags.writeable = False
    affine[(1,)](x, o, 3, 4, BLOCK=4)
    assert o.tolist() == [6] * 4
    o.flags.writeable = False
    with pytest.raises(ValueError, match="'o' is a read-only array"):
        affine[(1,)](x, o, 3, 4, BLOCK=4)
    assert o.tolist() == [6] * 4


def test_changed_globals_recompile(affine, monkeypatch):
    x, o = torch.ones(2), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2)
    monkeypatch.setitem(globals(), "OFFSET", tl.constexpr(10))
    for _ in range(4):
        affine[(1,)](x, o, 2, 2, BLOCK=2)
        assert o.tolist() == [12, 12]



def test_changed_cells_and_helpers_recompile():
    step = tl.constexpr(1)

    @fresh
    def increment(x):
        return x + 1

    @fresh
    def double(x):
        return x * 2

    helper = increment

    @fresh
    def kernel(o):
        tl.store(o, helper(tl.load(o)) + step)

    o = np.zeros(1, np.int32)
    warm(kernel, o)
    assert o[0] == 6
    step = tl.constexpr(100)
    kernel[(1,)](o)
    assert o[0] == 107

    helper = double
    for k in range(4):
        kernel[(1,)](o)
    assert o[0] == ((((107 * 2 + 100) * 2 + 100) * 2 + 100) * 2 + 100)


def test_overridden_knobs_go_the_slow_way(affine, slow):
    x, o = torch.ones(2), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2)
    del slow[:]
    with knobs.scope(interpret=True):
        assert affine[(1,)](x, o, 2, 2, BLOCK=2) is None
    assert len(slow) == 1
    affine[(1,)](x, o, 2, 2, BLOCK=2)
    assert len(slow) == 1


@pytest.mark.parametrize("grid", [[2], (np.int64(2),), lambda meta: [2], lambda meta: (np.int32(2), 1), (2, 1, 1)])
def test_grids(affine, grid):
    x, o = torch.ones(4), torch.zeros(4)
    for _ in range(5):
        o.zero_()
        affine[grid](x, o, 2, 4, BLOCK=2)
        assert o.tolist() == [5] * 4


@pytest.mark.parametrize(("grid", "error", "text"), [
    (2, TypeError, "a grid is a tuple"), ((), ValueError, "1 to 3 sizes"), ((1, 1, 1, 2), ValueError, "1 to 3 sizes"),
    ((-1,), ValueError, "sizes are >= 0"), ((2**31,), ValueError, "at most"), ((1.5,), TypeError, "whole numbers"),
    (lambda meta: 1 // 0, ZeroDivisionError, "zero"), (lambda meta: meta["m"], KeyError, "m"),
    (lambda meta: None, TypeError, "the grid function returned None")])
def test_bad_grids(affine, grid, error, text):
    x, o = torch.ones(2), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2)
    with pytest.raises(error, match=text):
        affine[grid](x, o, 2, 2, BLOCK=2)
    affine[(1,)](x, o, 2, 2, BLOCK=2)
    assert o.tolist() == [5, 5]


class Sizes(tuple):
    """A tuple of another class, as torch.Size is."""


@pytest.mark.parametrize("returned", [(2,), [2], [2, 1, 1], (np.int64(2),), [np.int32(2), 1], Sizes((2,)),
                                      torch.Size([2]), (tl.constexpr(2),)], ids=repr)
@pytest.mark.parametrize("reads", [True, False])
def test_a_grid_function_is_called_once_a_launch(affine, slow, returned, reads):
    x, o, calls = torch.ones(4), torch.zeros(4), []

    def grid(meta):
        calls.append(meta["BLOCK"] if reads else dict(meta))
        return returned

    for launch in range(6):
        o.zero_()
        affine[grid](x, o, 2, 4, BLOCK=2)
        assert o.tolist() == [5] * 4 and len(calls) == launch + 1
    plain = type(returned) in (tuple, list) and all(type(size) is int for size in returned)
    assert len(slow) == (3 if plain else 6)


@pytest.mark.parametrize(("returned", "error", "text"), [
    ([], ValueError, "1 to 3 sizes, not 0"), ([1, 1, 1, 2], ValueError, "1 to 3 sizes, not 4"),
    ([-1], ValueError, "sizes are >= 0"), ([2**31], ValueError, "at most"), ([2.0], TypeError, "whole numbers"),
    (2, TypeError, "the grid function returned 2"), (len, TypeError, "the grid function returned <built-in"),
    ("ab", TypeError, "the grid function returned 'ab'")], ids=repr)
def test_a_grid_function_that_returns_no_grid_is_called_once(affine, returned, error, text):
    x, o, calls = torch.ones(2), torch.zeros(2), []

    def grid(meta):
        calls.append(meta["BLOCK"])
        return returned if len(calls) > 4 else (1,)

    for _ in range(4):
        affine[grid](x, o, 2, 2, BLOCK=2)
    with pytest.raises(error, match=text):
        affine[grid](x, o, 2, 2, BLOCK=2)
    assert len(calls) == 5


@pytest.mark.parametrize("reads", [True, False])
def test_what_a_grid_function_changes_counts_for_its_launch(affine, reads):
    """As in Python, where the grid is asked for before the kernel is looked up."""
    names, numbers = affine.__globals__, [OFFSET, tl.constexpr(10)]
    x, o, launches = torch.ones(4), torch.zeros(4), []

    def grid(meta):
        names["OFFSET"] = numbers[launches[-1] % 2]
        return meta["n"] if reads else dict(meta)["n"],

    try:
        for launch in range(12):
            launches.append(launch // 4)
            names["OFFSET"] = OFFSET
            affine[grid](x, o, 2, 4, BLOCK=1)
            assert o.tolist() == [2 + numbers[launches[-1] % 2].value] * 4
    finally:
        names["OFFSET"] = OFFSET


def test_a_grid_function_may_displace_what_its_launch_found(slow):
    @fresh
    def kernel(o, C: tl.constexpr):
        tl.store(o, C)

    o, other, launched = np.zeros(1, np.int32), np.zeros(1, np.int32), []

    def grid(meta):
        if meta["C"] == 0 and launched:
            for c in range(1, MOST_SPECS + 2):
                warm(kernel, other, c)
        return (1,)

    warm(kernel, o, 0, grid=grid)
    launched.append(1)
    o[0] = 7
    kernel[grid](o, 0)
    assert o[0] == 0 and other[0] == MOST_SPECS + 1


def test_a_hook_that_a_grid_function_sets_hears_of_its_launch(affine):
    x, o, told = torch.ones(2), torch.zeros(2), []
    hooks = []

    def grid(meta):
        for hook in hooks:
            knobs.runtime.launch_enter_hook.add(hook)
        return (1,)

    warm(affine, x, o, 2, 2, BLOCK=2, grid=grid)
    hooks.append(lambda metadata: told.append(metadata.get()["name"]))
    try:
        affine[grid](x, o, 2, 2, BLOCK=2)
    finally:
        for hook in hooks:
            knobs.runtime.launch_enter_hook.remove(hook)
    assert told == ["affine_source"]


def test_a_list_is_read_at_every_launch(affine, slow):
    x, o, grid = torch.ones(4), torch.zeros(4), [1]
    warm(affine, x, o, 2, 4, BLOCK=2, grid=grid)
    bound = affine[grid]
    slow.clear()
    for size, wanted in ((1, [5, 5, 0, 0]), (2, [5] * 4), (0, [0] * 4)):
        grid[0] = size
        for launch in (bound, affine[grid]):
            o.zero_()
            launch(x, o, 2, 4, BLOCK=2)
            assert o.tolist() == wanted
    assert not slow
    grid.append(-1)
    with pytest.raises(ValueError, match="sizes are >= 0"):
        bound(x, o, 2, 4, BLOCK=2)


def test_much_work_wakes_helpers_as_soon_as_the_next_grid_is_named():
    """The launcher notes whether the last launch wanted them."""
    def adds(o, rounds):
        value = tl.program_id(0).to(tl.float32)
        for _ in range(rounds):
            value = value * 0.5 + 1.0
        tl.store(o + tl.program_id(0), value)

    kernel, o = triton.jit(adds, do_not_specialize=["rounds"]), np.zeros(64, np.float32)
    with knobs.scope(num_threads=2):
        kernel[(64,)](o, 1)
    for _ in range(3):
        kernel[(64,)](o, 1)
    state = kernel._natives[()]._state
    for rounds, wanted in ((20_000, True), (1, False), (20_000, True)):
        deadline = time.monotonic() + 30
        while bool(state[Launcher.HELPERS // 8]) != wanted:
            assert time.monotonic() < deadline
            kernel[(64,)](o, rounds)
            time.sleep(0.001)
        kernel[(64,)](o, rounds)
        assert (o == 2).all() or rounds == 1
    unused = kernel[(64,)]      # wakes them in vain
    del unused


def test_the_mark_of_an_answered_grid_is_one():
    assert ANSWERED == Launcher.ANSWERED


def test_empty_grids_run_nothing(affine):
    x, o = torch.ones(2), torch.zeros(2)
    for _ in range(5):
        assert affine[(0,)](x, o, 2, 2, BLOCK=2) is not None
        assert affine[(1, 0)](x, o, 2, 2, BLOCK=2) is not None
    assert o.tolist() == [0, 0]


def test_what_a_grid_function_gets(affine):
    x, o = torch.ones(2), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2)
    seen = []

    def grid(meta):
        seen.append(dict(meta))
        assert list(meta) == ["x", "o", "a", "n", "BLOCK"] and meta["x"] is x and meta["o"] is o
        return (1,)

    for n in (2, 1, 2, 2):
        affine[grid](x, o, 2, n, BLOCK=2)
    assert [(m["a"], m["n"], m["BLOCK"]) for m in seen] == [(2, 2, 2), (2, 1, 2), (2, 2, 2), (2, 2, 2)]
    keeper = []

    def keeping(meta):
        keeper.append(meta)
        meta["other"] = 1
        meta["n"] = 99
        return (1,)

    for _ in range(4):
        affine[keeping](x, o, 2, 2, BLOCK=2)
    assert all(m["n"] == 99 and m["x"] is x for m in keeper) and len({id(m) for m in keeper}) == 4

    def spoiling(meta):
        meta["n"] = 99
        meta["other"] = 1
        return (1,)

    affine[spoiling](x, o, 2, 2, BLOCK=2)
    affine[grid](x, o, 2, 2, BLOCK=2)
    assert seen[-1]["n"] == 2


def test_tensors_are_not_kept(affine):
    x, o = np.ones(2, np.float32), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2, grid=lambda meta: (1,))
    affine[lambda meta: (1,)](x, o, 2, 2, BLOCK=2)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(("args", "kwargs", "error", "text"), [
    ((), {}, TypeError, "missing"), (("x", "o", 2, 2, 2, 5), {}, TypeError, "takes 5 positional"),
    (("x", "o", 2, 2), {"BLOCK": 2, "color": 1}, KeyError, "color"),
    (("x", "o", 2, 2, 2), {"BLOCK": 2}, TypeError, "multiple values"),
    (("x", "o", [1], 2), {"BLOCK": 2}, TypeError, "failed to specialize"),
    (("x", "o", 2, 2), {"BLOCK": [2]}, TypeError, "hashable"),
    (("x", "o", 2, 2), {"BLOCK": 2, "num_warps": 3}, ValueError, "power of 2"),
    (("x", "meta", 2, 2), {"BLOCK": 2}, TypeError, "meta device"),
    (("x", "sparse", 2, 2), {"BLOCK": 2}, TypeError, "has no data")])
def test_bad_arguments(affine, args, kwargs, error, text):
    x, o = torch.ones(2), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2)
    named = {"x": x, "o": o, "meta": torch.zeros(2, device="meta"), "sparse": torch.zeros(2).to_sparse()}
    for _ in range(3):
        with pytest.raises(error, match=text):
            affine[(1,)](*(named.get(a, a) if isinstance(a, str) else a for a in args), **kwargs)
    affine[(1,)](x, o, 2, 2, BLOCK=2)
    assert o.tolist() == [5, 5]


def test_the_negative_bit_of_a_tensor_is_seen(affine, slow):
    """Of torch's tensors only views of a conjugate's imaginary part have it; what looks like them is launched."""
    z = torch.arange(1.0, 9.0) * (1 - 1j)
    o, wide = torch.zeros(2), torch.arange(16.0).reshape(4, 4)
    for x in (torch.ones(2), torch.ones(9)[1:5]):       # on both alignments
        for n in (1, 2):
            warm(affine, x, o, 2, n, BLOCK=2)
    negative = z.conj().imag
    for x in (negative, negative[::2], negative[0], negative[:1], negative.reshape(2, 4).t(),
              negative[2].unsqueeze(0), negative[2].reshape(1), negative[2].reshape(1, 1)):
        with pytest.raises(TypeError, match="parameter 'x': its negative bit is set.*pass tensor.resolve_neg"):
            affine[(1,)](x, o, 2, 2, BLOCK=2)
    affine[(1,)](negative.resolve_neg(), o, 2, 2, BLOCK=2)
    assert o.tolist() == [5, 7]
    for x, n in ((z.real, 2), (z.imag, 2), (wide[:, 0], 2), (wide[:, 1::2], 2), (wide[0, 1], 1), (wide[0, 3:], 1),
                 (torch.ones(1).expand(4), 1), (torch.ones(2, 2).t(), 2)):
        warm(affine, x, o, 2, n, BLOCK=2)
        del slow[:]
        affine[(1,)](x, o, 2, n, BLOCK=2)
        assert not slow


def test_parameters_and_gradients_are_native(affine, slow):
    x = torch.nn.Parameter(torch.ones(2))
    y, o = torch.ones(2, requires_grad=True), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2)
    del slow[:]
    affine[(1,)](x, o, 2, 2, BLOCK=2)
    affine[(1,)](y, o, 2, 2, BLOCK=2)
    assert o.tolist() == [5, 5] and not slow


def test_other_tensors_go_the_slow_way(affine, slow):
    class Mine(torch.Tensor):
        pass

    class Holder:
        def __init__(self, tensor):
            self.tensor, self.dtype = tensor, tensor.dtype

        def data_ptr(self):
            return self.tensor.data_ptr()

    x, o = torch.ones(2), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2)
    for thing in (x.as_subclass(Mine), Holder(x), x.numpy().view(np.recarray)):
        del slow[:]
        o.zero_()
        affine[(1,)](thing, o, 2, 2, BLOCK=2)
        assert o.tolist() == [5, 5] and len(slow) == 1


def test_constants(slow):
    """Compile-time values by type and value, or by identity."""
    @fresh
    def kernel(o, C: tl.constexpr, T: tl.constexpr):
        tl.store(o, tl.cast(C, T))

    o = np.zeros(1, np.float32)
    for c in (1, 1.0, True, 2, 2**70 % 1000, 0.1, -0.0, 0.0, 1):
        for _ in range(2):
            kernel[(1,)](o, c, tl.float32)
            assert o[0] == np.float32(c)
    assert len({id(kernel[(1,)](o, c, tl.float32)) for c in (1, 1.0, True)}) == 3
    assert len({id(kernel[(1,)](o, c, tl.float32)) for c in (0.0, -0.0)}) == 2
    big = [int("1024") for _ in range(2)]
    for value in big:
        kernel[(1,)](o, value, tl.float32)
    del slow[:]
    kernel[(1,)](o, int("1024"), tl.float32)        # another object, the same value
    assert o[0] == 1024 and not slow


def test_more_specialisations_than_the_table_holds(slow):
    @fresh
    def kernel(o, C: tl.constexpr):
        tl.store(o, C)

    o = np.zeros(1, np.int32)
    many = range(2, MOST_SPECS + 7)
    for _ in range(3):
        for c in many:
            kernel[(1,)](o, c)
            assert o[0] == c
    del slow[:]
    kernel[(1,)](o, many[-1])
    assert not slow


def chained(native):
    """The addresses of the specialisations that native code looks through."""
    found, at = [], native._state[Launcher.SPECS // WORD]
    while at:
        found.append(at)
        at = ctypes.c_int64.from_address(at + Spec.NEXT).value
    return found


@pytest.mark.parametrize("again", [True, False], ids=["replaced", "displaced"])
def test_what_is_chained_is_alive(affine, monkeypatch, again):
    """Other threads launch at any time, also while a specialisation goes."""
    x, o = np.ones(4, np.float32), np.zeros(4, np.float32)
    warm(affine, x, o, 2, 4, BLOCK=4)
    native = affine._natives[()]
    learned, = native._specs.values()
    gone = []
    weakref.finalize(learned, lambda at: gone.append(at in chained(native)), ctypes.addressof(learned.record))
    del learned
    if again:
        monkeypatch.setitem(globals(), "OFFSET", tl.constexpr(4))
        warm(affine, x, o, 2, 4, BLOCK=4)
        assert (o == 6).all()
    else:
        for constant in range(MOST_SPECS):
            warm(affine, x, o, 2, 4, BLOCK=8, num_stages=constant + 1)
    assert gone == [False]


def test_assertions_and_interrupts_are_raised():
    @triton.jit(debug=True)
    def kernel(o, n):
        tl.device_assert(tl.program_id(0) < n, "too many programs")
        tl.store(o + tl.program_id(0), 1)

    o = np.zeros(8, np.int32)
    warm(kernel, o, 8, grid=(8,))
    for _ in range(3):
        with pytest.raises(KernelAssertionError, match=r"program \(5, 0, 0\): too many programs") as caught:
            kernel[(6,)](o, 5)
        assert "test_native_launch.py" in str(caught.value)
    kernel[(5,)](o, 5)


def test_bound_launchers_outlive_the_name(affine):
    x, o = torch.ones(2), torch.zeros(2)
    early = affine[(1,)]
    warm(affine, x, o, 2, 2, BLOCK=2)
    bound = [affine[(1,)] for _ in range(3)]
    alive = weakref.ref(affine)
    del affine
    gc.collect()
    for launch in (early, *bound):
        o.zero_()
        launch(x, o, 2, 2, BLOCK=2)
        launch(x, o, a=2, n=2, BLOCK=2)
        assert o.tolist() == [5, 5]
    assert alive() is not None


def test_bound_launchers_outlive_a_hook(affine):
    """What was bound before a hook came calls it, too."""
    x, o, seen = torch.ones(2), torch.zeros(2), []
    warm(affine, x, o, 2, 2, BLOCK=2)
    early = affine[(1,)]
    for k in range(3):
        affine.add_pre_run_hook(lambda *args, **kwargs: seen.append(kwargs))
        gc.collect()
        others = [bytearray(8 * size) for size in range(1, 40) for _ in range(50)]      # where its tables were
        early(x, o, 2, 2, BLOCK=2)
        assert len(seen) == (k + 1) * (k + 2) // 2 and o.tolist() == [5, 5] and others


def test_kernels_are_collected():
    kernel = fresh(affine_source)
    x, o = torch.ones(2), torch.zeros(2)
    warm(kernel, x, o, 2, 2, BLOCK=2, grid=lambda meta: (1,))
    alive = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert alive() is None


def test_threads(affine):
    """Several threads launch one kernel, with keys of their own and a common one."""
    errors = []

    def work(k):
        x, o = torch.full((4,), float(k)), torch.zeros(4)
        for i in range(300):
            affine[lambda meta: (2,)](x, o, k + i % 3, 4, BLOCK=2)
            if o[3].item() != k * (k + i % 3) + 3:
                errors.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_launches_leak_nothing(affine):
    x, o, X = torch.ones(2), torch.zeros(2), np.ones(2, np.float32)
    bad = torch.zeros(2, device="meta")
    grid, function = (1,), lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)
    listed, other = [1], Sizes((1,))

    def launches(count):
        for _ in range(count):
            affine[grid](x, o, 2, 2, BLOCK=2)
            affine[function](x, o, 1000, 2, BLOCK=2)
            affine[grid](X, o, n=2, a=2.5, BLOCK=2)
            affine[listed](x, o, 1000, 2, BLOCK=2)
            affine[lambda meta: listed](x, o, 2, 2, BLOCK=2)

    def failures(count):
        for _ in range(count):
            for arguments in ((bad, o, 2, 2, 2), (x, o)):
                try:
                    affine[grid](*arguments)
                except TypeError:
                    pass
            affine[lambda meta: other](x, o, 2, 2, BLOCK=2)

    things = (x, o, X, grid, function, listed, other, affine, bad, type(affine[grid]), True, "BLOCK")

    def references():
        gc.collect()
        return [sys.getrefcount(t) for t in things if sys.getrefcount(t) < 2**30]

    launches(200)
    failures(20)
    before = references()
    memory = int(open("/proc/self/statm").read().split()[1])
    launches(25_000)
    failures(200)
    assert references() == before
    assert int(open("/proc/self/statm").read().split()[1]) - memory < 128


def test_hot_launches_take_no_python(affine):
    """Ten thousand launches in a time that a launch through Python does not reach."""
    x, o = torch.ones(1), torch.zeros(1)
    warm(affine, x, o, 2, 1, BLOCK=16)
    start = time.thread_time()
    for _ in range(10_000):
        affine[(1,)](x, o, 2, 1, BLOCK=16)
    assert (time.thread_time() - start) / 10_000 < 4e-6


ENDLESS = """
    import os, signal, sys, threading, time
    import numpy as np
    import tilewright as triton
    import tilewright.language as tl

    @triton.jit
    def wait(flag):
        tl.store(flag + 1, 1)
        while tl.load(flag, volatile=True) == 0:
            pass

    flag = np.array([1, 0])
    for _ in range(4):
        wait[({programs},)](flag)
    flag[:] = 0

    def interrupt():
        while not flag[1]:
            time.sleep(0.001)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    if {interrupt}:
        threading.Thread(target=interrupt, daemon=True).start()
    try:
        wait[({programs},)](flag)
    except (KeyboardInterrupt, TimeoutError) as error:
        print(type(error).__name__, error)
        flag[0] = 1
        wait[({programs},)](flag)
        sys.exit(0)
    sys.exit(4)
"""


@pytest.mark.parametrize("host", ["linux", "portable"])
@pytest.mark.parametrize("programs", [1, 50])
@pytest.mark.parametrize("interrupt", [True, False])
def test_an_endless_kernel_ends(tmp_path, host, programs, interrupt):
    """By Ctrl-C, or by the time limit, with the loop's line and the program."""
    file = tmp_path / "endless.py"
    file.write_text(textwrap.dedent(ENDLESS).format(programs=programs, interrupt=interrupt))
    environment = {**os.environ, "TILEWRIGHT_HOST": host, "PYTHONPATH": os.pathsep.join(sys.path)}
    if not interrupt:
        environment["TILEWRIGHT_TIMEOUT"] = "0.5"
    child = subprocess.run([sys.executable, str(file)], timeout=100, capture_output=True, text=True, env=environment)
    assert child.returncode == 0, child.stdout + child.stderr
    assert child.stdout.startswith("KeyboardInterrupt at " if interrupt else "TimeoutError at ")
    assert "endless.py:10:" in child.stdout and "was in this loop" in child.stdout and "program (" in child.stdout


def test_ctypes_is_not_needed_by_hot_launches(affine, monkeypatch):
    x, o = torch.ones(2), torch.zeros(2)
    warm(affine, x, o, 2, 2, BLOCK=2)
    monkeypatch.setattr(ctypes, "c_int64", None)
    affine[(1,)](x, o, 3, 2, BLOCK=2)
    assert o.tolist() == [6, 6]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_what_a_signals_handler_raises_stays_as_it_is():
    class OwnError(Exception):
        pass

    def handler(*_):
        raise OwnError("mine")

    @triton.jit
    def wait(flag):
        tl.store(flag + 1, 1)
        while tl.load(flag, volatile=True) == 0:
            pass

    flag = np.array([1, 0])
    warm(wait, flag)
    flag[:] = 0

    def alarm():
        while not flag[1]:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        thread = threading.Thread(target=alarm)
        thread.start()
        with pytest.raises(OwnError, match="mine"):
            wait[(2,)](flag)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_finalisers_of_the_same_garbage_launch_still():
    """Python may finalise the tables first; at its end all of a program is such garbage."""
    x, o, seen = np.ones(4, np.float32), np.zeros(4, np.float32), []

    class Last:
        def __del__(self):
            for grid in ((2,), (2,), lambda meta: (meta["n"],), lambda meta: (dict(meta)["n"],)):
                o[:] = 0
                self.kernel[grid](x, o, 2, 4, BLOCK=2)
                seen.append(o.tolist())

    for _ in range(20):     # in whatever order
        kernel, last = fresh(affine_source), Last()
        for grid in ((2,), lambda meta: (meta["n"],), lambda meta: (dict(meta)["n"],)):
            warm(kernel, x, o, 2, 4, BLOCK=2, grid=grid)
        kernel.last, last.kernel = last, kernel
        del kernel, last
        gc.collect()
    assert seen == [[5] * 4] * 80
