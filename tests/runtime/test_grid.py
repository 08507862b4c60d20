"""What may stand in kernel[...]."""

import numpy as np
import pytest

from tests.departures import differs
from tilewright.runtime.grid import normalise


@pytest.mark.parametrize("grid, sizes", [
    ((3,), (3, 1, 1)), ([3, 4], (3, 4, 1)), ((2, 3, 4), (2, 3, 4)), ((0,), (0, 1, 1)), ((5, 0), (5, 0, 1)),
    ((np.int64(3),), (3, 1, 1)),
])
def test_sizes(grid, sizes):
    assert normalise("k", grid, None) == sizes


def test_function_of_the_arguments():
    assert normalise("k", lambda meta: (meta["n"] // meta["B"], 2), {"n": 64, "B": 16}) == (4, 2, 1)


def test_bare_int_says_how_to_write_it():
    with pytest.raises(TypeError, match=r"k: a grid is a tuple .* got 4; write \(4,\)"):
        normalise("k", 4, None)
    with pytest.raises(TypeError, match=r"the grid function returned 4; write \(4,\)"):
        normalise("k", lambda meta: 4, {})


def test_a_grid_function_gets_one_argument():
    for grid in (lambda: (1,), lambda a, b: (1,)):
        with pytest.raises(TypeError, match=r"k: a grid function gets one argument.*write `lambda meta: \(...\)`"):
            normalise("k", grid, {})
    with pytest.raises(TypeError, match="unsupported operand"):
        normalise("k", lambda meta: (1 + None,), {})


@pytest.mark.parametrize("grid", [None, "4", {1: 2}])
def test_not_a_grid(grid):
    with pytest.raises(TypeError, match="a grid is a tuple of 1 to 3 sizes"):
        normalise("k", grid, None)


@pytest.mark.parametrize("grid", [(2, 3, 4, 1), [2, 3, 4, 1, 1], (2, 3, 4, np.int64(1))])
def test_more_sizes_of_one_are_no_more_programs(grid):
    assert normalise("k", grid, None) == (2, 3, 4)


@differs("A grid has at most three dimensions", topic="Launching and tuning",
         peer="Further ones are ignored.",
         ours="They are an error, but where they are 1.")
@pytest.mark.parametrize("grid, error, words", [
    ((1, 2, 3, 4), ValueError, "1 to 3 sizes, not 4"), ((), ValueError, "1 to 3 sizes, not 0"),
    ((-1,), ValueError, ">= 0, not -1"), ((2.0,), TypeError, "whole numbers, not 2.0 of type float"),
    ((True,), TypeError, "whole numbers, not True"), (("3",), TypeError, "whole numbers, not '3'"),
    ((2**31,), ValueError, "at most 2147483647"),
])
def test_wrong_sizes(grid, error, words):
    with pytest.raises(error, match=words):
        normalise("k", grid, None)
