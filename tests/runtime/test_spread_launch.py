"""Native launches with tensor descriptors: what Python sees of them, and that they are the launches asked for."""

import pickle

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.jit import JITFunction
from tilewright.tools.tensor_descriptor import TensorDescriptor

describe = TensorDescriptor.from_tensor


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


def new_kernel():
    @triton.jit
    def added(x, y, n, out, BM: tl.constexpr, BN: tl.constexpr):
        i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
        out.store([i, j], x.load([i, j]) + y.load([i, j]) * n)
    return added


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_the_fourth_launch_is_native(through_python):
    added = new_kernel()
    for count in range(6):
        x, out = numbers(20, 40) + count, np.zeros((20, 40), np.float32)
        added[(3, 2)](describe(x, [8, 32]), describe(x, [8, 32]), 3, describe(out, [8, 32]), BM=8, BN=32)
        np.testing.assert_array_equal(out, 4 * x)
    assert len(through_python) == 3


def test_what_launches_leave_in_a_kernel_is_not_pickled():
    """As torch's compiler pickles one, which puts what it knows of it in the place of what cannot be pickled."""
    added = new_kernel()
    x, out = numbers(8, 32), np.zeros((8, 32), np.float32)
    stand_ins = {"fn": None, "__globals__": None, "used_global_vals": None, "repr": None}
    before = {name: getattr(added, name) for name in stand_ins}
    added.__dict__.update(stand_ins)
    names = set(added.__getstate__())
    added.__dict__.update(before)
    for _ in range(5):
        added[(1, 1)](describe(x, [8, 32]), describe(x, [8, 32]), 3, describe(out, [8, 32]), BM=8, BN=32)
        added.__dict__.update(stand_ins)
        state = added.__getstate__()
        added.__dict__.update(before)
        made = JITFunction.__new__(JITFunction)
        made.__setstate__(pickle.loads(pickle.dumps(state)) | before)
        out[:] = 0
        made[(1, 1)](describe(x, [8, 32]), describe(x, [8, 32]), 3, describe(out, [8, 32]), BM=8, BN=32)
        np.testing.assert_array_equal(out, 4 * x)
        assert names <= set(state)


def test_each_launch_has_its_own_numbers(through_python):
    """Sizes, strides, blocks, padding and the numbers beside them, in turn; others are specialised anew."""
    added = new_kernel()
    whole = numbers(48, 64)
    for _ in range(5):
        for rows, columns, step, block, padding, n in (
                (20, 40, 1, [8, 32], "zero", 3), (17, 33, 1, [8, 32], "zero", 1), (16, 64, 2, [8, 32], "zero", 16),
                (20, 40, 1, [16, 16], "zero", 3), (20, 40, 1, [8, 32], "nan", 3)):
            x = whole[:rows * step:step, :columns]
            out = np.zeros((rows, columns), np.float32)
            args = [describe(v, block, padding) for v in (x, x, out)]
            grid = (triton.cdiv(rows, block[0]), triton.cdiv(columns, block[1]))
            added[grid](args[0], args[1], n, args[2], BM=block[0], BN=block[1])
            np.testing.assert_array_equal(out, x * (n + 1))
    assert len(through_python) < 5 * 5


def test_ways_to_call(through_python):
    added = new_kernel()
    x, seen = numbers(20, 40), []

    def grid(meta):
        seen.append(meta["x"])
        return triton.cdiv(meta["x"].shape[0], meta["BM"]), triton.cdiv(40, meta["BN"])

    for _ in range(5):
        out = np.zeros((20, 40), np.float32)
        a, b = describe(x, [8, 32]), describe(out, [8, 32])
        added[grid](a, y=a, n=3, out=b, BN=32, BM=8)
        np.testing.assert_array_equal(out, 4 * x)
        out[:] = 0
        added[3, 2](a, a, 3, b, 8, 32, num_warps=2)
        np.testing.assert_array_equal(out, 4 * x)
    assert all(isinstance(d, TensorDescriptor) for d in seen) and len(seen) >= 5
    before = len(through_python)
    added[grid](a, y=a, n=3, out=b, BN=32, BM=8)
    added[3, 2](a, a, 3, b, 8, 32, num_warps=2)
    assert len(through_python) == before


def test_a_descriptor_that_is_changed(through_python):
    added = new_kernel()
    x, out = numbers(20, 40), np.zeros((20, 40), np.float32)
    a, b = describe(x, [8, 32]), describe(out, [8, 32])
    for _ in range(5):
        added[3, 2](a, a, 3, b, BM=8, BN=32)
    b.shape[0], b.base = 4, np.zeros((20, 40), np.float32)
    added[3, 2](a, a, 3, b, BM=8, BN=32)
    np.testing.assert_array_equal(b.base[:4], 4 * x[:4])
    assert not b.base[4:].any()


def test_what_is_wrong_is_told(through_python):
    added = new_kernel()
    x, out = numbers(20, 40), np.zeros((20, 40), np.float32)
    a, b = describe(x, [8, 32]), describe(out, [8, 32])
    for _ in range(5):
        added[3, 2](a, a, 3, b, BM=8, BN=32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out"):
        added[3, 2](a, a, 3, b, BM=8, BN=32)
    with pytest.raises(TypeError, match="'n'"):
        added[3, 2](a, a, object(), b, BM=8, BN=32)


def test_hooks_see_every_launch(through_python):
    added = new_kernel()
    x, out, seen = numbers(20, 40), np.zeros((20, 40), np.float32), []
    a, b = describe(x, [8, 32]), describe(out, [8, 32])
    for _ in range(5):
        added[3, 2](a, a, 3, b, BM=8, BN=32)
    added.add_pre_run_hook(lambda *args, **kwargs: seen.append(args))
    for _ in range(3):
        added[3, 2](a, a, 3, b, BM=8, BN=32)
    assert len(seen) == 3
