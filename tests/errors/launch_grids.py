"""Grids that are none."""

import numpy as np

import tilewright as triton
import tilewright.language as tl
from tests.errors.harness import launch_case


@triton.jit
def mark(x):
    tl.store(x + tl.program_id(0), 1)


X = np.zeros(8, np.float32)


@launch_case
def bare_int():
    mark[8](X)  # error: TypeError: got 8; write (8,)


@launch_case
def function_that_returns_an_int():
    mark[lambda meta: 8](X)  # error: TypeError: the grid function returned 8


@launch_case
def no_grid():
    mark[None](X)  # error: TypeError: a grid is a tuple of 1 to 3 sizes


@launch_case
def float_size():
    mark[(8 / 2,)](X)  # error: TypeError: whole numbers, not 4.0 of type float


@launch_case
def negative_size():
    mark[(-8,)](X)  # error: ValueError: a grid's sizes are >= 0, not -8


@launch_case
def four_sizes():
    mark[(1, 2, 3, 4)](X)  # error: ValueError: a grid has 1 to 3 sizes, not 4


@launch_case
def no_size():
    mark[()](X)  # error: ValueError: a grid has 1 to 3 sizes, not 0; write (1,) for one program


@launch_case
def text_size():
    mark[("8",)](X)  # error: TypeError: whole numbers, not '8' of type str


@triton.jit
def fill(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1)


@launch_case
def unknown_name_in_a_grid_function():
    fill[lambda m: (m["BLOK"],)](X, BLOCK=4)  # error: GridKeyError: the arguments are x, BLOCK; did you mean 'BLOCK'?


@launch_case
def key_error_of_the_users_own():
    fill[lambda m: ({}["BLOCK"],)](X, BLOCK=4)  # error: KeyError: 'BLOCK'
