"""Variables at branches and loops in the eager engine: what they are afterwards, as in compiled code."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.testing.engines import launch

ENGINES = ["eager", "batched"]


@triton.jit
def constant_changed_in_a_branch(x, out, n):
    k: tl.constexpr = 1
    m = k
    if n > 3:
        m = 2
    v = tl.load(x)
    tl.store(out, ((v + m).dtype == tl.int32) + 0)
    tl.store(out + 1, m)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n", [2, 5])
def test_a_variable_after_a_branch_is_a_run_time_value_either_way(engine, n):
    out = np.zeros(2, np.int32)
    launch(engine, constant_changed_in_a_branch, (1,), np.array([1], np.int8), out, n)
    assert out.tolist() == [1, 2 if n > 3 else 1]


@triton.jit
def carried_constant(x, out, n):
    v = tl.load(x)
    step = 1
    wide = 0
    for _ in range(n):
        wide = ((v + step).dtype == tl.int32) + 0
        step = step + 1
    tl.store(out, wide)
    tl.store(out + 1, step)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_that_a_loop_changes_is_a_scalar_from_the_first_iteration(engine):
    out = np.zeros(2, np.int32)
    launch(engine, carried_constant, (1,), np.array([1], np.int8), out, 1)
    assert out.tolist() == [1, 2]


@triton.jit
def kept_constant(out, n):
    for _ in range(n):
        C: tl.constexpr = 4
        tl.store(out + tl.arange(0, C), 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_constexpr_of_a_loop_body_stays_one(engine):
    out = np.zeros(8, np.int32)
    launch(engine, kept_constant, (1,), out, 3)
    assert out.tolist() == [1] * 4 + [0] * 4


@triton.jit
def index_after(out, n, m):
    for i in range(n, m):
        pass
    tl.store(out, i)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n, m, last", [(0, 5, 4), (7, 3, 7)])
def test_the_index_stays_after_the_loop(engine, n, m, last):
    out = np.zeros(1, np.int32)
    launch(engine, index_after, (1,), out, n, m)
    assert out[0] == last


@triton.jit
def index_types(out, n32, n64, nu):
    for i in range(n32):
        tl.store(out, (i.dtype == tl.int32) + 0)
    for i in range(n64):
        tl.store(out + 1, (i.dtype == tl.int64) + 0)
        break
    for i in range(tl.load(nu)):
        tl.store(out + 2, (i.dtype == tl.uint32) + 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_index_has_the_type_of_the_bounds(engine):
    out = np.zeros(3, np.int32)
    launch(engine, index_types, (1,), out, 2, 2**40, np.array([2], np.uint32))
    assert out.tolist() == [1, 1, 1]


@triton.jit
def zero_step(out, step):
    for i in range(0, 4, step):
        tl.store(out, i)


@differs("A step of zero is an error")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_zero_step_is_an_error(engine):
    message = r"in program \(0, 0, 0\): the step of the range at line .* is zero"
    with pytest.raises(triton.KernelAssertionError, match=message):
        launch(engine, zero_step, (1,), np.zeros(1, np.int32), 0)


@triton.jit
def unrolled(out):
    t = 1
    for k in tl.static_range(3):
        t = tl.zeros((2, ), tl.int32) + t if k == 1 else t
    tl.store(out + tl.arange(0, 2), t)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_unrolled_loop_may_change_shapes(engine):
    out = np.zeros(2, np.int32)
    launch(engine, unrolled, (1,), out)
    assert out.tolist() == [1, 1]


@triton.jit
def early(out, n):
    if n < 2:
        return
    tl.store(out, 1)
    for i in range(n):
        if i == 3:
            return
        tl.store(out + i, i + 10)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n, expected", [(1, [0] * 5), (2, [10, 11, 0, 0, 0]), (5, [10, 11, 12, 0, 0])])
def test_returns_of_a_kernel(engine, n, expected):
    out = np.zeros(5, np.int32)
    launch(engine, early, (1,), out, n)
    assert out.tolist() == expected


@triton.jit
def walrus(out, n):
    if (m := n + 1) > 3:
        tl.store(out, m)
    total = 0
    while (n := n - 1) > 0:
        total += n
    tl.store(out + 1, total)


@pytest.mark.parametrize("engine", ENGINES)
def test_assignment_expressions(engine):
    out = np.zeros(2, np.int32)
    launch(engine, walrus, (1,), out, 5)
    assert out.tolist() == [6, 10]
