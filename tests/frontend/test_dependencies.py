"""What a kernel depends on, and when it holds no more."""

import math
import sys
import types

import pytest

import tilewright.language as tl
from tests.frontend.running import jit
from tilewright.frontend import dependencies
from tilewright.language.function import ConstexprFunction

SIZE = tl.constexpr(4)
USED_BY_CONSTEXPR = 3


def times(x):
    return x * USED_BY_CONSTEXPR


@ConstexprFunction
def scaled(x):
    return times(x)


@jit
def leaf(x):
    return x + SIZE


@jit
def middle(x):
    return leaf(x) + scaled(2)


settings = types.ModuleType("settings_for_test")
settings.inner = types.ModuleType("settings_for_test.inner")
settings.inner.LIMIT = tl.constexpr(7)


@jit
def kernel(out, x):
    local = middle(x)
    limit = settings.inner.LIMIT + math.pi
    tl.store(out, local + limit)


def names_of(found):
    return {(r.function, r.name) for r in found.reads}


def test_callees_and_constants_are_found_through_calls_and_modules():
    found = dependencies(kernel)
    assert [f.__name__ for f in found.functions] == ["kernel", "middle", "leaf"]
    assert {("kernel", "middle"), ("kernel", "settings.inner.LIMIT"), ("leaf", "SIZE"), ("middle", "scaled"),
            ("scaled", "times"), ("times", "USED_BY_CONSTEXPR")} <= names_of(found)
    assert not any(name in ("local", "out", "x") for _, name in names_of(found))


@pytest.mark.parametrize(("owner", "name", "value"), [
    (sys.modules[__name__], "SIZE", tl.constexpr(4)), (sys.modules[__name__], "leaf", jit(leaf.fn)),
    (sys.modules[__name__], "USED_BY_CONSTEXPR", 4),
    (sys.modules[__name__], "times", lambda x: x), (settings.inner, "LIMIT", tl.constexpr(8)),
    (settings, "inner", settings.inner.__class__("other")),
])
def test_they_hold_until_a_name_is_bound_to_something_else(monkeypatch, owner, name, value):
    found = dependencies(kernel)
    assert found.hold()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, value)
        assert not found.hold()
    assert found.hold()


def test_a_deleted_name(monkeypatch):
    found = dependencies(kernel)
    monkeypatch.delattr(sys.modules[__name__], "SIZE")
    assert not found.hold()


def test_names_that_nobody_reads_do_not_matter(monkeypatch):
    found = dependencies(kernel)
    monkeypatch.setattr(sys.modules[__name__], "names_of", None)
    assert found.hold()


def test_closures():
    def make():
        step = tl.constexpr(2)

        def set_step(value):
            nonlocal step
            step = value

        @jit
        def inner(out):
            tl.store(out, step)

        return inner, set_step

    inner, set_step = make()
    found = dependencies(inner)
    assert found.hold() and ("inner", "step") in names_of(found)
    set_step(tl.constexpr(3))
    assert not found.hold()


def test_functions_given_as_arguments():
    def takes(fn, x):
        return fn(x)

    assert [f.__name__ for f in dependencies(jit(takes), [leaf, 3]).functions] == ["takes", "leaf"]


def test_recursion_ends():
    assert [f.__name__ for f in dependencies(again).functions] == ["again"]


@jit
def again(x):
    return again(x)
