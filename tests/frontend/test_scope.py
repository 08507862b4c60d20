"""What a kernel may read from outside."""

import collections
import enum
import math

import pytest

import tilewright.language as tl
from tests.frontend.running import jit
from tilewright.diagnostics import CompilationError
from tilewright.frontend import compile_function
from tilewright.frontend.scope import Locals, is_readable_global, lookup
from tilewright.language.function import ConstexprFunction
from tilewright.language.options import RuntimeArg, Signature

PLAIN = 5
NOTHING = None
Point = collections.namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1


def plain():
    return 0


@pytest.mark.parametrize("value", [
    None, math, tl, tl.float32, tl.load, tl.constexpr(3), tl.constexpr, tl.range, tl.tensor, Color.RED, Color, Point,
    jit(plain), ConstexprFunction(plain), math.ceil, len, tl.PropagateNan.ALL, tl.pointer_type(tl.int8),
], ids=str)
def test_readable(value):
    assert is_readable_global(value)


@pytest.mark.parametrize("value", [
    5, 2.5, "text", True, (1, 2), [1], {}, object(), plain, Point(1, 2), dict, lambda: 0,
], ids=lambda v: type(v).__name__)
def test_not_readable(value):
    assert not is_readable_global(value)


def test_locals_hide_globals_and_builtins():
    def kernel():
        pass

    variables = Locals()
    variables.assign("PLAIN", "value", None)
    variables.assign("len", "length", None)
    assert lookup(jit(kernel), variables, "PLAIN") == "value"
    assert lookup(jit(kernel), variables, "len") == "length"


def test_any_global_can_be_allowed():
    def kernel(out):
        tl.store(out, PLAIN)

    signature = Signature({"out": RuntimeArg(tl.pointer_type(tl.int32))})
    with pytest.raises(CompilationError, match="Cannot access global variable PLAIN"):
        compile_function(jit(kernel), signature)
    module = compile_function(jit(kernel), signature, allow_non_constexpr_globals=True)
    assert [op.attrs["value"] for op in module.entry.body.ops if op.name == "constant"] == [5]


def test_dropped_variables_say_why_and_can_be_assigned_again():
    def kernel():
        pass

    variables = Locals()
    variables.assign("v", 1, None)
    copy = variables.copy()
    variables.drop("v", "it is gone")
    with pytest.raises(NameError, match="v is not defined here: it is gone"):
        lookup(jit(kernel), variables, "v")
    assert lookup(jit(kernel), copy, "v") == 1
    variables.assign("v", 2, None)
    assert lookup(jit(kernel), variables, "v") == 2


def test_a_dropped_variable_does_not_uncover_a_global_of_its_name():
    def kernel(out, n):
        if n > 3:
            NOTHING = 1
        tl.store(out, NOTHING)

    signature = Signature({"out": RuntimeArg(tl.pointer_type(tl.int32)), "n": RuntimeArg(tl.int32)})
    with pytest.raises(CompilationError, match="NOTHING is not defined here"):
        compile_function(jit(kernel), signature)
