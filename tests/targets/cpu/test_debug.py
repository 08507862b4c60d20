"""Prints and assertions in compiled kernels."""

import numpy as np
import pytest

from tests.departures import differs
from tests.targets.cpu.harness import F32, I32, both, kernel, ptr, run_cpu
from tilewright.diagnostics import KernelAssertionError, Location


@differs("Prints are whole and in order", topic="Errors and debugging",
         peer="Lines of threads and programs mix, elements may come twice or not at all.",
         ours="A line an element, each once, in the order of the program; a program's lines stay together.")
def test_prints_show_tiles_scalars_and_bools(capfd):
    def body(b, x):
        v = b.load(b.at(x, b.iota(3)))
        doubled = b.op("add_f", v, v)
        b.create("device_print", [doubled, b.op("cmp_ogt", v, b.const(0.5, F32, (3,)))],
                 {"prefix": "v", "signed": (True, False)})
        b.store(b.at(x, b.iota(3)), doubled)
        b.create("device_print", [b.pid()], {"prefix": "p", "signed": (True,)})
        b.create("device_print", [], {"prefix": "hello", "signed": ()})
    x = np.array([0, 1, 2], np.float32)
    run_cpu(kernel([("x", ptr(F32))], body), (1,), [x])
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["0.000000", "2.000000", "4.000000", "0", "1", "1", "0", "hello"]
    assert x.tolist() == [0, 2, 4]


def test_a_failed_assertion_stops_the_program_and_is_raised():
    def body(b, x, n):
        b.location = Location("kernel.py", 7, 4)
        offs = b.iota(20)
        b.create("device_assert", [b.binary("cmp_lt_s", offs, n)], {"message": "in range"})
        b.store(b.at(x, offs), offs)
    module = kernel([("x", ptr(I32)), ("n", I32)], body)
    x = np.zeros(20, np.int32)
    run_cpu(module, (1,), [x, 20])
    assert x[19] == 19
    y = np.zeros(20, np.int32)
    with pytest.raises(KernelAssertionError, match="in range"):
        run_cpu(module, (1,), [y, 19])
    assert not y.any()


def test_an_assertion_in_a_loop_and_in_a_branch():
    def body(b, x, n):
        def step(i):
            flag = b.op("cmp_gt_s", i, b.const(2))
            def then():
                b.create("device_assert", [b.op("cmp_lt_s", i, n)], {"message": "i < n"})
                return []
            b.create("if", [flag], {}, [b.region([], then), b.region([], list)])
            b.store(b.at(x, i), i)
            return []
        b.for_(0, 6, 1, [], step)
    module = kernel([("x", ptr(I32)), ("n", I32)], body)
    x = np.full(6, -1, np.int32)
    run_cpu(module, (1,), [x, 6])
    assert x.tolist() == list(range(6))
    x[:] = -1
    with pytest.raises(KernelAssertionError):
        run_cpu(module, (1,), [x, 4])
    assert x.tolist() == [0, 1, 2, 3, -1, -1]


def test_a_promise_costs_nothing():
    def body(b, x, n):
        b.create("assume", [b.op("cmp_gt_s", n, b.const(0))])
        b.store(x, n)
    both(kernel([("x", ptr(I32)), ("n", I32)], body), (1,), [np.zeros(1, np.int32), 3])
