"""Products that a loop begins an iteration late: values on the PTX machine against NumPy, what is written, faults."""

import re
from dataclasses import replace

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
from tilewright.targets.nvidia import ptx as machine
from tilewright.targets.nvidia.assemble import find_assembler
from tilewright.testing import ptx_machine


@triton.jit
def attention(q, k, v, out, sums, keys, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Sums of exp2(q k) v and of exp2(q k), beside the largest q k; addresses are made of the loop's index."""
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    rows = tl.load(q + m[:, None] * D + d[None, :])
    most, total = tl.full((M,), -1e30, tl.float32), tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for start in range(0, keys, N):
        at = start + n
        s = tl.dot(rows, tl.load(k + at[None, :] * D + d[:, None]))
        if CAUSAL:
            s = tl.where(m[:, None] >= at[None, :], s, -1e30)
        new = tl.maximum(most, tl.max(s, 1))
        p, alpha = tl.exp2(s - new[:, None]), tl.exp2(most - new)
        total = total * alpha + tl.sum(p, 1)
        result *= alpha[:, None]
        result = tl.dot(p.to(tl.float16), tl.load(v + at[:, None] * D + d[None, :]), result)
        most = new
    tl.store(out + m[:, None] * D + d[None, :], result)
    tl.store(sums + m, total)


@triton.jit
def by_pointers(q, k, v, out, sums, keys, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """The same without the largest, by pointers that go round the loop; v is transposed, and has a mask."""
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    rows = tl.load(q + m[:, None] * D + d[None, :])
    total, result = tl.zeros((M,), tl.float32), tl.zeros((M, D), tl.float32)
    ks, vs = k + n[None, :] * D + d[:, None], v + d[:, None] * keys + n[None, :]
    for start in range(0, keys, N):
        s = tl.dot(rows, tl.load(ks))
        if CAUSAL:
            s = tl.where(m[:, None] >= start + n[None, :], s, -1e30)
        p = tl.exp2(s)
        total += tl.sum(p, 1)
        values = tl.load(vs, mask=(start + n)[None, :] < keys, other=0.0)
        result = tl.dot(p.to(tl.float16), tl.trans(values), result)
        ks += N * D
        vs += N
    tl.store(out + m[:, None] * D + d[None, :], result)
    tl.store(sums + m, total)


def numbers(shape, seed):
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype(np.float16)


def arguments(keys, M, D):
    q, k, v = numbers((M, D), 0), numbers((max(keys, 1), D), 1), numbers((max(keys, 1), D), 2)
    return q, k, v, np.full((M, D), np.nan, np.float32), np.full(M, np.nan, np.float32), keys


def expected(q, k, v, keys, causal):
    """Sums relative to the largest, and the largest."""
    q, k, v = (x.astype(np.float64) for x in (q, k[:keys], v[:keys]))
    s = q @ k.T
    if causal:
        s = np.where(np.arange(len(q))[:, None] >= np.arange(keys)[None, :], s, -np.inf)
    p = np.exp2(s - s.max(1, keepdims=True))
    return p @ v, p.sum(1), s.max(1)


def run(kernel, keys, M=64, N=64, D=128, causal=False, seed=0, **options):
    q, k, v, out, sums, _ = given = arguments(keys, M, D)
    values = np.ascontiguousarray(v.T) if kernel is by_pointers else v
    constants = {"M": M, "N": N, "D": D, "CAUSAL": causal, **options}
    code = ptx_machine.run(kernel, (1,), (q, k, values, *given[3:]), constants, seed=seed)
    if not keys:
        assert not out.any() and not sums.any()
        return code
    want, total, most = expected(q, k, v, keys, causal)
    if kernel is by_pointers:
        scale = np.exp2(most)
        want, total = want * scale[:, None], total * scale
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-3 * np.abs(want).max())
    np.testing.assert_allclose(sums, total, rtol=1e-4)
    return code


def waits(code):
    return re.findall(r"wgmma\.wait_group\S* (\d)", code.texts["ptx"])


LATE = ["1", "0", "0"]      # in the loop for the first product and for the late one; behind it


@pytest.mark.parametrize("kernel", [attention, by_pointers])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_trips_and_stages(kernel, trips, stages):
    assert waits(run(kernel, 64 * trips, num_stages=stages)) == LATE


@pytest.mark.parametrize("M, N, D, warps, is_late", [
    (128, 128, 128, 8, True), (128, 32, 128, 4, True), (64, 32, 256, 4, True), (64, 128, 128, 4, True),
    (128, 64, 64, 4, False), (128, 128, 128, 4, False)])
@pytest.mark.parametrize("causal", [False, True])
def test_shapes(M, N, D, warps, is_late, causal):
    code = run(attention, 256, M, N, D, causal, num_warps=warps, num_stages=2)
    assert (waits(code) == LATE) == is_late


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kernel", [attention, by_pointers])
def test_warps_in_any_order(kernel, seed):
    run(kernel, 192, 128, 64, num_warps=8, num_stages=3, seed=seed, causal=True)


def test_without_stages_nothing_is_delayed():
    assert waits(run(attention, 128, num_stages=1)) == ["0", "0"]


def test_short_products_are_not():
    assert waits(run(attention, 128, D=64)) == ["0", "0"]


@triton.jit
def looked_at(q, k, v, out, sums, keys, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, BEFORE: tl.constexpr):
    """The sums are needed before they go on, or behind the product."""
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    rows = tl.load(q + m[:, None] * D + d[None, :])
    total, result = tl.zeros((M,), tl.float32), tl.zeros((M, D), tl.float32)
    for start in range(0, keys, N):
        at = start + n
        p = tl.exp2(tl.dot(rows, tl.load(k + at[None, :] * D + d[:, None])))
        if BEFORE:
            total += tl.sum(result, 1)
        result = tl.dot(p.to(tl.float16), tl.load(v + at[:, None] * D + d[None, :]), result)
        if not BEFORE:
            total += tl.sum(result, 1)
    tl.store(out + m[:, None] * D + d[None, :], result)
    tl.store(sums + m, total)


@pytest.mark.parametrize("before", [False, True])
def test_sums_that_are_looked_at_are_waited_for(before):
    args = arguments(128, 64, 128)
    code = launch_code(looked_at, args, {"M": 64, "N": 64, "D": 128, "BEFORE": before}, ptx_machine.TARGET)
    assert waits(code) == ["0", "0"]


def test_it_is_not_done_where_fewer_programs_would_fit():
    """128 x 64 with heads of 128, 8 warps: two programs by their buffers, and by 128 registers a thread, which the left
    operand of the next iteration would make too few."""
    constants = {"M": 128, "N": 64, "D": 128, "CAUSAL": False, "num_warps": 8}
    for stages, found in ((2, ["0", "0"]), (3, LATE)):      # with three there is one program anyway
        code = launch_code(attention, arguments(128, 128, 128), {**constants, "num_stages": stages}, ptx_machine.TARGET)
        assert waits(code) == found


def test_the_ir_is_valid_and_prints():
    constants = {"M": 64, "N": 64, "D": 128, "CAUSAL": True}
    staged = NvidiaTarget(90, assemble=False).laid_out(tile_ir(by_pointers, *arguments(128, 64, 128), **constants),
                                                       Options())
    verify(staged, Stage.LAID_OUT)
    assert print_module(parse_module(print_module(staged))) == print_module(staged)


@pytest.mark.parametrize("pattern, put, which", [
    (r"wgmma\.wait_group(\S*) 1;", r"wgmma.wait_group\1 2;", 0),        # the scores are still made
    (r"wgmma\.wait_group(\S*) 0;", r"wgmma.wait_group\1 1;", 0),        # the sums are scaled
    (r"wgmma\.wait_group(\S*) 0;", r"wgmma.wait_group\1 1;", 1),        # and stored
    (r"wgmma\.fence\S*;", "", 0), (r"wgmma\.commit_group\S*;", "", 1),
    (r"cp\.async\.wait_group 0;", "cp.async.wait_group 7;", 0)])
def test_what_is_left_out_is_found(pattern, put, which):
    args = arguments(192, 64, 128)
    code = launch_code(attention, args, {"M": 64, "N": 64, "D": 128, "CAUSAL": False}, ptx_machine.TARGET)
    text = code.texts["ptx"]
    found = list(re.finditer(pattern, text))[which]
    changed = text[:found.start()] + found.expand(put) + text[found.end():]
    with pytest.raises(machine.Fault):
        ptx_machine.launch(replace(code, texts={**code.texts, "ptx": changed}), (1, 1, 1), args)


def test_sums_stay_in_their_registers():
    """Between the two products nothing is moved: ptxas would wait for the first one there (C7517)."""
    args = arguments(192, 64, 128)
    text = launch_code(attention, args, {"M": 64, "N": 64, "D": 128, "CAUSAL": False}, ptx_machine.TARGET).texts["ptx"]
    between = text.split("wgmma.commit_group")[1].split("wgmma.fence")[0]
    assert not re.search(r"mov\.b32 %r\d+, %r\d+;", between) and not re.search(r"mov\.b32\s+%r\d+, \{", between)


@pytest.mark.skipif(find_assembler() is None, reason="no assembler here")
@pytest.mark.parametrize("M, N, D, warps, stages", [(64, 64, 128, 4, 2), (128, 128, 128, 8, 2), (64, 32, 128, 4, 3)])
def test_nothing_is_serialised_or_spilled(M, N, D, warps, stages):
    constants = {"M": M, "N": N, "D": D, "CAUSAL": False, "num_warps": warps, "num_stages": stages}
    code = launch_code(attention, arguments(256, M, D), constants, NvidiaTarget(90))
    assert waits(code) == LATE and not code.metadata["advisories"] and not code.metadata["spill_bytes"]
