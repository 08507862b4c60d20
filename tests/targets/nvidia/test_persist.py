"""Blocks that run several programs: when, what becomes of a kernel, and that its results stay, on the PTX machine."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import interpret, tile_ir
from tilewright.diagnostics import OutOfBoundsError
from tilewright.ir.ops import Stage
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.ir.walk import ops_in
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.assemble import find_tool
from tilewright.targets.nvidia.passes.persist import FEW_BYTES, is_persistent
from tilewright.testing import ptx_machine

TARGET = NvidiaTarget(90, assemble=False)
WARPS = 32


@triton.jit
def softmax(x, out, stride, columns, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.load(x + row * stride + i, mask=i < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + i, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=i < columns)


def half(rows, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float16)


def laid_out(kernel, *args, warps=WARPS, disjoint=True, maxnreg=None, **constants):
    module = tile_ir(kernel, *args, disjoint=disjoint, **constants)
    return TARGET.laid_out(module, Options(num_warps=warps, maxnreg=maxnreg))


def of_softmax(dtype, columns, warps=WARPS, **options):
    x = np.zeros(16, dtype)
    return laid_out(softmax, x, x.copy(), 16, 16, N=columns, warps=warps, **options)


def test_what_becomes_of_it():
    """The next tile is loaded where there is a program for it, before anything is done with this one."""
    module = of_softmax(np.float16, 1 << 15)
    verify(module, Stage.LAID_OUT)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    ops = module.entry.body.ops
    loop = next(op for op in ops if op.name == "for")
    assert is_persistent(module) and [op.name for op in ops if op.name in ("load", "for", "store")] == ["load", "for"]
    body = [op.name for op in loop.regions[0].ops]
    assert body.index("if") < body.index("reduce") < body.index("store")
    ahead = next(op for op in loop.regions[0].ops if op.name == "if")
    assert [op.name for op in ahead.regions[0].ops if op.row.effects] == ["load", "yield"]
    assert len(ahead.regions[1].ops) == 1 and loop.regions[0].terminator.operands == ahead.results
    assert not any(op.name == "program_id" for op in ops_in(module.entry.body))


@pytest.mark.parametrize("dtype, columns, warps, loops", [
    (np.float16, 1 << 15, 32, True), (np.float16, 1 << 15, 16, True), (np.float16, 1 << 15, 8, True),
    (np.float16, 1 << 14, 32, True), (np.float16, 1 << 14, 16, True),   # two programs have room, of narrow numbers
    (np.float16, 1 << 13, 16, False),       # four, and less than the least
    (np.float32, 1 << 14, 32, False),       # two, of wide numbers
    (np.float32, 1 << 15, 32, False),       # no registers for two rows
    (np.float32, 1 << 12, 8, False)])
def test_when_it_pays(dtype, columns, warps, loops):
    assert is_persistent(of_softmax(dtype, columns, warps)) == loops


def test_when_it_may_not():
    assert not is_persistent(of_softmax(np.float16, 1 << 15, disjoint=False))
    assert not is_persistent(of_softmax(np.float16, 1 << 15, maxnreg=64))


@triton.jit
def variant(x, out, at, WHAT: tl.constexpr, N: tl.constexpr):
    """Row maxima taken off, and one thing more."""
    row = tl.program_id(0)
    if WHAT == "index in memory":
        row = tl.load(at + row)
    if WHAT == "other axis":
        row = tl.program_id(1)
    if WHAT == "written":
        x = out
    i = tl.arange(0, N)
    if WHAT == "waits":
        while tl.load(at, volatile=True) < row:
            pass
    if WHAT == "volatile":
        v = tl.load(x + row * N + i, volatile=True).to(tl.float32)
    else:
        v = tl.load(x + row * N + i).to(tl.float32)
    most = tl.max(v, 0)
    if WHAT == "no reduction":
        most = 1.0
    if WHAT == "loop":
        for k in range(row):
            most += tl.load(at + k).to(tl.float32)
    if WHAT == "atomic":
        tl.atomic_add(at, 1)
    if WHAT == "print":
        tl.device_print("row", row)
    if WHAT == "assert":
        tl.device_assert(row >= 0, "row")
    if WHAT == "assembly":
        most = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [most], tl.float32, True, 1)
    if WHAT == "branch":
        if most > 0:
            tl.store(at + row, 1)
    tl.store(out + row * N + i, (v - most).to(tl.float16))


@pytest.mark.parametrize("what, loops", [
    ("", True), ("branch", True), ("index in memory", False), ("other axis", False), ("written", False),
    ("waits", False), ("volatile", False), ("no reduction", False), ("loop", False), ("atomic", False),
    ("print", False), ("assert", False), ("assembly", False)])
def test_programs_that_may_run_in_any_order(what, loops):
    x, at = np.zeros(16, np.float16), np.zeros(16, np.int32)
    assert is_persistent(laid_out(variant, x, x.copy(), at, WHAT=what, N=1 << 15, debug=True)) == loops


def expected(x):
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True).astype(np.float64))
    return wide / wide.sum(1, keepdims=True)


@pytest.mark.parametrize("columns", [1 << 14, 16000, 16001])
@pytest.mark.parametrize("rows, seed", [(1, 0), (2, 1), (5, 2)])
def test_results(rows, seed, columns):
    """The machine has two blocks: none, one or several further programs for each."""
    x = half(rows, columns, seed)
    out = np.full_like(x, np.nan)
    code = ptx_machine.run(softmax, (rows,), (x, out, columns, columns), {"N": 1 << 14, "num_warps": WARPS}, seed=seed)
    assert code.metadata["hidden"] == ["programs"]
    np.testing.assert_allclose(out.astype(np.float64), expected(x), rtol=2e-3, atol=1e-6)


def test_an_interpreter_runs_it_with_a_block_for_each_program():
    x = half(3, 1 << 14)
    out = np.full_like(x, np.nan)
    module = laid_out(softmax, x, out, 1 << 14, 1 << 14, N=1 << 14)
    assert is_persistent(module)
    interpret(module, (3, 1, 1), [x, out, 1 << 14, 1 << 14])
    np.testing.assert_allclose(out.astype(np.float64), expected(x), rtol=2e-3, atol=1e-6)


@triton.jit
def sums_of(x, y, out, where, count, N: tl.constexpr):
    """Two tiles of different types, of a grid of two dimensions, and the grid's size."""
    program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    i = tl.arange(0, N)
    a = tl.load(x + program * N + i, mask=i < count)
    b = tl.load(y + program * N + i)
    total = tl.sum(a.to(tl.float32), 0) + tl.sum(b.to(tl.int32), 0)
    tl.store(out + program, total)
    tl.store(where + program, tl.num_programs(0) + 100 * tl.num_programs(1) + 10000 * tl.program_id(0))


@pytest.mark.parametrize("grid", [(5, 1), (3, 2), (1, 3), (4, 3)])
def test_grids_of_two_dimensions(grid):
    programs, size = grid[0] * grid[1], 1 << 14
    random = np.random.default_rng(3)
    x = random.integers(-8, 8, (programs, size)).astype(np.float16)
    y = random.integers(-100, 100, (programs, size)).astype(np.int8)
    out, where = np.zeros(programs, np.float32), np.zeros(programs, np.int32)
    code = ptx_machine.run(sums_of, grid, (x, y, out, where, 16000), {"N": size, "num_warps": WARPS})
    assert code.metadata["hidden"] == ["programs"]
    np.testing.assert_array_equal(out, x[:, :16000].astype(np.float64).sum(1) + y.astype(np.int64).sum(1))
    ids = np.arange(programs) % grid[0]
    np.testing.assert_array_equal(where, grid[0] + 100 * grid[1] + 10000 * ids)


def test_a_fault_tells_the_program():
    x = half(3, 1 << 14)
    with pytest.raises(OutOfBoundsError, match=r"program \(2, 0, 0\)"):
        ptx_machine.run(softmax, (3,), (x[:2], np.empty_like(x), 1 << 14, 1 << 14), {"N": 1 << 14, "num_warps": WARPS})


@pytest.mark.parametrize("columns, warps, most", [(1 << 15, 32, 64), (1 << 15, 16, 128), (1 << 15, 8, 255),
                                                  (1 << 14, 32, 64)])
def test_registers(columns, warps, most):
    """Two rows fit: one in words, as it was loaded, and one as exponentials."""
    target = NvidiaTarget(90)
    if target.assembler is None:
        pytest.skip("no assembler on this machine")
    x = np.zeros(16, np.float16)
    code = target.compile(tile_ir(softmax, x, x.copy(), 16, 16, N=columns), Options(num_warps=warps))
    facts = code.metadata
    assert facts["hidden"] == ["programs"] and facts["registers"] <= most
    assert facts["spill_bytes"] <= FEW_BYTES if warps < 32 else facts["local_bytes"] == 0


@pytest.mark.skipif(find_tool("nvdisasm") is None, reason="no disassembler on this machine")
@pytest.mark.parametrize("warps, loads", [(32, 4), (16, 8)])
def test_the_next_tile_is_on_its_way_before_threads_meet(warps, loads):
    """ptxas, too, begins the loads of both tiles in front of the first barrier."""
    target = NvidiaTarget(90)
    if target.assembler is None:
        pytest.skip("no assembler on this machine")
    x = np.zeros(16, np.float16)
    code = target.compile(tile_ir(softmax, x, x.copy(), 16, 16, N=1 << 15), Options(num_warps=warps))
    before, _, behind = target.listing(code, "sass").partition("BAR.SYNC")
    assert before.count("LDG.E.128") == 2 * loads and "LDG" not in behind


def test_what_spills_is_compiled_without_the_loop(monkeypatch):
    target = NvidiaTarget(90)
    if target.assembler is None:
        pytest.skip("no assembler on this machine")
    monkeypatch.setattr("tilewright.targets.nvidia.passes.persist.fits", lambda module, num_warps: True)
    x = np.zeros(16, np.float32)
    module = tile_ir(softmax, x, x.copy(), 16, 16, N=1 << 15)
    assert is_persistent(target.laid_out(module, Options(num_warps=WARPS)))
    assert target.compile(module, Options(num_warps=WARPS)).metadata["hidden"] == []
