"""Code for grids with few programs: when it is made, and that other grids get other code, on the PTX machine."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import tile_ir
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.passes import few_programs as module_of
from tilewright.targets.nvidia.passes.few_programs import LIMITS, few_programs
from tilewright.testing import ptx_machine

TARGET = NvidiaTarget(90, assemble=False)
FLOATS = np.zeros(64, np.float32)


@triton.jit
def scale(x, weight, out, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * tl.load(weight + i % columns, mask=i < n), mask=i < n)


@triton.jit
def shifted(x, weight, out, n, columns, BLOCK: tl.constexpr):
    """The number that is divided has a part that the launch does not bound."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(weight + (i + n) % columns, mask=i < n), mask=i < n)


@triton.jit
def undivided(x, weight, out, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def far(x, out, n, BLOCK: tl.constexpr):
    """From the third program on the index is negative, and so is what is left of it."""
    i = tl.program_id(0) * 0x40000000 + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.load(x + n + i % n))


def module(kernel, block):
    return tile_ir(kernel, FLOATS, FLOATS.copy(), FLOATS.copy(), 64, 16, disjoint=True, BLOCK=block)


@pytest.mark.parametrize(("kernel", "block", "most"), [
    (scale, 1024, LIMITS[0]), (scale, 8192, LIMITS[1]), (scale, 1 << 16, 0), (shifted, 1024, 0), (undivided, 1024, 0)])
def test_what_is_promised(kernel, block, most):
    """As many programs as do not make an index wrap, where that tells the sign of what is divided."""
    found = few_programs(module(kernel, block))
    assert found.most_programs == most
    again = parse_module(print_module(found))
    assert again.most_programs == most and print_module(again) == print_module(found)


def test_one_way_instead_of_two():
    code = TARGET.compile(module(scale, 1024), Options())
    general = TARGET.for_any_grid(code)
    assert code.metadata["most_programs"] == LIMITS[0] and general.metadata["most_programs"] == 0
    assert general.metadata["general"] == {} and "bra" not in code.texts["ptx"] and "bra" in general.texts["ptx"]


@pytest.mark.parametrize("programs", [2, 4])
def test_grids_within_the_promise_and_beyond(monkeypatch, programs):
    """Indices of more than two programs wrap: those launches get code that takes any."""
    monkeypatch.setattr(module_of, "LIMITS", (2,))
    n, block = 48, 256
    x = np.arange(2 * n, dtype=np.float32)
    out = np.zeros(programs * block, np.float32)
    code = ptx_machine.run(far, (programs,), (x, out, n), {"BLOCK": block}, TARGET)
    index = (np.arange(programs, dtype=np.int64)[:, None] * 0x40000000 + np.arange(block)).astype(np.int32)
    assert (index < 0).any() == (programs > 2)
    np.testing.assert_array_equal(out, x[n + np.fmod(index, n)].ravel())
    assert code.metadata["most_programs"] == (2 if programs <= 2 else 0)


def test_code_for_few_programs_is_not_run_with_many(monkeypatch):
    monkeypatch.setattr(module_of, "LIMITS", (2,))
    code = TARGET.compile(module(scale, 64), Options())
    with pytest.raises(ValueError, match="at most 2 programs"):
        ptx_machine.launch(code, (3, 1, 1), [FLOATS, FLOATS.copy(), FLOATS.copy(), 64, 16])
