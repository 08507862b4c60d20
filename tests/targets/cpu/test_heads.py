"""Rows that begin within a line: every start, every end, in place, neighbours untouched, and past the caches."""

import re

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, generated, kernel, ptr, run_cpu, target
from tilewright.ir.node import ParamFacts
from tilewright.targets.cpu.generate import generate
from tilewright.targets.cpu.streaming import LEAST_BYTES
from tilewright.targets.llvm.isa import Isa

AVX512 = Isa(fma=True, half=True, avx512=True, round=True)
HALVED = Isa(fma=True, half=True, avx512=True, round=True, halved=True)


def rows(size=256, in_place=False, divided=False):
    """o[row, :n] = 2 * x[row, :n] + 1, a program a row; `divided`: of a row whose second half is read first."""
    def body(b, x, o, n):
        column = b.iota(size)
        mask = b.binary("cmp_lt_s", column, b.like(n, column))
        place = b.add(b.mul(b.pid(), n), column)
        source = b.at(o if in_place else x, place)
        if divided:
            source = b.at(x, b.binary("rem_s", b.add(column, b.const(8, I32, (size,))), b.const(16, I32, (size,))))
        value = b.load(source, mask)
        b.store(b.at(o, place), b.add(b.mul(value, b.const(2.0, F32, (size,))), b.const(1.0, F32, (size,))), mask)
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)


def placed(count, by):
    """Zeros of which the first one lies `by` elements behind the beginning of a line."""
    raw = np.zeros(4 * count + 128, np.uint8)
    start = -raw.ctypes.data % 64 + 4 * by
    return raw[start:start + 4 * count].view(np.float32)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("n", [0, 1, 15, 31, 32, 33, 47, 100, 239, 240, 241, 255, 256])
def test_every_start_and_end(n, in_place):
    module, count = rows(in_place=in_place), 17
    for by in (0, 1, 7, 15):
        x, o = np.arange(count * n + 64, dtype=np.float32), placed(count * n + 64, by)
        o[:] = x
        run_cpu(module, (count,), [x, o, n])
        np.testing.assert_array_equal(o[:count * n], 2 * x[:count * n] + 1)
        np.testing.assert_array_equal(o[count * n:], x[count * n:])


def test_an_index_that_is_divided():
    x, o = np.arange(64, dtype=np.float32), placed(5 * 100, 3)
    run_cpu(rows(divided=True), (5,), [x, o, 100])
    np.testing.assert_array_equal(o, np.tile(2 * x[(np.arange(100) + 8) % 16] + 1, 5))


HEAD = re.compile(r"icmp ult <\d+ x i32> <i32 0, i32 1")


def test_where_rows_have_heads():
    """Not where the launch promises whole lines, nor where the index is divided, nor in a block of a long row."""
    assert HEAD.search(generate(rows(), AVX512, 512).text)
    assert not HEAD.search(generate(rows(divided=True), AVX512, 512).text)
    module = rows()
    facts = (ParamFacts(16), ParamFacts(16), ParamFacts(16))
    object.__setattr__(module.entry, "param_facts", facts)
    assert not HEAD.search(generate(module, AVX512, 512).text)


@pytest.mark.parametrize("isa,bits", [(AVX512, 512), (HALVED, 512), (Isa(fma=True), 256)])
def test_only_whole_lines_bypass_the_caches(isa, bits):
    """Neighbouring stores of less than a line, and masked ones, stay with the caches."""
    text = generate(rows(), isa, bits).text
    streams = re.findall(r"store <(\d+) x float> .*!nontemporal", text)
    assert streams
    for block in re.split(r"\n(?=\w+:)", text):
        lanes = sum(int(n) for n in re.findall(r"store <(\d+) x float> .*!nontemporal", block))
        assert lanes * 4 % 64 == 0


@pytest.mark.parametrize("n,by", [(1000, 0), (1001, 0), (999, 5), (1016, 1), (1020, 0), (1024, 1), (781, 3)])
def test_large_launches(n, by):
    """Above the size from which stores stream, with rows at all places."""
    count = LEAST_BYTES // 4096 + 3
    x, o = np.arange(count * n, dtype=np.float32), placed(count * n, by)
    run_cpu(rows(size=1024), (count,), [x, o, n])
    np.testing.assert_array_equal(o, 2 * x + 1)


@pytest.mark.parametrize("shift", [1, 2, 3, 63])
@pytest.mark.parametrize("n", [1000, 1001])
def test_elements_that_lie_across_lines(n, shift):
    """Arrays may begin at any byte: no vector of such rows begins at a line, so none bypasses the caches."""
    count = LEAST_BYTES // 4096 + 3
    raw = np.zeros(4 * count * n + 256, np.uint8)
    start = -raw.ctypes.data % 64 + shift
    x, o = np.arange(count * n, dtype=np.float32), raw[start:start + 4 * count * n].view(np.float32)
    run_cpu(rows(size=1024), (count,), [x, o, n])
    np.testing.assert_array_equal(o, 2 * x + 1)
    assert not raw[:start].any() and not raw[start + o.nbytes:].any()


def test_it_is_in_use():
    if target().machine.isa.avx512:
        assert generated(rows()).metadata["nontemporal"]
