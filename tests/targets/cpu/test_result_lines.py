"""Which nests ask for lines that a store will write, where addresses are computed early, and that results stay."""

from dataclasses import replace

import numpy as np
import pytest

from tests.targets.cpu.harness import F32, I32, both, generated, kernel, ptr
from tests.targets.cpu.random_kernels import WORDS, Generator
from tests.targets.cpu.test_nests import vector_add
from tests.targets.cpu.test_reduce import softmax
from tilewright.targets.llvm.isa import Isa


@pytest.fixture(autouse=True)
def fetching(monkeypatch):
    """Every processor is said to gain by it."""
    of = Isa.of
    monkeypatch.setattr(Isa, "of", staticmethod(lambda *args: replace(of(*args), fetches_results=True)))


def asked(module):
    """How many lines of results the code asks for."""
    return sum("@llvm.prefetch" in line and "i32 1, i32 3" in line for line in generated(module).text.splitlines())


def centred(between, block=1024):
    """exp of a row over its sum, with `between` before the store; its address is computed last."""
    def build(b, x, o, n):
        row = b.load(b.at(b.at(x, b.mul(b.pid(), n)), b.iota(block)))
        e = b.op("exp", row)
        total = b.sum(e, 0)
        between(b, o, total)
        b.store(b.at(b.at(o, b.mul(b.add(b.pid(), 1), n)), b.iota(block)), b.binary("div_f", e, total))
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], build)


def test_a_row_that_is_computed_long():
    assert asked(softmax(1024)) > 0
    assert asked(centred(lambda b, o, total: None)) > 0
    assert asked(vector_add(1024)) == 0
    assert asked(softmax(1 << 14)) == 0         # 64 KiB do not stay in the first cache


def test_only_where_the_processor_gains(monkeypatch):
    monkeypatch.setattr(Isa, "of", staticmethod(lambda *args: Isa(fma=True, half=True, round=True)))
    assert asked(softmax(1024)) == 0


def test_scalars_may_be_stored_between_but_nothing_else_happens():
    assert asked(centred(lambda b, o, total: b.store(b.at(o, b.pid()), total))) > 0

    def loop(b, o, total):
        b.for_(b.const(0), b.const(3), b.const(1), [], lambda i: b.store(b.at(o, i), total) or [])
    assert asked(centred(loop)) == 0


def test_an_address_that_depends_on_the_sum_is_not_known():
    def build(b, x, o, n):
        e = b.op("exp", b.load(b.at(x, b.iota(1024))))
        total = b.sum(e, 0)
        place = b.op("fp_to_int_s", total, to=I32)
        b.store(b.at(b.at(o, place), b.iota(1024)), e)
    assert asked(kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], build)) == 0


@pytest.mark.parametrize("programs", [3, 200])
@pytest.mark.parametrize("n", [1024, 1000])
def test_results(programs, n):
    """As few rows as are near, and so many that lines are asked for."""
    x = np.random.default_rng(0).standard_normal((programs, n)).astype(np.float32)
    both(softmax(1024), (programs,), [x, np.zeros_like(x), n, n], exact=False)


def test_results_of_addresses_that_were_computed_early():
    def sums(b, o, total):
        b.store(b.at(o, b.pid()), total)
    x = np.random.default_rng(0).standard_normal((150, 1024)).astype(np.float32)
    both(centred(sums), (150,), [x, np.zeros((151, 1024), np.float32), 1024], exact=False)


def test_nests_in_regions_compute_nothing_for_a_store_behind_them():
    """In this random kernel a loop's nest stands in the loop, and a store of its shape after it."""
    x = np.random.default_rng(9).integers(-50, 50, 400).astype(np.int32)
    both(Generator(9).module(), (1,), [x, np.zeros(WORDS, np.int32), 25, 64])
