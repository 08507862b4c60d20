"""Conversions carried out: random layouts, each plan compiled to PTX and executed by the PTX machine."""

import random

import numpy as np
import pytest

from tests.layout.random_layouts import random_layout, random_shape
from tilewright.ir.parse import parse_module
from tilewright.ir.types import F16, F32, F64, I8
from tilewright.layout.families import coalesced
from tilewright.layout.linear import Layout
from tilewright.layout.mma import accumulator, operand
from tilewright.layout.plan import Kind, plan
from tilewright.targets.llvm.client import CHILDREN
from tilewright.targets.llvm.machine import ASSEMBLY, Request
from tilewright.targets.nvidia import ptx as machine
from tilewright.targets.nvidia.capability import capability
from tilewright.targets.nvidia.generate import generate
from tilewright.targets.nvidia.target import NvidiaTarget

TEXT = """module @k [disjoint]
func @k(%x: ptr<{element}> [divisible_by = 16], %out: ptr<{element}> [divisible_by = 16]) {{
  %i = iota [start = 0, end = {count}] : tile<{count}xi32, {flat_src}>
  %s = splat %x [shape = ({count})] : tile<{count}xptr<{element}>, {flat_src}>
  %p = ptr_add %s, %i : tile<{count}xptr<{element}>, {flat_src}>
  %v = load %p : tile<{count}x{element}, {flat_src}>
  %w = convert %v [to = tile<{count}x{element}, {flat_dst}>] : tile<{count}x{element}, {flat_dst}>
  %j = iota [start = 0, end = {count}] : tile<{count}xi32, {flat_dst}>
  %t = splat %out [shape = ({count})] : tile<{count}xptr<{element}>, {flat_dst}>
  %q = ptr_add %t, %j : tile<{count}xptr<{element}>, {flat_dst}>
  store %q, %w
  return
}}
"""
ITEMS = {1: I8, 2: F16, 4: F32, 8: F64}


def flat(layout):
    """The same layout of the tile as one row."""
    return Layout((layout.numel,), layout.inputs)


def carried_out(src, dst, item, cap=90):
    """Load in one layout, convert, store in the other: every element must come back; gives the PTX."""
    element, warps = ITEMS[item], src.size("warp")
    module = parse_module(TEXT.format(element=element, count=src.numel, flat_src=flat(src), flat_dst=flat(dst)))
    made = generate(module, capability(cap), warps)
    target = NvidiaTarget(cap, assemble=False)
    ptx = CHILDREN.compile(Request(made.text, target.machine, ASSEMBLY, 3, 3), "k").decode()
    values = np.random.default_rng(0).integers(0, 256, src.numel * item, np.uint8)
    out = np.zeros_like(values)
    machine.run(ptx, "k", (1,), 32 * warps, [values, out], shared_bytes=made.metadata["shared"])
    np.testing.assert_array_equal(out, values)
    return ptx


@pytest.mark.parametrize("seed", range(40))
def test_random_layouts(seed):
    rng = random.Random(seed)
    shape, warps, item = random_shape(rng, rng.randint(4, 10)), rng.choice([0, 1, 2]), rng.choice([1, 2, 4, 8])
    src = random_layout(rng, shape, warps, seed % 2 == 0)
    dst = random_layout(rng, shape, warps, seed % 3 == 0)
    if seed % 4 == 1:       # inside a warp
        rows = list(dst.bases("register") + dst.bases("lane"))
        dst = src.with_bases(lane=src.bases("lane")[::-1]) if rows else dst
    if seed % 8 == 3:       # inside a thread
        dst = src.with_bases(register=src.bases("register")[::-1])
    carried_out(src, dst, item)


@pytest.mark.parametrize("seed", range(2))
def test_every_kind_of_plan(seed):
    src = coalesced((64, 32), 4, 4)
    kinds = {plan(src, dst, 4).kind: dst for dst in (
        src, src.with_bases(register=src.bases("register")[::-1]), src.with_bases(lane=src.bases("lane")[::-1]),
        src.with_bases(lane=src.bases("warp") + src.bases("lane")[2:], warp=src.bases("lane")[:2]))}
    assert set(kinds) == set(Kind)
    for dst in kinds.values():
        carried_out(src, dst, 4)


def test_operands_are_read_by_ldmatrix():
    memory = coalesced((64, 32), 8, 4)
    for which, order in (("A", (64, 32)), ("B", (32, 64))):
        src = coalesced(order, 8, 4)
        ptx = carried_out(src, operand(which, order, 2, (2, 2)), 2)
        assert "ldmatrix.sync.aligned.m8n8.x4" in ptx or "ld.shared" in ptx
    carried_out(accumulator((64, 32), (2, 2)), memory, 2)


def test_before_stmatrix():
    """sm_80 has ldmatrix alone."""
    acc = accumulator((64, 64), (2, 2))
    ptx = carried_out(acc, coalesced((64, 64), 8, 4), 2, 80)
    assert "stmatrix" not in ptx
