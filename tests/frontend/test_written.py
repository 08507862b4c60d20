"""Messages name operands as they are written, on both engines that know the source."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import CompilationError
from tilewright.language.errors import LanguageTypeError, argument, as_written, with_operands
from tilewright.runtime import knobs


@triton.jit
def of_operator(x, n):
    i = tl.arange(0, 4)
    tl.store(x + i, (x + i) * 2 + n)


@triton.jit
def of_assignment(x, n):
    n *= x
    tl.store(x, n)


@triton.jit
def of_function(x, n):
    tl.store(x, tl.exp(x + n))


@triton.jit
def of_keyword(x, n):
    tl.store(x, value=x + n)


@triton.jit
def of_method(x, n):
    tl.store(x, (x + n).sum())


@triton.jit
def of_long_operand(x, n):
    tl.store(x, tl.exp(x + n + n + n + n + n + n + n + n + n + n + n + n))


@triton.jit
def of_index(x, n):
    tl.store(x, x[n + 1])


@pytest.mark.unchecked("each run names its engine")
@pytest.mark.parametrize("engine", ["cpu", "eager"])
@pytest.mark.parametrize(("kernel", "text"), [
    (of_operator, "`*` takes numbers, but x + i is a pointer: read what it points to with tl.load(x + i)"),
    (of_assignment, "`*` takes numbers, but x is a pointer: read what it points to with tl.load(x); a tensor of one"),
    (of_function, "tl.exp takes numbers, but x + n is a pointer: read what it points to with tl.load(x + n)"),
    (of_keyword, "`value` takes numbers, but x + n is a pointer"),
    (of_method, "tl.sum takes numbers, but x + n is a pointer"),
    (of_long_operand, "tl.exp takes numbers, but this is a pointer: read what it points to with tl.load(pointer); a"),
    (of_index, "x is a pointer, which has no elements: memory is read with tl.load(x + n + 1), and written"),
], ids=lambda v: getattr(v, "__name__", None))
def test_operands_as_they_are_written(kernel, text, engine):
    with knobs.scope(interpret=engine == "eager"), pytest.raises(CompilationError) as caught:
        kernel[(1,)](np.zeros(4, np.float32), 2)
    assert text in caught.value.message


def test_where_the_source_is_not_known_the_words_are_general():
    text = f"{as_written('left', 'it')} + {as_written(argument('tl.sum', 0, 'input'), 'input')}"
    error = LanguageTypeError(text)
    assert str(error) == error.args[0] == "it + input"
    assert with_operands(error.template, {"left": "a", "sum.input": "b"}) == "a + b"
    assert with_operands(error.template, {"right": "a", "sum.0": "c"}) == "it + c"


@pytest.mark.unchecked("each run names its engine")
@pytest.mark.parametrize("engine", ["cpu", "eager"])
def test_a_pointer_as_a_condition_is_warned_of(engine):
    @triton.jit
    def asks(x, out):
        if x:
            tl.store(out, 1)
        tl.assume(x)
        assert tl.where(x, 1, 0) == 1

    out = np.zeros(1, np.int32)
    with knobs.scope(interpret=engine == "eager"), pytest.warns(UserWarning, match=r"write tl.load\(pointer\)"):
        asks[(1,)](np.zeros(1, np.float32), out)
    assert out[0] == 1
