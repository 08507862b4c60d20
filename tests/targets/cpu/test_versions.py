"""Which versions of a nest are written; that they compute the same is tested where each comes from."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, WIDE, both, generated, kernel, ptr
from tests.targets.cpu.test_dot import matmul
from tilewright.targets.cpu.generate import generate
from tilewright.targets.llvm.isa import Isa


def scaled(size, rows=False):
    """o = 2 * x where column < n; `rows`: and row < m."""
    def body(b, x, o, m, n):
        column = b.iota(size)
        place = b.add(column, b.mul(b.pid(), n))
        mask = b.binary("cmp_lt_s", column, b.like(n, column))
        if rows:
            row = b.iota(4)
            place = b.add(b.mul(b.col(row), n), b.row(column))
            mask = b.binary("and", b.col(b.binary("cmp_lt_s", row, b.like(m, row))), b.row(mask))
        value = b.load(b.at(x, place), mask)
        b.store(b.at(o, place), b.add(value, value), mask)
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("m", I32), ("n", I32)], body)


def count(module, what):
    return generate(module, WIDE, 512, check_bounds=False).text.count(what)


def test_long_rows_have_one_version_for_every_length():
    """A head, unrolled, single vectors, in two kinds of stores; a masked load each for the vector that is not full."""
    assert count(scaled(1024), "masked.load.v16f32.p0(ptr align") == 2
    assert count(scaled(1024), "load <16 x float>") == 2 * (1 + 4 + 1)


def test_short_rows_have_one_without_loops_besides():
    assert count(scaled(64), "load <16 x float>") > count(scaled(64), "masked.load.v16f32.p0(ptr align") > 0


def test_a_split_row_that_unrolled_vectors_would_fill_has_single_ones():
    """Only a full row has so many vectors, and that has a version of its own; both in two kinds of stores."""
    assert count(scaled(64), "load <16 x float>") == 2 * (4 + 1)
    assert count(scaled(128), "load <16 x float>") == 2 * (4 + 4 + 1)


def test_short_rows_that_a_product_packs_have_one_version_for_all_that_is_not_full():
    """Four masked loads for each row of 64, and no loop along it; 4 more are of A's copy, 2 for each row of 32."""
    text = generated(matmul(64, 64, 32), isa=WIDE).text
    assert text.count("masked.load.v16f32.p0(ptr align") == 4 + 2


@pytest.mark.parametrize("size", [64, 512])
def test_row_masks_are_tested_before(size):
    for m, n in ((4, 100), (3, 100), (4, size), (3, size), (4, size - 1), (1, 33), (4, 16), (0, 5)):
        both(scaled(size, rows=True), (1,), [np.arange(4 * n, dtype=np.float32), np.zeros(4 * n, np.float32), m, n],
             optimise=(True,))


def test_a_masked_tile_that_does_not_wrap_is_contiguous():
    """Only the version for tiles that wrap gathers: once for each operand."""
    full = generated(matmul(64, 64, 32, wrap=True), isa=WIDE).text
    assert 0 < full.count("@llvm.masked.gather.v16f32.v16p0(<16 x ptr>") <= 2 * 4


def test_where_512_bits_are_halved_what_memory_decides_takes_256_at_once():
    """But not what bypasses the caches, which takes whole lines, nor what computes long."""
    def summed(b, x, o):
        b.store(b.at(o, b.pid()), b.sum(b.load(b.at(x, b.iota(1024))), 0))

    def raised(b, x, o):
        b.store(b.at(o, b.iota(1024)), b.op("exp", b.load(b.at(x, b.iota(1024)))))

    halved = replace(WIDE, halved=True)
    text = generated(scaled(1024), isa=halved).text
    whole = generated(scaled(1024), isa=WIDE).text
    assert 2 * text.count("fadd <8 x float>") == 2 * text.count("fadd <16 x float>") == whole.count("fadd <16 x float>")
    assert text.count("nontemporal") == len(re.findall(r"store <16 x float>.*nontemporal", text)) == whole.count(
        "nontemporal") > 0
    for body in (summed, raised):
        assert "load <16 x float>" in generated(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), isa=halved).text


def test_narrow_machines_have_no_streams():
    assert "nontemporal" not in generate(scaled(1024), Isa(), 128).text
