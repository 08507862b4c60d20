"""Control flow on every engine, against the same thing in Python."""

import warnings

import numpy as np
import pytest

from tests.departures import differs
from tests.lang import kernels_control as k


def ints(*shape):
    return np.zeros(shape or (1,), np.int32)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_counted_loop(launch, n):
    out = ints(8)
    launch(k.count_up, (1,), out, n, BLOCK=8)
    assert (out == sum(range(n))).all()


@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, 3, 1), (88, -1, -8), (5, 10, -3), (10, 0, 1), (-7, 7, 5), (1, 2, 1)])
def test_range_bounds(launch, bounds):
    out = ints(2)
    launch(k.range_bounds, (1,), out, *bounds)
    indices = list(range(*bounds))
    assert out.tolist() == [sum(indices), indices[-1] if indices else -100]


def test_reversed_static(launch):
    x, out = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    launch(k.reversed_static, (1,), out, x)
    assert out[0] == sum(v * 2**i for i, v in enumerate(x))


def test_static_range(launch):
    x, out = np.arange(1, 8, dtype=np.float32), np.zeros(1, np.float32)
    launch(k.static_unrolled, (1,), out, x, N=7)
    assert out[0] == x[::2].sum() - x[1::2].sum()


@pytest.mark.parametrize("start", [1, 6, 27])
def test_while(launch, start):
    out = ints()
    launch(k.collatz, (1,), out, start)
    n, steps = start, 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    assert out[0] == steps


@differs("break, continue and return stand anywhere", topic="Control flow",
         peer="`break` and `continue` are not supported, and `return` not in a loop.",
         ours="They work in every loop and branch, also in functions that a loop calls.")
@pytest.mark.parametrize("wanted", [3, 9, 77])
def test_break(launch, wanted):
    x, out = np.array([5, 3, 8, 9, 3], np.int32), ints()
    launch(k.find_first, (1,), out, x, 5, wanted)
    assert out[0] == (x.tolist().index(wanted) if wanted in x else -1)


@differs("break, continue and return stand anywhere")
def test_break_and_continue(launch):
    x, out = np.arange(20, dtype=np.int32), ints()
    launch(k.sum_odd_until, (1,), out, x, 20, 40)
    assert out[0] == 1 + 3 + 5 + 7 + 9 + 11


def test_early_return(launch):
    out = ints(8)
    launch(k.early_return, (8,), out, 5)
    assert out.tolist() == [1, 2, 3, 4, 5, 0, 0, 0]


@differs("break, continue and return stand anywhere")
@pytest.mark.parametrize("values", [[1, 2, -3, 4], [1, 2, 3, 4], [-1, 0, 0, 0]])
def test_return_in_loop(launch, values):
    x, out = np.array(values, np.int32), ints(2)
    expected = next((i for i, v in enumerate(values) if v < 0), 4)
    launch(k.return_in_loop, (1,), out, x, 4)
    assert out[0] == expected
    launch(k.call_first_negative, (2,), out, x, 4)
    assert out.tolist() == [expected, expected]


@differs("`while True`", topic="Control flow",
         peer="A condition that is known at compile time is not supported in a `while`.",
         ours="It works; `while False` compiles nothing.")
def test_while_true(launch):
    out = ints()
    launch(k.while_true, (1,), out, 10)
    assert out[0] == 12


@differs("break, continue and return stand anywhere")
def test_nested_exits(launch):
    out = ints()
    launch(k.nested, (1,), out, 6, 5)
    assert out[0] == sum(i * 10 + j for i in range(6) for j in range(5) if j <= i and (i + j) % 3)


@pytest.mark.parametrize("flag", [1, 0, -4])
def test_branches_join(launch, flag):
    x, out = np.linspace(-2, 2, 16, dtype=np.float32), np.zeros(16, np.float32)
    launch(k.branch_join, (1,), out, x, flag, BLOCK=16)
    np.testing.assert_array_equal(out, x * 2 + 1 if flag > 0 else x - 1 + 2)


def test_tuples(launch):
    rng = np.random.default_rng(0)
    x, out = rng.standard_normal(32).astype(np.float32), np.zeros(32, np.float32)
    launch(k.tuple_return, (1,), out, x, BLOCK=16)
    np.testing.assert_array_equal(out, np.concatenate([np.minimum(x[:16], x[16:]), np.maximum(x[:16], x[16:])]))


@pytest.mark.parametrize("n", [0, 1, 6])
def test_parallel_assignment(launch, n):
    out = ints(2)
    launch(k.swap_in_loop, (1,), out, n)
    a, b = 1, 2
    for _ in range(n):
        a, b = b, a + b
    assert out.tolist() == [a, b]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_tiles_swapped_in_a_loop(launch, n):
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    launch(k.swap_tiles, (1,), out, x, n, BLOCK=16)
    np.testing.assert_array_equal(out, np.roll(x, 16) if n % 2 else x)


def test_constexpr_branches(launch):
    out = ints()
    for mode, scale, expected in [("double", None, 2), ("triple", 5, 15), ("other", 2, 2)]:
        launch(k.constexpr_branches, (1,), out, MODE=mode, SCALE=scale)
        assert out[0] == expected


def test_loop_index_after_the_loop(launch):
    out = ints(6)
    launch(k.loop_index_after, (1,), out, 5)
    assert out.tolist() == [0, 1, 2, 3, 4, 4]


@pytest.mark.parametrize("n", [3, 5, 6])
def test_ternary(launch, n):
    out = ints(2)
    launch(k.ternary, (1,), out, n)
    a = 10 if n > 5 else 20
    assert out.tolist() == [a, a if n == 3 else -a]


@pytest.mark.parametrize("a", [-1, 2])
@pytest.mark.parametrize("b", [-1, 2])
def test_logic(launch, a, b):
    out = ints(4)
    launch(k.logic, (1,), out, a, b)
    x, y = a > 0 and b > 0, a > 0 or b > 0
    assert out.tolist() == [x, y, not x, 7 if a > 0 and not b > 0 else 0]


@pytest.mark.parametrize("n", [0, 3, 50])
def test_while_with_two_conditions(launch, n):
    out = ints(2)
    launch(k.while_two, (1,), out, n)
    i = total = 0
    while i < n and total < 100:
        total += i * i
        i += 1
    assert out.tolist() == [i, total]


def test_pointers_carried_through_a_loop(launch):
    x, out = np.arange(64, dtype=np.float32), np.zeros(16, np.float32)
    launch(k.pointer_carry, (1,), out, x, 4, BLOCK=16)
    np.testing.assert_array_equal(out, x.reshape(4, 16).sum(0))


def test_recursion_over_constexpr(launch):
    out = ints()
    launch(k.recursion, (1,), out)
    assert out[0] == 120


@differs("The index of a loop after it", topic="Control flow",
         peer="3.6 compiles a read of it to an undefined value (poison), also where it had a value before the loop.",
         ours="It is that of the last iteration; after a loop without iterations what it was before, or else the start "
              "of the range.")
@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, 3, 1), (0, 0, 1), (7, -1, -3), (-4, -9, 2)])
def test_the_index_after_a_loop(launch, bounds):
    out = ints(1)
    launch(k.index_after, (1,), out, *bounds)
    assert out[0] == (list(range(*bounds)) or bounds)[-1 if range(*bounds) else 0]


def test_numbers_keep_their_low_bits_with_a_warning(launch):
    """What triton 3.6 gives, too, but for -1 as uint8, which it refuses; of bits that are lost we tell."""
    out = ints(5)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        launch(k.numbers_of_too_many_bits, (1,), out)
    assert out.tolist() == [44, 44, 5000000000 - (1 << 32), 255, -1]
    told = {str(w.message) for w in seen}
    assert told == {"300 does not fit into int8: its low 8 bits are kept, which is 44",
                    "5000000000 does not fit into int32: its low 32 bits are kept, which is 705032704"}
