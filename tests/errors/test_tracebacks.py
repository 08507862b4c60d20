"""What Python prints below an error in a kernel: the user's frames, and none of the compiler's."""

import bdb
import sys
import traceback

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.compiler import ASTSource, compile
from tilewright.diagnostics import CompilationError, InternalError, KernelAssertionError, OutOfBoundsError
from tilewright.language.errors import LanguageError
from tilewright.runtime import knobs
from tilewright.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.unchecked("each test names the engine whose frames it looks at")


@triton.jit
def narrow(x):
    return x + tl.arange(0, 4)


@triton.jit
def shapes(x_ptr, n):
    y = narrow(tl.arange(0, 16))
    tl.store(x_ptr, y + n)


@triton.jit
def misspelt(x_ptr, n):
    offsets = tl.arange(0, 16)
    tl.store(x_ptr + offsets, n, mask=offset < n)  # noqa: F821


@triton.jit
def one_sided(x_ptr, n):
    if n > 100:
        q = 1
    tl.store(x_ptr, n + q)


@triton.jit
def outside(x_ptr, n):
    tl.store(x_ptr + n, n)


@triton.jit(debug=True)
def unfulfilled(x_ptr, n):
    tl.device_assert(n < 99, "too many")


@triton.jit
def endless(x_ptr, n):
    endless(x_ptr, n)


@triton.constexpr_function
def refuses(n):
    raise ValueError(f"not {n}")


@triton.jit
def calls_python(x_ptr, n):
    tl.store(x_ptr, refuses(3))


@triton.heuristics({"C": lambda args: args["n"]})
@triton.jit
def by_rule(x_ptr, n, C: tl.constexpr):
    tl.store(x_ptr, missing)  # noqa: F821


@triton.autotune([triton.Config({"B": 16}), triton.Config({"B": 32})], key=[])
@triton.jit
def tuned(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr, missing)  # noqa: F821


# kernel: the error; what stands in its message; the functions whose frames show when it is interpreted
KERNELS = {
    shapes: (CompilationError, "16 and 4", ["shapes", "narrow"]),
    misspelt: (CompilationError, "did you mean offsets?", ["misspelt"]),
    one_sided: (CompilationError, "holds, and has no value otherwise", ["one_sided"]),
    outside: (OutOfBoundsError, "element 99", ["outside"]),
    unfulfilled: (KernelAssertionError, "too many", ["unfulfilled"]),
    endless: (CompilationError, "so the recursion never ends", ["endless", "endless"]),
    calls_python: (CompilationError, "ValueError: not 3", ["calls_python"]),
    by_rule: (CompilationError, "missing is not defined", ["by_rule"]),
    tuned: (CompilationError, "missing is not defined", ["tuned"]),
}


def raised(kernel, engine):
    with knobs.scope(interpret=engine == "eager"), pytest.raises(Exception) as caught:
        kernel[(1,)](np.zeros(16, np.float32), 99)
    return caught.value


def frames(error):
    return [(f.filename, f.name) for f in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("engine", ["cpu", "eager"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_only_frames_of_the_user(kernel, engine):
    kind, text, interpreted = KERNELS[kernel]
    error = raised(kernel, engine)
    assert type(error) is kind and text in str(error)
    assert frames(error) == [(__file__, name) for name in ["raised", *(interpreted if engine == "eager" else [])]]
    shown = "".join(traceback.format_exception(error))
    assert "tilewright/" not in shown and len(shown.splitlines()) < 30


SIGNATURE = {"x_ptr": "*fp32", "n": "i32"}
MADE_WRONGLY = {
    "jit": lambda: triton.jit(3), "jit with options": lambda: triton.jit(noinline=True)(3),
    "heuristics": lambda: triton.heuristics({"Q": len})(outside),
    "autotune": lambda: triton.autotune([], key=["q"])(outside), "configs": lambda: triton.autotune([1], key=[]),
    "source": lambda: ASTSource(outside, {"q": "i32"}),
    "target": lambda: compile(ASTSource(outside, SIGNATURE), "cuda"),
    "type": lambda: compile(ASTSource(outside, {**SIGNATURE, "n": "int"})),
    "kernel": lambda: compile(ASTSource(shapes, SIGNATURE)),
    "compiled": lambda: compile(ASTSource(outside, SIGNATURE))[(1,)](np.zeros(1, np.float32)),
    "descriptor": lambda: TensorDescriptor(np.zeros(4), [4], [2], [4]),
    "descriptor of a tensor": lambda: TensorDescriptor.from_tensor(np.zeros((4, 4)).T, [4, 4]),
}


@pytest.mark.parametrize("case", MADE_WRONGLY)
def test_what_is_made_or_compiled_shows_no_frame_of_ours_either(case):
    with pytest.raises((TypeError, ValueError, CompilationError)) as caught:
        MADE_WRONGLY[case]()
    assert {file for file, _ in frames(caught.value)} == {__file__}


@pytest.mark.parametrize("engine", ["cpu", "eager"])
def test_the_cause_stays_and_shows_no_frame_of_ours(engine):
    for kernel in (shapes, misspelt, one_sided):
        cause = raised(kernel, engine).__cause__
        assert isinstance(cause, LanguageError) and frames(cause) == []
        assert cause.__cause__ is None and cause.__context__ is None
    cause = raised(calls_python, engine).__cause__
    assert type(cause) is ValueError and [name for _, name in frames(cause)] == ["refuses"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 knows no columns of running code")
def test_both_engines_name_the_same_place():
    for kernel in (misspelt, one_sided, endless):
        compiled, interpreted = raised(kernel, "cpu"), raised(kernel, "eager")
        assert compiled.location == interpreted.location
    assert raised(misspelt, "cpu").message == raised(misspelt, "eager").message


def test_a_debugger_finds_the_kernels_variables():
    trace = raised(outside, "eager").__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_name == "outside" and int(trace.tb_frame.f_locals["n"]) == 99


def test_a_fault_of_ours_keeps_its_frames(monkeypatch):
    def fault(*_):
        raise InternalError("broken")

    monkeypatch.setattr(triton.runtime.compiling, "dependencies", fault)
    trace = frames(raised(triton.jit(outside.fn), "cpu"))
    assert any("tilewright/runtime" in file for file, _ in trace)


def test_leaving_a_debugger_shows_the_kernel(monkeypatch):
    def leave():
        raise bdb.BdbQuit

    @triton.jit
    def stops(x_ptr, n):
        breakpoint()

    monkeypatch.setattr(sys, "breakpointhook", leave)
    error = raised(stops, "eager")
    assert type(error) is bdb.BdbQuit and [name for _, name in frames(error)] == ["raised", "stops", "leave"]


BAD_LAUNCHES = {
    "too many arguments": (TypeError, lambda k, x: k[(1,)](x, 1, 2, 3, 4)),
    "too few arguments": (TypeError, lambda k, x: k[(1,)](x)),
    "given twice": (TypeError, lambda k, x: k[(1,)](x, 1, x_ptr=x)),
    "unknown keyword": (KeyError, lambda k, x: k[(1,)](x, 1, BLOKC=3)),
    "argument without a meaning": (TypeError, lambda k, x: k[(1,)](object(), 1)),
    "grid of text": (TypeError, lambda k, x: k[("a",)](x, 1)),
    "grid of four": (ValueError, lambda k, x: k[(1, 2, 3, 4)](x, 1)),
    "option": (ValueError, lambda k, x: k[(1,)](x, 1, num_warps=3)),
    "read-only": (ValueError, lambda k, x: k[(1,)](np.broadcast_to(x, (2, 16)), 1)),
    "warmup": (TypeError, lambda k, x: k.warmup(x, 1, 2, 3, grid=(1,))),
    "run": (TypeError, lambda k, x: k.run(x, 1, 2, 3, grid=(1,))),
    "call": (RuntimeError, lambda k, x: k(x, 1)),
    "compiled, too few": (TypeError, lambda k, x: k[(1,)](x, 1)[(1,)](x)),
    "compiled, another": (ValueError, lambda k, x: k[(1,)](x, 1)[(1,)](x.astype(np.int8), 1)),
    "tuned": (TypeError, lambda k, x: triton.autotune([triton.Config({"n": 1})], key=[])(k)[(1,)](x, n=1)),
    "by rule": (TypeError, lambda k, x: triton.heuristics({"n": lambda args: 1})(k)[(1,)](object())),
}


@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("name", BAD_LAUNCHES)
def test_errors_of_a_launch_show_its_line_last(name, hot):
    kind, launch = BAD_LAUNCHES[name]
    kernel, x = triton.jit(outside.fn), np.zeros(16, np.float32)
    for _ in range(4 * hot):
        kernel[(1,)](x, 0)
    with pytest.raises(kind) as caught:
        launch(kernel, x)
    assert frames(caught.value) == [(__file__, "test_errors_of_a_launch_show_its_line_last"), (__file__, "<lambda>")]


@pytest.mark.parametrize("hot", [False, True])
def test_an_error_in_a_grid_is_the_programs(hot):
    def grid(meta):
        return (1 // 0,)

    kernel, x = triton.jit(outside.fn), np.zeros(16, np.float32)
    for _ in range(4 * hot):
        kernel[(1,)](x, 0)
    with pytest.raises(ZeroDivisionError) as caught:
        kernel[grid](x, 0)
    assert [name for _, name in frames(caught.value)] == ["test_an_error_in_a_grid_is_the_programs", "grid"]


def test_a_fault_of_another_class_keeps_its_frames(monkeypatch):
    """What no `raise` of ours says, and what a library says that we have called: here is something to be repaired."""
    monkeypatch.setattr(triton.runtime.compiling, "facts_of", None)
    assert frames(raised(triton.jit(outside.fn), "cpu"))[-1][0].endswith("compiling.py")
    monkeypatch.setattr(triton.runtime.compiling, "facts_of", np.broadcast_to)
    assert any("tilewright/runtime" in file for file, _ in frames(raised(triton.jit(outside.fn), "cpu")))
