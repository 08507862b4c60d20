"""Which loads ask for the next row, how far away it is, and that this changes no result."""

import re

import numpy as np

from tests.targets.cpu.harness import F32, I32, both, generated, kernel, ptr
from tests.targets.cpu.test_nests import vector_add
from tests.targets.cpu.test_reduce import softmax


def rows(number, body):
    """A program a row of 1024 elements that starts at element `number(b, program, n)`."""
    def build(b, x, o, n):
        start = number(b, b.pid(), n)
        body(b, b.at(b.at(x, start), b.iota(1024)), o)
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], build)


def centred(b, pointers, o):
    """Two sums that both read the row."""
    x = b.load(pointers)
    level = b.sum(x, 0)
    b.store(b.at(o, b.pid()), b.sum(b.op("max_f", x, b.like(level, x)), 0))


def prefetches(module):
    return generated(module).text.count("call void @llvm.prefetch")


def distances(module):
    """The constants that places to prefetch are away."""
    text = generated(module).text
    places = re.findall(r"@llvm\.prefetch\.p0\(ptr (%\w+),", text)
    found = [re.search(re.escape(p) + r" = getelementptr i8, ptr %\w+, i64 (\S+)", text)[1] for p in places]
    return set(found)


def test_a_row_that_is_read_twice_or_computed_long():
    assert prefetches(softmax(1024)) > 0
    assert prefetches(rows(lambda b, p, n: b.mul(p, n), centred)) > 0
    assert prefetches(rows(lambda b, p, n: b.mul(p, n), lambda b, x, o: b.store(o, b.sum(b.load(x), 0)))) == 0
    assert prefetches(vector_add(1024)) == 0
    assert prefetches(softmax(1 << 20)) == 0        # it would not stay in a cache


def test_distances():
    """A constant one can be seen in the text: rows lie 3000 elements apart."""
    assert distances(rows(lambda b, p, n: b.mul(p, 3000), centred)) == {"12000"}
    assert distances(rows(lambda b, p, n: b.add(b.mul(b.mul(p, 50), 3), n), centred)) == {"600"}


def test_a_place_that_does_not_move_or_moves_unknowably():
    assert prefetches(rows(lambda b, p, n: n, centred)) == 0
    assert prefetches(rows(lambda b, p, n: b.op("xor", p, n), centred)) == 0


def test_loops_look_to_their_next_iteration():
    def build(b, x, o, n):
        def body(i, carried):
            here = b.load(b.at(b.at(x, i), b.iota(1024)))
            level = b.sum(here, 0)
            return [b.op("max_f", carried, b.sum(b.op("max_f", here, b.like(level, here)), 0))]

        (total,) = b.for_(b.const(0), n, b.mul(n, 2), [b.const(0.0, F32)], body)
        b.store(o, total)
    assert prefetches(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], build)) > 0


def test_results_at_the_end_of_the_memory():
    """The last row's next one is no memory of ours; that does not matter."""
    for n in (1024, 1000):
        x = np.random.default_rng(0).standard_normal((3, n)).astype(np.float32)
        both(softmax(1024), (3,), [x, np.zeros_like(x), n, n], exact=False)


def test_distances_in_two_branches():
    """What was computed for a nest in one branch is not known in the other one."""
    def build(b, x, o, n):
        pointers = b.at(b.at(x, b.mul(b.mul(b.pid(), n), n)), b.iota(1024))

        def way(turn):
            def write():
                value = b.load(pointers)
                level = b.sum(value, 0)
                b.store(b.at(o, b.pid()), b.sum(b.op("max_f" if turn else "min_f", value, b.like(level, value)), 0))
                return []
            return write
        b.create("if", [b.op("cmp_lt_s", b.pid(), b.const(1))], {}, [b.region([], way(0)), b.region([], way(1))])
    x = np.random.default_rng(0).integers(-9, 9, 2048).astype(np.float32)
    module = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], build)
    assert prefetches(module) >= 2
    both(module, (2,), [x, np.zeros(2, np.float32), 32])
