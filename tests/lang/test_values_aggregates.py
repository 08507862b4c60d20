"""Aggregates on every engine: fields, methods, loops, branches, functions; and what is refused."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.aggregate
class Range:
    """A run of elements."""

    start: tl.tensor
    size: tl.constexpr

    @triton.jit
    def indices(self):
        return self.start + tl.arange(0, self.size)

    @triton.jit
    def moved(self, by):
        return Range(self.start + by, self.size)

    @triton.constexpr_function
    def halves(self):
        return self.size.value // 4


@triton.aggregate
class Sums:
    total: tl.tensor
    seen: tl.tensor
    where: Range
    scale: tl.constexpr

    def __init__(self, where, scale=1):
        self.where = where
        self.scale = tl.constexpr(scale)
        self.total = where.start * 0
        self.seen = where.start * 0


@triton.jit
def step(sums, x):
    value = tl.sum(tl.load(x + sums.where.indices())) * sums.scale
    return tl.aggregate_replace(sums, total=sums.total + value, seen=sums.seen + 1)


@triton.jit
def in_loops(out, x, n, B: tl.constexpr):
    sums = Sums(Range(tl.program_id(0) * B, size=B), scale=3)
    for i in range(n):
        sums = step(sums, x)
        if i % 2 == 0:
            sums = tl.aggregate_replace(sums, where=sums.where.moved(B))
    tl.store(out, sums.total)
    tl.store(out + 1, sums.seen)
    tl.store(out + 2, sums.where.start)
    tl.store(out + 3, plus(sums.where.size, sums.where.halves()))


@triton.jit
def choose(out, flag, B: tl.constexpr):
    here = Range(0, B)
    if flag > 0:
        here = here.moved(B)
    tl.store(out + here.indices(), here.indices())


@triton.jit
def wrong(out, HOW: tl.constexpr):
    r = Range(tl.program_id(0), 4)
    if HOW == "field":
        tl.store(out, r.strat)
    elif HOW == "missing":
        tl.store(out, Range(0).start)
    elif HOW == "constexpr":
        tl.store(out, Range(0, tl.program_id(0)).start)
    elif HOW == "class":
        tl.store(out, tl.aggregate_replace(Sums(r), where=3).total)
    else:
        tl.store(out, tl.aggregate_replace(r, stop=3).start)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_carried_by_loops_and_branches(launch, n):
    x, out = np.arange(64, dtype=np.int32), np.zeros(4, np.int32)
    launch(in_loops, (1,), out, x, n, B=8)
    start, total = 0, 0
    for i in range(n):
        total += 3 * x[start:start + 8].sum()
        start += 8 * (i % 2 == 0)
    assert out.tolist() == [total, n, start, 10]


@pytest.mark.parametrize("flag", [0, 1])
def test_branches(launch, flag):
    out = np.full(8, -1, np.int32)
    launch(choose, (1,), out, flag, B=4)
    assert out.tolist() == ([-1] * 4 + [4, 5, 6, 7] if flag else [0, 1, 2, 3] + [-1] * 4)


@pytest.mark.parametrize("how, message", [
    ("field", "Range has no field or method 'strat'; it has start, size, indices, moved, halves"),
    ("missing", "Range: missing a required argument: 'size'"),
    ("constexpr", "Range.size is a constexpr, but its value is the run-time value"),
    ("class", "Sums.where must be of the class Range"),
    ("replace", "Range has no field 'stop'"),
])
def test_refusals(launch, how, message):
    with pytest.raises(triton.CompilationError, match=message):
        launch(wrong, (1,), np.zeros(1, np.int32), HOW=how)


def test_classes_that_cannot_be_aggregates():
    with pytest.raises(TypeError, match="has no annotated fields"):
        triton.aggregate(type("Empty", (), {}))
    with pytest.raises(TypeError, match="cannot be a @jit function"):
        @triton.aggregate
        class Wrong:
            x: tl.tensor

            @triton.jit
            def __init__(self, x):
                self.x = x

    assert tl.core._aggregate is triton.aggregate and Range.__doc__ == "A run of elements."
