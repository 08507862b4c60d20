"""What a kernel says of the user's lines: `.loc` in PTX, faults of the PTX machine, failed assertions, prints."""

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright import OutOfBoundsError
from tilewright.diagnostics import KernelAssertionError
from tilewright.testing import engines, ptx_machine


@triton.jit
def reads(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.load(x + i)
    tl.store(out + i, tl.sin(y))


def test_an_access_out_of_bounds_names_the_line():
    with pytest.raises(OutOfBoundsError, match="load out of bounds: element 13 of 'x'") as caught:
        engines.launch("ptx", reads, (1,), np.zeros(50, np.float32)[:13], np.zeros(64, np.float32), N=64)
    assert "y = tl.load(x + i)" in str(caught.value) and caught.value.argument == "x"


def test_lines_in_ptx():
    x = np.zeros(64, np.float32)
    ptx = ptx_machine.run(reads, (1,), (x, x.copy()), {"N": 64}).texts["ptx"]
    first = reads.fn.__code__.co_firstlineno
    lines = {int(n) for n in re.findall(r"\.loc\s+\d+ (\d+) ", ptx)}
    assert {first + 3, first + 4} <= lines and "debug" not in ptx.partition("\n.address_size")[0]


@triton.jit
def asserts(x, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    tl.device_assert(tl.load(x + pid * N + i) < 10, "too large")
    tl.store(x + pid * N + i, i)


@pytest.mark.parametrize("n", [1, 32, 1000])
@pytest.mark.parametrize("warps", [1, 4])
def test_a_failed_assertion_ends_its_program(n, warps):
    x = np.full(3 * n, 3, np.int32)
    x[2 * n - 1] = 10
    with pytest.raises(KernelAssertionError, match=r"failed in program \(1, 0, 0\): too large") as caught:
        engines.launch("ptx", asserts, (3,), x, N=n, num_warps=warps, debug=True)
    assert "tl.device_assert(" in str(caught.value)
    assert x[:n].tolist() == list(range(n)) and x[n] == (10 if n == 1 else 3)


@triton.jit
def prints(x, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.device_print("x is 100%", tl.load(x + i))


@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (16, 16)])
def test_prints_in_order(shape, capsys):
    x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    engines.launch("ptx", prints, (1,), x, M=shape[0], N=shape[1])
    found = capsys.readouterr().out.splitlines()
    assert found == [f"pid (0, 0, 0) idx ({i}, {j}) x is 100%: {x[i, j]}" for i, j in np.ndindex(shape)]
