"""Left operands of products of warpgroups that are made in registers: values against NumPy, and what is written."""

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import launch_code, tile_ir
from tilewright.ir.ops import Stage
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.assemble import find_assembler
from tilewright.testing import ptx_machine


@triton.jit
def scaled(a, rows, columns, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """A times a number for each row, which no loop changes, and one for each column, in float32."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    factor = tl.load(rows + m)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        at = start + k
        x = tl.load(a + m[:, None] * K + at[None, :]).to(tl.float32) * factor[:, None] * tl.load(columns + at)[None, :]
        total = tl.dot(x.to(tl.float16), tl.load(b + at[:, None] * N + n[None, :]), total)
    tl.store(out + m[:, None] * N + n[None, :], total)


@triton.jit
def two_loads(a, c, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """A is made of int8 and of a transposed float16; the loop's index counts, too."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        at = start + k
        x = tl.load(a + m[:, None] * K + at[None, :]).to(tl.float16)
        y = tl.load(c + m[:, None] * K + at[None, :])
        x = tl.where((at[None, :] & 1) == 0, x, y)
        total = tl.dot(x, tl.load(b + at[:, None] * N + n[None, :]), total)
    tl.store(out + m[:, None] * N + n[None, :], total)


def numbers(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def close(found, want):
    np.testing.assert_allclose(found, want, rtol=0, atol=2e-3 * max(np.abs(want).max(), 1))


def scaled_arguments(K, M, N):
    size = max(K, 1)
    rows, columns = (np.random.default_rng(s).standard_normal(c).astype(np.float32) for s, c in ((3, M), (4, size)))
    return numbers((M, size), 0), rows, columns, numbers((size, N), 1), np.full((M, N), np.nan, np.float32), K


def run_scaled(K, M=64, N=128, BK=64, seed=0, **options):
    a, rows, columns, b, out, _ = args = scaled_arguments(K, M, N)
    code = ptx_machine.run(scaled, (1,), args, {"M": M, "N": N, "BK": BK, **options}, seed=seed)
    made = (a.astype(np.float32) * rows[:, None] * columns).astype(np.float16)
    close(out, made[:, :K].astype(np.float64) @ b[:K].astype(np.float64))
    return code


@pytest.mark.parametrize("trips", [0, 1, 2, 3])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_trips_and_stages(trips, stages):
    code = run_scaled(64 * trips, num_stages=stages)
    assert re.search(r"wgmma\.mma_async\S+ \{[^}]*\}, \{", code.texts["ptx"])
    assert ("async_copy" in code.texts["laid-out"]) == (stages > 1)


@pytest.mark.parametrize("M, N, BK, warps", [(128, 128, 64, 4), (128, 64, 32, 4), (128, 128, 32, 8), (64, 64, 16, 4)])
@pytest.mark.parametrize("seed", [0, 1])
def test_shapes(M, N, BK, warps, seed):
    code = run_scaled(3 * BK, M, N, BK, seed=seed, num_warps=warps)
    assert re.search(r"wgmma\.mma_async\S+ \{[^}]*\}, \{", code.texts["ptx"])
    assert "ldmatrix" in code.texts["ptx"] or BK == 16


def test_warpgroups_along_the_columns_do_not_make_it_twice():
    assert not re.search(r"wgmma\.mma_async\S+ \{[^}]*\}, \{", run_scaled(128, 64, 256, num_warps=8).texts["ptx"])


@pytest.mark.parametrize("trips, stages", [(0, 3), (1, 3), (4, 3), (3, 1)])
def test_several_loads(trips, stages):
    M, N, BK = 64, 64, 32
    K = BK * trips
    a = np.random.default_rng(0).integers(-8, 8, (M, max(K, 1)), np.int8)
    c, b, out = numbers((M, max(K, 1)), 1), numbers((max(K, 1), N), 2), np.full((M, N), np.nan, np.float32)
    ptx_machine.run(two_loads, (1,), (a, c, b, out, K), {"M": M, "N": N, "BK": BK, "num_stages": stages})
    made = np.where(np.arange(a.shape[1]) % 2 == 0, a, c).astype(np.float64)
    close(out, made[:, :K] @ b[:K].astype(np.float64))


def laid_out(K=256, **options):
    constants = {"M": 128, "N": 128, "BK": 64}
    module = tile_ir(scaled, *scaled_arguments(K, 128, 128), **constants)
    return NvidiaTarget(90, assemble=False).laid_out(module, Options(**options))


def test_the_ir_is_valid_and_prints():
    for stages in (1, 3):
        staged = laid_out(num_stages=stages)
        verify(staged, Stage.LAID_OUT)
        assert print_module(parse_module(print_module(staged))) == print_module(staged)


def test_what_the_loop_does_not_change_is_converted_before_it():
    """No conversion is left in the loop: what is copied is read in the layout in which it is needed."""
    text = print_module(laid_out())
    loop = text[text.rindex(" for "):]
    assert "convert" in text and "convert" not in loop[:loop.index("yield")]


@pytest.mark.skipif(find_assembler() is None, reason="no assembler here")
@pytest.mark.parametrize("M, N, BK, warps, programs", [(128, 128, 64, 4, 2), (128, 128, 64, 8, 2), (64, 128, 64, 4, 3)])
def test_as_many_programs_fit_as_have_buffers(M, N, BK, warps, programs):
    constants = {"M": M, "N": N, "BK": BK, "num_warps": warps}
    code = launch_code(scaled, scaled_arguments(256, M, N), constants, NvidiaTarget(90))
    facts = code.metadata
    assert not facts["spill_bytes"] and not facts["advisories"]
    registers = -(-facts["registers"] // 8) * 8
    assert min(65536 // (registers * 32 * warps), (228 << 10) // (facts["shared"] + 1024)) >= programs
