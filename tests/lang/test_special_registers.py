"""tl.extra.cuda: numbers of the launch everywhere, instructions of GPUs there, and a refusal elsewhere."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.lang.recorder import Recorder, call
from tilewright.testing import engines, ptx_machine


@triton.jit
def registers(out, N: tl.constexpr):
    before = tl.extra.cuda.globaltimer()
    tl.extra.cuda.gdc_wait()
    tl.store(out, tl.extra.cuda.smid())
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + 1, tl.extra.cuda.globaltimer() - before >= 0)


@triton.jit
def sizes(out):
    tl.store(out, tl.extra.cuda.num_warps())
    tl.store(out + 1, tl.extra.cuda.num_threads())


def test_on_the_machine_they_are_instructions():
    out = np.full(2, -1, np.int64)
    code = ptx_machine.run(registers, (1,), (out, 1), {})
    assert out.tolist() == [0, 1]
    text = code.texts["ptx"]
    order = [text.index(word) for word in ("griddepcontrol.wait", "%smid", "griddepcontrol.launch_dependents")]
    assert order == sorted(order) and text.count("%globaltimer") == 2


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_elsewhere_they_say_so(engine):
    with pytest.raises(Exception, match="tl.extra.cuda.globaltimer is an instruction of NVIDIA GPUs") as caught:
        engines.launch(engine, registers, (1,), np.zeros(2, np.int64), 1)
    assert "test_special_registers.py" in str(caught.value)


@triton.jit
def dependent(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.extra.cuda.gdc_wait()
    v = tl.load(x + i)
    if tl.program_id(0) > 0:
        tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + i, v + 1)


def test_what_orders_launches_is_nothing_where_they_are_in_order(launch):
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    launch(dependent, (4,), x, out, N=16)
    np.testing.assert_array_equal(out, x + 1)


def test_sizes_of_the_launch(launch):
    out = np.zeros(2, np.int32)
    launch(sizes, (1,), out, num_warps=8)
    assert out.tolist() == [8, 256]


def test_they_are_in_libraries_namespaces():
    assert call(Recorder(), tl.extra.cuda.num_warps).value == 4
