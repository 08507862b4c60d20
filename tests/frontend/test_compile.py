"""The way in: parameters, facts, launch facts, tracebacks, missing arguments."""

import sys
import traceback

import pytest

import tilewright.language as tl
from tests.departures import differs
from tests.frontend.running import compiled, jit
from tilewright.diagnostics import CompilationError
from tilewright.frontend import compile_function
from tilewright.language.function import ConstexprFunction
from tilewright.language.options import ConstantArg, RuntimeArg, Signature, TupleArg


def kernel(out, n, t, B: tl.constexpr, none, flag=True):
    if flag:
        tl.store(out + tl.arange(0, B), n + t[0])


def test_parameters_are_the_run_time_arguments_in_order():
    pointer, integer = RuntimeArg(tl.pointer_type(tl.int32), 16), RuntimeArg(tl.int32, 16)
    signature = Signature({"out": pointer, "n": RuntimeArg(tl.int32), "t": TupleArg((integer, ConstantArg(4))),
                           "B": ConstantArg(8), "none": ConstantArg(None)}, disjoint=True, wide=True)
    module = compile_function(jit(kernel), signature)
    entry = module.entry
    assert module.entry_name == entry.name == "kernel" and module.disjoint and module.wide
    assert entry.param_names == ("out", "n", "t[0]")
    assert [str(v.type) for v in entry.params] == ["ptr<i32>", "i32", "i32"]
    assert [f.divisible_by for f in entry.param_facts] == [16, 1, 16]


def test_a_parameter_without_argument_and_default_is_named():
    with pytest.raises(CompilationError, match="no argument for the parameter 'none'; it has out, n, t, B"):
        compiled(kernel, out="*i32", n="i32", t=["i32"], B=4)


@differs("Errors name the file, the cause and the cure")
def test_the_traceback_of_an_error_shows_no_compiler():
    def wrong(out):
        tl.store(out, tl.arange(0, 4))

    with pytest.raises(CompilationError) as caught:
        compiled(wrong, out="*i32")
    error = caught.value
    files = [f.filename for f in traceback.extract_tb(error.__traceback__) if "tilewright/" in f.filename]
    assert files == [] or sys.version_info < (3, 11)
    assert error.__cause__ is not None and error.__cause__.__traceback__ is None
    assert error.node is not None and error.src.startswith("def wrong(out):")


def test_errors_of_the_users_own_python_keep_their_traceback():
    @ConstexprFunction
    def own(x):
        return {}[x]

    def wrong(out):
        tl.store(out, own(3))

    with pytest.raises(CompilationError, match="KeyError: 3") as caught:
        compiled(wrong, out="*i32")
    assert isinstance(caught.value.__cause__, KeyError)
    assert traceback.extract_tb(caught.value.__cause__.__traceback__)[-1].name == "own"


def test_functions_that_no_call_reaches_are_left_out():
    @jit
    def unused(x):
        return x

    def calls_in_a_dropped_trace(out, n):
        k: tl.constexpr = 1
        for i in range(n):
            if k == 1:
                unused(k)
            k = k + 1
        tl.store(out, k)

    module = compiled(calls_in_a_dropped_trace, out="*i32", n="i32")
    assert all(f.params for f in module.functions.values())
    assert len(module.functions) == 2
