"""Which parameters a kernel may write through."""

import pytest

import tilewright.language as tl
from tilewright.language.function import SourceFunction
from tilewright.language.options import Options, RuntimeArg, Signature
from tilewright.language.types import int32, int64, pointer_type
from tilewright.lowering import lower


def direct(x, y, n):
    tl.store(y, tl.load(x) + n)


def moved_and_reshaped(x, y, n):
    p = tl.reshape(x + tl.arange(0, 4), (2, 2)) + n
    tl.store(tl.trans(p), 1)


def chosen(x, y, n):
    tl.store(tl.where(n > 0, x, y), 1)


def through_a_branch(x, y, n):
    p = x
    if n > 0:
        p = y + 1
    tl.store(p, 1)


def through_a_loop(x, y, n):
    p, q = x, y
    for _ in range(n):
        p, q = q, p
    tl.store(p, 1)


def moved_in_a_loop(x, y, n):
    p = y
    while tl.load(p) != n:
        p += 1
    tl.store(p, 1)


def loaded(x, y, n):
    tl.store(tl.load(x).to(tl.int64).to(tl.pointer_type(tl.int32)), n)


def address_as_a_number(x, y, n):
    a = y.to(tl.int64)
    tl.store(a.to(tl.pointer_type(tl.int32)), n)


def nothing(x, y, n):
    tl.load(x)


@pytest.mark.parametrize("fn, params, anything", [
    (direct, {1}, False), (moved_and_reshaped, {0}, False), (chosen, {0, 1}, False), (through_a_branch, {0, 1}, False),
    (through_a_loop, {0, 1}, False), (moved_in_a_loop, {1}, False), (loaded, set(), True),
    (address_as_a_number, set(), True), (nothing, set(), False),
])
def test_written(fn, params, anything):
    types = {"x": pointer_type(int64 if fn is loaded else int32), "y": pointer_type(int32), "n": int32}
    lowered = lower(SourceFunction(fn), Signature({k: RuntimeArg(t) for k, t in types.items()}), Options(), check=2)
    assert (lowered.written.params, lowered.written.anything) == (params, anything)
