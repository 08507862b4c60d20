"""The face of `tl`: what can be imported, how names are called, what is not there yet."""

import inspect

import pytest

from tests.lang.recorder import call, trace
from tilewright import language as tl
from tilewright.language.builtin import BoundBuiltin, Builtin, builtin
from tilewright.language.core import LanguageError, is_builtin
from tilewright.language.tensor import tensor

FUNCTIONS = [n for n in tl.__all__ if isinstance(getattr(tl, n), Builtin)]


def test_every_name_can_be_imported():
    for name in tl.__all__:
        assert getattr(tl, name) is not None
        assert name in dir(tl)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        tl.no_such_name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_documented_and_named(name):
    function = getattr(tl, name)
    assert function.__doc__ and function.name == name and "_builder" not in inspect.signature(function).parameters
    assert is_builtin(function)


def test_outside_of_a_kernel():
    with pytest.raises(ValueError, match=r"tl.arange works only inside a kernel. Did you forget to add @triton.jit \?"):
        tl.arange(0, 4)


def test_with_a_tensor_at_hand_the_builder_is_known():
    """So `tl.sum(x)` works at a breakpoint of the eager engine."""
    assert trace(lambda b, x: tl.sum(x, axis=0), "fp32[4]").names == ["reduce"]
    assert trace(lambda b, x: tl.reduce((x,), 0, lambda a, c: (a + c,)), "fp32[4]").names == ["reduce"]


def test_wrong_arguments_show_the_signature():
    with pytest.raises(TypeError, match=r"tl.arange: .*'foo'.*its signature is arange\(start, end\)"):
        trace(lambda b: call(b, tl.arange, 0, 4, foo=1))
    with pytest.raises(TypeError, match=r"tl.load: missing a required argument: 'pointer'"):
        trace(lambda b: call(b, tl.load))
    with pytest.raises(LanguageError):
        trace(lambda b: call(b, tl.arange, 0))


def test_methods_are_bound_builtins():
    def meaning(b, x):
        assert isinstance(x.to, BoundBuiltin) and is_builtin(x.to) and x.sum.name == "sum"
        return x.to.call(b, (tl.float16,), {})

    assert trace(meaning, "fp32").result.type == tl.float16


@pytest.mark.parametrize("name", sorted(tensor.members))
def test_every_method_is_a_name_of_the_language(name):
    assert is_builtin(tensor.members[name]) and tensor.members[name].__doc__


def test_attributes_of_a_tensor():
    def meaning(b, x):
        assert x.dtype == tl.float32 and str(x) == "fp32[constexpr[4], constexpr[8]]"
        assert x.type.element_ty == tl.float32 and x.type.scalar == tl.float32
        for name in ("value", "no_such_name"):
            with pytest.raises(AttributeError, match="a tensor has no attribute"):
                getattr(x, name)
        for wrong in (lambda: len(x), lambda: iter(x), lambda: abs(x), lambda: x**2, lambda: round(x)):
            with pytest.raises(TypeError):
                wrong()

    trace(meaning, "fp32[4, 8]")


def test_a_plain_function_becomes_a_builtin():
    @builtin
    def twice(x, *, _builder):
        """x + x"""
        return x + x

    assert twice.name == "twice" and trace(lambda b, x: call(b, twice, x), "int32").names == ["add"]


def test_constexpr_and_tensor_are_classes_for_annotations():
    assert isinstance(tl.constexpr, type) and isinstance(tl.tensor, type) and isinstance(tl.const, type)
    assert tl.core.load is tl.load and tl.core.atomic_add is tl.atomic_add and tl.core.get_int_dtype(8, True) == tl.int8
    assert tl.core.tensor is tl.tensor and tl.core._unwrap_if_constexpr(tl.constexpr(3)) == 3
    assert tl.standard.sum is tl.sum and tl.random.rand is tl.rand
