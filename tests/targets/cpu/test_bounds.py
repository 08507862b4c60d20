"""Run-time tests of whole tiles: the text has both versions, and each is taken when it is right."""

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, I64, both, generated, kernel, ptr


def copy(compare, flip=False, t=I32, also=None):
    def body(b, x, o, n):
        offs = b.add(b.mul(b.pid(), 32), b.iota(32))
        if t == I64:
            offs = b.op("ext_s", offs, to=I64)
        limit = b.like(n, offs)
        mask = b.op(compare, limit, offs) if flip else b.op(compare, offs, limit)
        if also is not None:
            mask = b.op("and", mask, also(b, offs))
        b.store(b.at(o, offs), b.load(b.at(x, offs), mask), mask)
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", t)], body)


CASES = {"lt": copy("cmp_lt_s"), "le": copy("cmp_le_s"), "gt": copy("cmp_gt_s", True), "ge": copy("cmp_ge_s", True),
         "lt_u": copy("cmp_lt_u"), "wide": copy("cmp_lt_s", t=I64), "from": copy("cmp_ge_s"),
         "two": copy("cmp_lt_s", also=lambda b, o: b.binary("cmp_ge_s", o, 3)),
         "odd": copy("cmp_lt_s", also=lambda b, o: b.binary("cmp_ne", b.binary("and", o, 1), 0))}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 63, 64, -1])
def test_masks(name, n):
    both(CASES[name], (2,), [np.arange(64, dtype=np.float32), np.full(64, -1, np.float32), n])


@pytest.mark.parametrize("name", CASES)
def test_two_versions(name):
    text = generated(CASES[name]).text
    assert ("load <16 x float>" in text or "load <8 x float>" in text or "load <4 x float>" in text) == (name != "odd")
    assert "llvm.masked.load" in text and "gather" not in text


def test_a_mask_that_is_always_true_needs_no_test():
    def body(b, x, o, n):
        offs = b.iota(64)
        mask = b.binary("cmp_lt_s", offs, 64)
        b.store(b.at(o, offs), b.load(b.at(x, offs), mask), mask)
    text = generated(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)).text
    assert "masked" not in text


def test_a_row_of_an_image_by_division():
    """offs // w and offs % w: contiguous when the tile lies in one row, right when it does not."""
    def body(b, x, o, w):
        offs = b.add(b.mul(b.pid(), 16), b.iota(16))
        i, j = b.binary("div_s", offs, w), b.binary("rem_s", offs, w)
        b.store(b.at(o, offs), b.load(b.at(x, b.add(b.mul(i, 100), j))))
    module = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("w", I32)], body)
    for w in (1, 7, 16, 20, 32, 100):
        both(module, (4,), [np.arange(6400, dtype=np.float32), np.zeros(64, np.float32), w])


def test_a_row_at_a_loaded_place_stays_contiguous():
    def body(b, x, o, rows):
        start = b.load(b.op("ptr_add", rows, b.pid()))
        offs = b.add(b.mul(start, 32), b.iota(32))
        b.store(b.at(o, b.add(b.mul(b.pid(), 32), b.iota(32))), b.load(b.at(x, offs)))
    module = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("rows", ptr(I32))], body)
    assert "gather" not in generated(module).text
    both(module, (3,), [np.arange(128, dtype=np.float32), np.zeros(96, np.float32), np.array([3, 0, 2], np.int32)])
