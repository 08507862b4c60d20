"""Inline PTX: packing, kinds of registers, several results, and what is refused."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import tile_ir
from tilewright.diagnostics import CompilationError
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.testing import engines


@triton.jit
def bytes_at_once(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    sums = tl.inline_asm_elementwise("vadd4.u32.u32.u32 $0, $1, $2, 0;" if N == 1 else "xor.b32 $0, $1, $2;", "=r,r,r",
                                     [tl.load(x + i), tl.load(y + i)], tl.uint8, is_pure=True, pack=4)
    tl.store(out + i, sums)


@pytest.mark.parametrize("n", [4, 64, 1024])
def test_four_bytes_in_a_register(n):
    x, y = (np.random.default_rng(k).integers(0, 256, n, np.uint8) for k in (1, 2))
    out = np.zeros_like(x)
    engines.launch("ptx", bytes_at_once, (1,), x, y, out, N=n)
    np.testing.assert_array_equal(out, x ^ y)


@triton.jit
def two_results(x, low, high, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.inline_asm_elementwise("{ mul.lo.u32 $0, $2, $3;\n mul.hi.u32 $1, $2, $3; }", "=&r,=r,r,r",
                                     [tl.load(x + i), 100000], (tl.int32, tl.int32), is_pure=False, pack=1)
    tl.store(low + i, a)
    tl.store(high + i, b)


def test_several_results_and_literals():
    x = np.array([0, 1, 65536, 2**31 - 1], np.int32)
    low, high = np.zeros_like(x), np.zeros_like(x)
    engines.launch("ptx", two_results, (1,), x, low, high, N=4)
    exact = [int(v) * 100000 for v in x]
    assert [int(v) & 0xFFFFFFFF for v in low] == [v & 0xFFFFFFFF for v in exact]
    assert high.tolist() == [v >> 32 for v in exact]


@triton.jit
def halves(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.inline_asm_elementwise("add.rn.f16x2 $0, $1, $1;", "=r,r", [tl.load(x + i)], tl.float16, True, 2)
    z = tl.inline_asm_elementwise("add.rn.f16 $0, $1, $1;", "=h,h", [y], tl.float16, True, 1)
    tl.store(out + i, z)


def test_halves():
    x = np.linspace(-3, 3, 32).astype(np.float16)
    out = np.zeros_like(x)
    engines.launch("ptx", halves, (1,), x, out, N=32)
    np.testing.assert_array_equal(out, x * 4)


@triton.jit
def scalar_clock(out):
    tl.store(out, tl.inline_asm_elementwise("mov.u32 $0, 42;", "=r", [], tl.int32, is_pure=False, pack=1))


def test_no_operands():
    out = np.zeros(1, np.int32)
    engines.launch("ptx", scalar_clock, (1,), out)
    assert out[0] == 42


@triton.jit
def wrong(x, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr):
    i = tl.arange(0, 32)
    y = tl.load(x + i)
    tl.store(x + i, tl.inline_asm_elementwise("add.s32 $0, $1, 1;", CONSTRAINTS, [y], tl.int32, True, PACK))


@pytest.mark.parametrize("constraints, pack, text", [
    ("=r,r,r", 1, "have 1 results and 2 operands, but 1 and 1 are needed"),
    ("=r,r", 2, "have 1 results and 1 operands, but 2 and 2 are needed"),
    ("=r,q", 1, "the constraint 'q' is none of PTX registers"),
    ("=r,h", 1, "an operand of 32 bits does not fit a register of 16 bits"),
])
def test_wrong_constraints(constraints, pack, text):
    with pytest.raises(CompilationError, match=text) as caught:
        engines.launch("ptx", wrong, (1,), np.zeros(32, np.int32), CONSTRAINTS=constraints, PACK=pack)
    assert "tl.inline_asm_elementwise(" in str(caught.value)


@triton.jit
def dependent(out):
    tl.extra.cuda.gdc_wait()
    tl.store(out, 1)
    tl.extra.cuda.gdc_launch_dependents()


@pytest.mark.parametrize("number, wanted", [(80, 0), (89, 0), (90, 2), (100, 2), (120, 2)])
def test_what_orders_launches_is_nothing_where_no_launch_begins_early(number, wanted):
    """PTX ISA 9.7.13.14: griddepcontrol is of capability 9.0 and up; ptxas refuses it for others."""
    code = NvidiaTarget(number).compile(tile_ir(dependent, np.zeros(1, np.int32)), Options())
    assert code.texts["ptx"].count("griddepcontrol.") == wanted
