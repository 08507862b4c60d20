"""`and`, `or` and comprehensions: the eager engine evaluates, and gives the types, that compiled code does."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import CompilationError
from tilewright.runtime import knobs


@triton.jit
def beyond(p):
    """True, and a store that shows that this ran."""
    tl.store(p + 7, 1)
    return tl.load(p) == 0


@triton.jit
def plain(n):
    return n > 2


def both(kernel, *args, size=8):
    """What each engine writes, or the message of its error."""
    found = []
    for interpret in (False, True):
        out = np.zeros(size, np.int32)
        with knobs.scope(interpret=interpret):
            try:
                kernel[(1,)](out, *args)
                found.append(out.tolist())
            except CompilationError as error:
                found.append(error.message)
    return found


@triton.jit
def lazy_and(out, n):
    if n > 3 and beyond(out):
        tl.store(out + 1, 1)


@triton.jit
def lazy_or(out, n):
    if n > 3 or beyond(out):
        tl.store(out + 1, 1)


@triton.jit
def number_on_the_left(out, n):
    if n and beyond(out):
        tl.store(out + 1, 1)


@triton.jit
def pure_call_runs(out, n):
    flag = n > 3 and (m := tl.maximum(n, 2)) > 1
    tl.store(out + 1, m + flag)


@triton.jit
def tile_on_the_right(out, n):
    at = tl.arange(0, 4)
    tl.store(out + at, 5, mask=n > 3 and tl.load(out + at) == 0)


@triton.jit
def number_on_the_right(out, n):
    if n > 3 and tl.load(out):
        tl.store(out + 1, 1)


@triton.jit
def three(out, n):
    if n > 0 and n > 3 and beyond(out) or n == 2 and not beyond(out + 0):
        tl.store(out + 1, 1)


@triton.jit
def result_is_a_flag(out, n):
    flag = n > 3 and beyond(out)
    tl.static_assert(flag.dtype == tl.int1 and len(flag.shape) == 0)
    tl.store(out + 1, flag.to(tl.int32) + 1)


@triton.jit
def function_without_memory(out, n):
    if n > 3 and plain(n):
        tl.store(out + 1, 1)


@triton.jit
def known_left(out, n):
    if False and missing(out):  # noqa: F821
        tl.store(out + 1, 1)
    if True or beyond(out):
        tl.store(out + 2, 1)


@pytest.mark.parametrize("n", [0, 2, 5])
@pytest.mark.parametrize("kernel", [
    lazy_and, lazy_or, number_on_the_left, pure_call_runs, tile_on_the_right, three,
    result_is_a_flag, function_without_memory, known_left], ids=lambda k: k.__name__)
def test_both_engines_evaluate_the_same(kernel, n):
    compiled, interpreted = both(kernel, n)
    assert compiled == interpreted


def test_a_wrong_right_side_is_an_error_when_it_is_reached():
    compiled, interpreted = both(number_on_the_right, 5)
    assert compiled == interpreted and "`and` takes int1" in compiled
    assert both(number_on_the_right, 2)[1] == [0] * 8


def test_what_is_evaluated_when():
    assert [both(lazy_and, n)[1][7] for n in (2, 5)] == [0, 1]
    assert [both(lazy_or, n)[1][7] for n in (2, 5)] == [1, 0]
    assert both(pure_call_runs, 2)[1][1] == 2


@triton.jit
def target_stays(out):
    i = 5
    t = [i * 2 for i in (1, 2, 3)]
    tl.store(out, t[2] + i)


@triton.jit
def targets_of_a_tuple(out):
    t = [a + b * c for a, (b, c) in ((1, (2, 3)), (4, (5, 6))) if a > 1]
    tl.store(out, t[0] + a * 100)  # noqa: F821


@triton.jit
def target_in_a_loop(out, n):
    k = 0
    for _ in range(n):
        t = [k + 1 for k in (1, 2)]
        tl.store(out, t[1])
    tl.store(out + 1, k)


@triton.jit
def nested(out):
    t = [[a + b for b in (1, 2)][1] for a in (10, 20)]
    tl.store(out, t[1] + a + b)  # noqa: F821


@pytest.mark.parametrize("kernel, args", [(target_stays, ()), (targets_of_a_tuple, ()), (nested, ()),
                                          (target_in_a_loop, (2,)), (target_in_a_loop, (0,))])
def test_targets_of_comprehensions_are_variables(kernel, args):
    compiled, interpreted = both(kernel, *args)
    assert compiled == interpreted and len(compiled) == 8


def test_their_values():
    assert both(target_stays)[0][0] == 9 and both(targets_of_a_tuple)[0][0] == 434 and both(nested)[0][0] == 44
