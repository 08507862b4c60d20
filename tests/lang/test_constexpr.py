"""Semantics §1: compile-time values: Python arithmetic, attributes, meeting tensors; tuples."""

import collections
import math
import operator
import pickle

import numpy as np
import pytest

import tilewright as triton
from tests.lang.recorder import trace
from tilewright import language as tl
from tilewright.language import semantic

C = tl.constexpr


@pytest.mark.parametrize("function", [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.lt, operator.le, operator.gt,
    operator.ge, operator.eq, operator.ne,
])
def test_arithmetic_is_that_of_python(function):
    for x, y in ((7, 2), (-7, 2)):
        for a, b in ((C(x), C(y)), (C(x), y), (x, C(y))):
            result = function(a, b)
            assert isinstance(result, C) and result.value == function(x, y)
            assert type(result.value) is type(function(x, y))


def test_unary():
    assert (-C(3)).value == -3 and (+C(3)).value == 3 and (~C(3)).value == -4 and C(0).__not__().value is True
    assert C(2).logical_and(C(5)).value == 5 and C(0).logical_or(5).value == 5


def test_python_uses_the_value():
    assert bool(C(0)) is False and int(C(3)) == 3 and float(C(3)) == 3.0 and list(range(C(3))) == [0, 1, 2]
    assert [10, 20, 30][C(1)] == 20 and len(C((1, 2))) == 2 and list(C((1, 2))) == [1, 2] and C((4, 5))[C(1)] == 5
    assert C(max)(3, 4) == 4 and math.floor(float(C(2.5))) == 2 and repr(C(16)) == "constexpr[16]"
    assert C(C(4)).value == 4


def test_attributes_are_those_of_the_value():
    assert C(8).bit_length() == 4 and C("ab").upper() == "AB" and C(tl.float16).primitive_bitwidth == 16
    with pytest.raises(AttributeError):
        C(8).no_such_name


def test_equal_values_hash_alike_but_types_differ():
    assert hash(C(1)) == hash(C(1)) and C(1).type == C(1).type and C(1).type != C(True).type != C(1.0).type
    assert pickle.loads(pickle.dumps(C(5))).value == 5


def test_with_a_tensor_a_constexpr_is_a_weak_literal():
    for function in (lambda x: x + C(1), lambda x: C(1) + x, lambda x: C(2) * x, lambda x: x & C(3)):
        assert trace(lambda b, x: function(x), "int8[4]").result.type == tl.block_type(tl.int8, (4,))
    assert trace(lambda b, x: C(1) < x, "int8").result.type == tl.int1
    assert trace(lambda b, x: C(1) == x, "int8").names == ["constant", "cmp_eq"]
    assert trace(lambda b, x: C(1) != x, "int8").result.type == tl.int1


def test_folding_errors_name_the_values():
    with pytest.raises(ValueError, match="compile-time division of 1 by zero"):
        semantic.binary(None, "FloorDiv", C(1), C(0))
    with pytest.raises(TypeError, match=r"Python does not do `add` on 'a' of type str and 1 of type int"):
        semantic.binary(None, "Add", "a", C(1))


def test_plain_python_values_stay_plain():
    assert semantic.binary(None, "Add", 1, 2) == 3 and semantic.unary(None, "USub", 2) == -2
    assert semantic.compare(None, "Lt", 1, 2) is True


class TestTuples:
    def test_is_a_python_tuple(self):
        t = tl.tuple([1, C(2), 3])
        assert len(t) == 3 and t[C(0)] == 1 and t[-1] == 3 and isinstance(t, tuple) and t.values == [1, t[1], 3]
        first, *rest = t
        assert first == 1 and isinstance(t[1:], tl.tuple) and t[C(1):] == t[1:]

    def test_operators(self):
        assert tl.tuple((1,)) + [2] == (1, 2) and (1,) + tl.tuple((2,)) == (1, 2)
        assert tl.tuple((1, 2)) * C(2) == (1, 2, 1, 2)
        assert semantic.binary(None, "Add", tl.tuple((1,)), (2,)) == (1, 2)
        assert semantic.binary(None, "Mult", (1, 2), C(2)) == (1, 2, 1, 2)
        assert bool(tl.tuple((1, 2)) == (1, 3)) is False and bool(tl.tuple((1,)) != (1,)) is False
        assert semantic.compare(None, "Eq", (1, 2), tl.tuple((1, 2)))
        with pytest.raises(TypeError, match="tuples know"):
            semantic.binary(None, "Sub", (1,), (1,))

    def test_a_shape_is_one(self):
        def meaning(b, x):
            assert x.shape == (4, 8) and x.shape[0].value == 4 and len(x.shape) == 2
            assert list(map(int, x.shape + [2])) == [4, 8, 2] and x.numel.value == 32
            return x.shape[1:] + x.shape[:1]

        assert trace(meaning, "int32[4, 8]").result == (8, 4)
        assert trace(lambda b, x: x.shape, "int32").result == ()

    def test_fields_of_a_namedtuple(self):
        point = collections.namedtuple("point", "x y")
        t = tl.tuple(point(1, 2))
        assert (t.x, t.y, t.fields) == (1, 2, ("x", "y"))
        assert semantic.decay(None, point(None, tl.int8)).y == tl.int8
        with pytest.raises(AttributeError, match="no field 'z'; it has x, y"):
            t.z

    def test_a_run_time_index_is_refused(self):
        with pytest.raises(TypeError, match="compile-time int or slice"):
            trace(lambda b, i: tl.tuple((1, 2))[i], "int32")

    def test_types(self):
        done = trace(lambda b, x: tl.tuple((x, C(3))), "fp32")
        assert [str(t) for t in done.result.type] == ["fp32", "constexpr_type[3]"]


@tl.constexpr
def halved(n):
    return n // 2


@tl.constexpr
def wider(kind, by=2):
    assert isinstance(kind, tl.dtype)
    return tl.int64 if kind.is_int() and by == 2 else kind


@triton.jit
def greatest(kind: tl.constexpr):
    inside = kind.value
    if inside.is_floating():
        return 0.5
    return 2 ** (inside.int_bitwidth - 1) - 1


@triton.jit
def with_declared_functions(out, N: tl.constexpr):
    half: tl.constexpr = halved(N)
    i = tl.arange(0, half).to(wider(tl.int32))
    tl.static_assert(i.dtype == tl.int64)
    tl.static_assert(i.to(wider(kind=tl.int32, by=3)).dtype == tl.int32)
    tl.store(out + i, i + half)


def test_a_function_declared_constexpr_is_called_at_compile_time(launch):
    out = np.zeros(4, np.int64)
    launch(with_declared_functions, (1,), out, 8)
    assert out.tolist() == [4, 5, 6, 7]


@triton.jit
def with_types_as_arguments(out):
    tl.store(out, greatest(out.dtype.element_ty))
    tl.store(out + 1, tl.standard._log2(tl.constexpr(40)))


@pytest.mark.parametrize("kind, value", [(np.float32, 0.5), (np.int32, 2**31 - 1)])
def test_a_type_argument_has_a_value_as_other_constexprs_have(launch, kind, value):
    out = np.zeros(2, kind)
    launch(with_types_as_arguments, (1,), out)
    assert out.tolist() == [value, 5]


@triton.jit
def with_needless_annotation(out, n):
    twice: tl.constexpr = n * 2
    tl.store(out, twice + 1)


def test_an_annotation_that_cannot_hold_is_warned_of(launch):
    out = np.zeros(1, np.int32)
    with pytest.warns(UserWarning, match="twice is declared tl.constexpr, but its value is int32.*no effect"):
        launch(with_needless_annotation, (1,), out, 5)
    assert out[0] == 11
