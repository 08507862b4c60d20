"""Launch facts from extents and written parameters."""

import pytest

from tilewright.analysis.written import Written
from tilewright.runtime.arguments import ANYWHERE, Pointer
from tilewright.runtime.driver import driver
from tilewright.runtime.launch import WIDE_ELEMENTS, check_on_host, check_writable, device_of, facts_of


def at(low, high, element="fp32", writable=True, device="cpu"):
    return Pointer(element, low, low, high, writable, device)


def facts(pointers, written=(), anything=False):
    return facts_of(list(enumerate(pointers)), Written(frozenset(written), anything))


@pytest.mark.parametrize("a, b, disjoint", [
    (at(0, 64), at(64, 128), True), (at(0, 64), at(63, 128), False), (at(64, 128), at(0, 65), False),
    (at(0, 64), at(0, 64), False), (at(0, 64), at(10, 20), False), (at(10, 10), at(0, 64), True),
])
def test_disjoint(a, b, disjoint):
    assert facts([a, b], {0}).disjoint == facts([a, b], {1}).disjoint == disjoint
    assert facts([a, b]).disjoint


def test_only_written_arguments_count():
    pointers = [at(0, 64), at(32, 96), at(200, 300)]
    assert facts(pointers, {2}).disjoint
    assert not facts(pointers, {1}).disjoint


def test_stores_to_anywhere_prove_nothing():
    assert not facts([at(0, 64)], (), anything=True).disjoint


@pytest.mark.parametrize("element, size", [("i8", 1), ("fp16", 2), ("fp32", 4), ("fp64", 8)])
def test_wide_counts_elements(element, size):
    assert facts([at(0, size * WIDE_ELEMENTS, element)]).wide
    assert not facts([at(0, size * WIDE_ELEMENTS - 1, element)]).wide


def test_read_only():
    written = Written(frozenset({1}))
    pointers = [(0, at(0, 8, writable=False)), (1, at(8, 16))]
    check_writable("k", ["a", "b"], pointers, written)
    with pytest.raises(ValueError, match="k: parameter 'b' is a read-only array"):
        check_writable("k", ["a", "b"], [(0, at(0, 8)), (1, at(8, 16, writable=False))], written)


def test_devices():
    assert device_of("k", ["a", "b"], [(0, at(0, 8)), (1, at(8, 16))]) == "cpu" == device_of("k", [], [])
    assert device_of("k", ["a", "b"], [(1, at(0, 8, device="cuda:1"))]) == "cuda:1"
    assert device_of("k", ["a", "b"], [(0, at(0, 0, device=ANYWHERE)), (1, at(0, 8, device="cuda:1"))]) == "cuda:1"
    assert device_of("k", ["a"], [(0, at(0, 0, device=ANYWHERE))]) == driver.device_name()
    with pytest.raises(ValueError, match="'a' is on cpu, 'b' is on cuda:1"):
        device_of("k", ["a", "b"], [(0, at(0, 8)), (1, at(0, 8, device="cuda:1"))])
    with pytest.raises(ValueError, match="'b' is on mps:0, and kernels run on CPUs and on NVIDIA GPUs"):
        device_of("k", ["a", "b"], [(1, at(0, 0, device="mps:0"))])


def test_what_works_on_the_host_only():
    check_on_host("k", ["a", "b"], [(0, at(0, 8)), (1, at(8, 16))])
    with pytest.raises(ValueError, match="k: the tensors are on cuda:1, and this works on tensors in the CPU's memory"):
        check_on_host("k", ["a", "b"], [(1, at(0, 8, device="cuda:1"))])
