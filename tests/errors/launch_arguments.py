"""Launches with wrong, missing, extra and unsuitable arguments."""

import numpy as np

import tilewright as triton
import tilewright.language as tl
from tests.errors.harness import launch_case


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.jit
def typed(x, n: tl.int32, scale: "fp32"):  # noqa: F821
    tl.store(x, n * scale)


X = np.zeros(8, np.float32)


@launch_case
def missing_one():
    scale[(1,)](X, X, 8, BLOCK=8)  # error: TypeError: scale() missing 1 required argument: 'factor'


@launch_case
def missing_constexpr():
    scale[(1,)](X, X, 8, 2.0)  # error: TypeError: scale() missing 1 required argument: 'BLOCK'


@launch_case
def missing_several():
    scale[(1,)](X, BLOCK=8)  # error: TypeError: scale() missing 3 required arguments: 'out', 'n', 'factor'


@launch_case
def nothing_given():
    scale[(1,)]()  # error: TypeError: scale() missing 5 required arguments


@launch_case
def one_too_many():
    scale[(1,)](X, X, 8, 2.0, 8, 9)  # error: TypeError: scale() takes 5 positional arguments but 6 were given


@launch_case
def given_twice():
    scale[(1,)](X, X, 8, 2.0, 8, n=8)  # error: TypeError: by name; its parameters are x, out, n


@launch_case
def misspelt_parameter():
    scale[(1,)](X, X, 8, factr=2.0, BLOCK=8)  # error: TypeError: missing 1 required argument: 'factor'


@launch_case
def unknown_keyword():
    scale[(1,)](X, X, 8, 2.0, BLOCK=8, num_warp=4)  # error: UnknownKeywordError: did you mean 'num_warps'


@launch_case
def option_that_is_no_power_of_two():
    scale[(1,)](X, X, 8, 2.0, BLOCK=8, num_warps=3)  # error: ValueError: num_warps must be a power of 2, not 3


@launch_case
def called_directly():
    scale(X, X, 8, 2.0, 8)  # error: RuntimeError: launch it with scale[grid](...)


# -- values that are no run-time arguments ----------------------------------------------------------------------------


@launch_case
def list_for_tensor():
    scale[(1,)]([1.0, 2.0], X, 2, 2.0, BLOCK=8)  # error: TypeError: failed to specialize argument of type: list


@launch_case
def list_for_constexpr():
    scale[(1,)](X, X, 2, 2.0, BLOCK=[8])  # error: TypeError: parameter 'BLOCK': a constexpr has to be hashable


@launch_case
def list_for_scalar():
    scale[(1,)](X, X, [2], 2.0, BLOCK=8)  # error: TypeError: scale: parameter 'n': failed to specialize


@launch_case
def text_for_scalar():
    scale[(1,)](X, X, 2, "2.0", BLOCK=8)  # error: TypeError: annotate the parameter as tl.constexpr


@launch_case
def dict_for_scalar():
    scale[(1,)](X, X, 2, {"factor": 2.0}, BLOCK=8)  # error: TypeError: failed to specialize argument of type: dict


@launch_case
def dtype_for_scalar():
    scale[(1,)](X, X, 2, tl.float32, BLOCK=8)  # error: TypeError: a dtype can only be a compile-time value


@launch_case
def complex_array():
    scale[(1,)](X.astype(complex), X, 2, 2.0, BLOCK=8)  # error: TypeError: complex128 cannot be loaded by a kernel


@launch_case
def foreign_byte_order():
    scale[(1,)](X.astype(">f4"), X, 2, 2.0, BLOCK=8)  # error: TypeError: in foreign byte order


@launch_case
def int_too_large():
    scale[(1,)](X, X, 2**64, 2.0, BLOCK=8)  # error: OverflowError: parameter 'n': 18446744073709551616 does not fit


@launch_case
def float_for_annotated_int():
    typed[(1,)](X, 2.5, 1.0)  # error: TypeError: parameter 'n': annotated as i32, so it takes an integer


@launch_case
def too_large_for_annotated_int():
    typed[(1,)](X, 2**31, 1.0)  # error: OverflowError: does not fit in i32


@launch_case
def array_for_annotated_scalar():
    typed[(1,)](X, X, 1.0)  # error: TypeError: annotated as i32, so it takes a number


@launch_case
def misspelt_parameter_of_a_config():
    tuned = triton.autotune([triton.Config({"BLOK": 4})], key=[])(scale)
    tuned[(1,)](X, X, 3, 0.5)  # error: TypeError: 'BLOK', which was given, is none of them; did you mean 'BLOCK'?


@launch_case
def array_for_a_compile_time_value():
    scale[(1,)](X, X, 8, 2.0, BLOCK=np.array(8))  # error: TypeError: parameter 'BLOCK': a ndarray has elements, which


@launch_case
def none_for_a_tensor():
    scale[(1,)](None, X, 8, 2.0, BLOCK=8)  # error: CompilationError: not None; where it may be None, ask first
