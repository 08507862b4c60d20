"""`compiled[grid](*all_arguments)`: what fits is launched by native code, what does not is an error, always."""

import gc
import weakref

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.runtime import knobs, relaunch
from tilewright.targets.cpu.host.choice import best_kind

pytestmark = [
    pytest.mark.skipif(best_kind() != "linux", reason="native launchers are for Linux"),
    pytest.mark.unchecked("interpreted kernels are launched by Python"),
]
OFFSET = tl.constexpr(3)


def affine_source(x, o, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * a + OFFSET, mask=i < n)


@pytest.fixture
def slow(monkeypatch):
    """The keys of the launches that came to Python."""
    keys, launch = [], relaunch.Relauncher.launch

    def counted(self, kernel, grid, key, args):
        keys.append(key)
        launch(self, kernel, grid, key, args)

    monkeypatch.setattr(relaunch.Relauncher, "launch", counted)
    return keys


def compiled_for(*args, grid=(2,)):
    return triton.jit(affine_source)[grid](*args)


def numbers():
    return np.array([1, 2, 3], np.float32), np.zeros(3, np.float32)


@pytest.mark.parametrize("grid", [(2, 1, 1), (2,), [2, 1], (2, 1, 1, 1), (2, 1, 1, 1, 1)])
def test_the_fourth_launch_is_native(slow, grid):
    x, o = numbers()
    kernel = compiled_for(x, o, 2, 3, 2)
    for launch in range(6):
        o[:] = 0
        assert kernel[grid](x, o, 2, 3, 2) is kernel
        assert o.tolist() == [5, 7, 9]
        assert len(slow) == min(launch + 1, 3)


def test_other_numbers_and_arrays_are_native_too(slow):
    x, o = numbers()
    kernel = compiled_for(x, o, 2, 3, 2)
    for a in range(2, 9):
        other, out = np.array([a, 0, 1], np.float32), np.zeros(3, np.float32)
        kernel[(2,)](other, out, a, 3, 2)
        assert out.tolist() == [a * a + 3, 3, a + 3]
    assert len(slow) == 3


def test_what_it_was_not_compiled_for_is_an_error_however_often_it_was_launched(slow):
    x, o = numbers()
    kernel = compiled_for(x, o, 2, 3, 2)
    twice = np.zeros(16, np.float32)
    for _ in range(5):
        kernel[(2,)](x, o, 2, 3, 2)
        for args, error, words in (
                ((x.astype(np.float64), o, 2, 3, 2), ValueError, "'x' is "),
                ((x, o, 2, 3, 4), ValueError, "'BLOCK' is "), ((x, o, 2.5, 3, 2), ValueError, "'a' is "),
                ((x, o, 1, 3, 2), ValueError, "'a' is "), ((x, o, 2, 3), TypeError, "takes all 5 arguments"),
                ((twice[4:12], twice[:8], 2, 3, 2), ValueError, "overlap")):
            with pytest.raises(error, match=words):
                kernel[(2,)](*args)
    o.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        kernel[(2,)](x, o, 2, 3, 2)
    with pytest.raises(ValueError, match="1 to 3 sizes, not 4"):
        kernel[(2, 1, 1, 2)](x, numbers()[1], 2, 3, 2)


def test_a_kernel_for_overlapping_arrays_takes_others(slow):
    twice = np.arange(4, dtype=np.float32)
    kernel = compiled_for(twice[:3], twice[1:], 2, 3, 4, grid=(1,))
    for _ in range(5):
        x, o = numbers()
        kernel[(1,)](x, o, 2, 3, 4)
        assert o.tolist() == [5, 7, 9]
    assert len(slow) == 3


def test_a_kernel_for_any_number_takes_multiples_of_16(slow):
    x, o = (np.zeros(20, np.float32)[1:4] for _ in range(2))
    kernel = compiled_for(x, o, 2, 3, 4, grid=(1,))
    for _ in range(5):
        aligned = np.zeros(8, np.float32)
        kernel[(1,)](x, aligned[(-aligned.ctypes.data // 4) % 4:], 16, 3, 4)
        assert 3 in aligned
    assert len(slow) == 3


def test_hooks_are_told_of_every_launch():
    x, o = numbers()
    kernel, seen = compiled_for(x, o, 2, 3, 2), []
    for _ in range(4):
        kernel[(2,)](x, o, 2, 3, 2)
    hook = lambda told: seen.append(told.get()["function"])  # noqa: E731
    knobs.runtime.launch_enter_hook.add(hook)
    try:
        kernel[(2,)](x, o, 2, 3, 2)
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)
    kernel[(2,)](x, o, 2, 3, 2)
    assert seen == [kernel]


def test_it_is_the_same_code_whatever_its_globals_are_now(monkeypatch, slow):
    x, o = numbers()
    kernel = compiled_for(x, o, 2, 3, 2)
    for _ in range(4):
        kernel[(2,)](x, o, 2, 3, 2)
    monkeypatch.setitem(globals(), "OFFSET", tl.constexpr(100))
    kernel[(2,)](x, o, 2, 3, 2)
    assert o.tolist() == [5, 7, 9] and len(slow) == 3


def test_a_kernel_that_nobody_has_is_gone_at_once():
    x, o = numbers()
    function = triton.jit(affine_source)
    kernel = function[(2,)](x, o, 2, 3, 2)
    for _ in range(5):
        kernel[(2,)](x, o, 2, 3, 2)
    gone = weakref.ref(kernel)
    del function
    gc.collect()
    gc.disable()
    try:
        del kernel
        assert gone() is None
    finally:
        gc.enable()


def test_what_is_bound_keeps_the_kernel():
    x, o = numbers()
    kernel = compiled_for(x, o, 2, 3, 2)
    for _ in range(5):
        bound = kernel[(2,)]
        bound(x, o, 2, 3, 2)
    del kernel
    gc.collect()
    o[:] = 0
    bound(x, o, 2, 3, 2)
    assert o.tolist() == [5, 7, 9]
