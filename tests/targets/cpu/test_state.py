"""Scratch memory: aligned, never overlapping while in use, used again after."""

import random

from tilewright.ir.types import F32, I1, I64
from tilewright.targets.cpu.state import Buffer, Scratch


def test_freed_bytes_are_used_again():
    s = Scratch()
    a, b = s.take(100), s.take(64)
    assert (a, b, s.size) == (0, 128, 192)
    s.give(a, 100)
    assert s.take(128) == 0 and s.size == 192
    s.give(b, 64)
    assert s.take(640) == 128 and s.size == 768      # the free end grows


def test_random_use_never_overlaps():
    r, s, live = random.Random(1), Scratch(), {}
    for k in range(2000):
        if live and r.random() < 0.5:
            at = r.choice(list(live))
            s.give(at, live.pop(at))
        else:
            size = r.randrange(1, 1000)
            at = s.take(size)
            assert at % 64 == 0 and at + size <= s.size
            assert all(at + size <= other or other + n <= at for other, n in live.items())
            live[at] = size
    for at, size in live.items():
        s.give(at, size)
    assert s.take(s.size) == 0


def test_buffers_are_row_major():
    assert Buffer(0, (2, 3, 4), F32).strides == (12, 4, 1)
    assert Buffer(0, (2, 3), I1).bytes == 6 and Buffer(0, (5,), I64).bytes == 40


def test_bytes_taken_apart_are_nobody_elses():
    scratch = Scratch()
    first = scratch.take(256)
    scratch.give(first, 256)
    apart = scratch.take_apart(100)
    assert apart == 256 and scratch.size == 384
    assert [scratch.take(256), scratch.take(64)] == [0, 384]
