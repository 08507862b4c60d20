"""Accesses outside of their argument, and between the elements of a strided one."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.check.planted import finds, passes
from tilewright import FootprintError, OutOfBoundsError
from tilewright.tools.tensor_descriptor import TensorDescriptor


def floats(n):
    return np.arange(n, dtype=np.float32)


@triton.jit
def no_mask(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs)  # here
    tl.store(out + offs, v, mask=offs < n)


@triton.jit
def mask_one_too_far(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs, mask=offs <= n, other=0)  # here
    tl.store(out + offs, v, mask=offs < n)


@triton.jit
def store_without_mask(x, out, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + offs, mask=offs < n, other=0)
    tl.store(out + offs, v)  # here


@triton.jit
def before_the_first(x, out, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(x + offs - 1))  # here


@triton.jit
def wrong_stride(x, out, stride, N: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, N)
    v = tl.load(x + row * stride + offs)  # here
    tl.store(out + row * N + offs, v)


@triton.jit
def swapped_strides(x, out, sm, sn, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * sn + n[None, :] * sm)  # here
    tl.store(out + m[:, None] * N + n[None, :], v)


@triton.jit
def gathers(x, places, out, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(x + tl.load(places + offs)))  # here


@triton.jit
def one_step_too_many(x, out, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for i in range(0, n + 1, B):
        total += tl.load(x + i + offs)  # here
    tl.store(out + offs, total)


@triton.jit
def adds_at(places, out, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.atomic_add(out + tl.load(places + offs), 1.0)  # here


@triton.jit
def helper(p, offs):
    return tl.load(p + offs)  # here


@triton.jit
def in_a_callee(x, out, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(out + offs, helper(x, offs + 1))


@triton.jit
def rows_of(x, out, sm, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * sm + n[None, :])  # here
    tl.store(out + m[:, None] * N + n[None, :], v)


@triton.jit
def fills(out, sm, value, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    tl.store(out + m[:, None] * sm + n[None, :], value)  # here


@triton.jit
def one_element(x, out, at):
    tl.store(out, tl.load(x + at))  # here


@triton.jit
def counts(out, at):
    tl.atomic_add(out + at, 1)  # here


@triton.jit
def descriptor_block(desc, out, M: tl.constexpr, N: tl.constexpr):
    v = desc.load([0, 0])  # here
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


def test_a_load_without_mask():
    error = finds(OutOfBoundsError, no_mask, (4,), floats(100), floats(100), 100, B=32, argument="x", index=100,
                  program=(3, 0, 0))
    assert error.bad.lane == (4,)


def test_a_mask_that_ends_one_too_far():
    finds(OutOfBoundsError, mask_one_too_far, (4,), floats(100), floats(100), 100, B=32, argument="x", index=100)


def test_a_store_without_mask_changes_nothing():
    out = np.zeros(100, np.float32)
    finds(OutOfBoundsError, store_without_mask, (1,), floats(100), out[:20], 100, B=32, argument="out", index=20)
    assert not out.any()


def test_before_the_first_element():
    finds(OutOfBoundsError, before_the_first, (1,), floats(64)[8:], floats(32), B=32, argument="x", index=-1)


def test_a_stride_that_is_too_large():
    finds(OutOfBoundsError, wrong_stride, (4,), floats(64).reshape(4, 16), floats(64), 17, N=16, argument="x", index=64,
          program=(3, 0, 0))


def test_swapped_strides():
    finds(OutOfBoundsError, swapped_strides, (1,), floats(24).reshape(3, 8), floats(24), 8, 1, M=3, N=8, argument="x")


def test_a_place_out_of_a_table():
    finds(OutOfBoundsError, gathers, (1,), floats(10), np.array([1, 2, 10, 3], np.int32), floats(4), B=4, argument="x",
          index=10)


def test_a_loop_that_runs_once_too_often():
    finds(OutOfBoundsError, one_step_too_many, (1,), floats(64), floats(16), 64, B=16, argument="x", index=64)


def test_an_atomic_out_of_bounds():
    finds(OutOfBoundsError, adds_at, (1,), np.array([0, -2, 3, 1], np.int64), floats(4), B=4, argument="out", index=-2)


def test_in_a_called_function():
    error = finds(OutOfBoundsError, in_a_callee, (1,), floats(16), floats(16), B=16, argument="x", index=16)
    assert error.location.caller is not None


def test_out_of_one_argument_and_into_another():
    both = floats(64)
    finds(OutOfBoundsError, one_element, (1,), both[:32], both[32:], 32, argument="x", index=32)


@pytest.mark.parametrize("which", ["columns", "every second", "rows", "diagonal"])
def test_between_the_elements(which):
    """In the extent of the tensor, but no element of it."""
    whole = floats(16 * 16).reshape(16, 16)
    view, stride, at = {
        "columns": (whole[:, :5], 16, 5), "every second": (whole.reshape(-1)[::2], 1, 1),
        "rows": (whole[::2], 1, 16), "diagonal": (whole.reshape(-1)[::17], 1, 1)}[which]
    finds(FootprintError, rows_of, (1,), view, floats(256), stride, M=3 if which == "columns" else 1,
          N=24 if which == "rows" else 8, argument="x", index=at)


def test_a_store_between_the_elements_changes_nothing():
    whole = np.zeros((8, 8), np.float32)
    finds(FootprintError, fills, (1,), whole[:, :6], 8, 1.0, M=4, N=7, argument="out", index=6)
    assert not whole.any()


def test_an_atomic_between_the_elements():
    finds(FootprintError, counts, (1,), np.zeros(16, np.int32)[::4], 2, argument="out", index=2)


def test_a_torch_tensor_has_strides():
    torch = pytest.importorskip("torch")
    x = torch.arange(64, dtype=torch.float32).reshape(8, 8)[:, 2:5]
    finds(FootprintError, rows_of, (1,), x, floats(64), 8, M=4, N=4, argument="x", index=3)


def test_reversed_views_count_from_their_pointer():
    x = floats(20)[::-2]
    finds(FootprintError, one_element, (1,), x, floats(1), -3, argument="x", index=-3)
    passes(one_element, (1,), x, floats(1), -4)


def test_a_descriptor_of_a_part():
    whole = floats(64).reshape(8, 8)
    finds(FootprintError, descriptor_block, (1,), TensorDescriptor(whole[:, :4], [8, 8], [8, 1], [4, 8]), floats(32),
          M=4, N=8)


def test_a_field_of_records():
    records = np.zeros(8, np.dtype([("a", np.float32), ("b", np.float32)]))
    finds(FootprintError, one_element, (1,), records["a"], floats(1), 1, argument="x", index=1)


def test_views_that_own_every_byte():
    whole = floats(64).reshape(8, 8)
    passes(rows_of, (1,), whole.T, floats(64), 8, M=8, N=8)
    passes(rows_of, (1,), np.broadcast_to(floats(8), (8, 8)), floats(64), 0, M=8, N=8)
    passes(rows_of, (1,), np.lib.stride_tricks.sliding_window_view(floats(12), 5), floats(64), 1, M=8, N=5)
    passes(rows_of, (1,), whole[2:5, 1:7], floats(64), 8, M=3, N=6)
