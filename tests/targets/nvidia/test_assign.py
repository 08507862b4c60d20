"""The choice of layouts: what is left of conversions, that it is never dearer than propagation, that it is repeatable.

`LEFT` says for each kernel how many conversions leave their thread: by propagation alone, and as they are chosen.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.fuzz.generate import generate
from tests.fuzz.running import arguments, load
from tests.targets.nvidia.harness import laid_out, tile_ir
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.text import print_module
from tilewright.ir.walk import ops_in
from tilewright.layout import Layout, coalesced, views
from tilewright.layout.linear import REGISTER, WARP
from tilewright.layout.route import Reach, reach
from tilewright.targets.nvidia.capability import capability
from tilewright.targets.nvidia.passes.accesses import Accesses
from tilewright.targets.nvidia.passes.asked import Asked
from tilewright.targets.nvidia.passes.assign import assigned
from tilewright.targets.nvidia.passes.costs import Costs
from tilewright.targets.nvidia.passes.homes import propagated
from tilewright.targets.nvidia.passes.special import within_warps
from tilewright.testing import engines

SM90 = capability(90)
ROOT = Path(__file__).resolve().parents[3]


@triton.jit
def narrower(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i).to(tl.float16))


@triton.jit
def moments(p, g, m, n, B: tl.constexpr):
    """Elements of two sizes, as optimizers have them."""
    i = tl.arange(0, B)
    k = i < n
    grad = tl.load(g + i, mask=k).to(tl.float32)
    mean = tl.load(m + i, mask=k) * 0.5 + grad
    tl.store(p + i, (tl.load(p + i, mask=k).to(tl.float32) - mean).to(tl.float16), mask=k)
    tl.store(m + i, mean, mask=k)


@triton.jit
def interleaved(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + tl.arange(0, 2 * B), tl.interleave(tl.load(x + i), tl.load(y + i)))


@triton.jit
def parted(x, a, b, B: tl.constexpr):
    i = tl.arange(0, B)
    u, v = tl.split(tl.reshape(tl.load(x + tl.arange(0, 2 * B)), (B, 2)))
    tl.store(a + i, u + v)
    tl.store(b + i, u - v)


@triton.jit
def both_axes(x, rows, columns, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    t = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(rows + i, tl.max(t, 1))
    tl.store(columns + j, tl.max(t, 0))


@triton.jit
def centred(x, w, out, M: tl.constexpr, N: tl.constexpr):
    """What is reduced is spread over the rows that it came from, beside a tile of columns."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    t = tl.load(x + at)
    t -= tl.max(t, 1)[:, None]
    tl.store(out + at, t * tl.load(w + j)[None, :])


@triton.jit
def transposed(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    t = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(out + j[:, None] * M + i[None, :], tl.trans(t))


@triton.jit
def two_products(a, b, bias, c, out, best, N: tl.constexpr):
    """Products one behind the other, elementwise work between them, and the rows' extrema."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    s = tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j)) + tl.load(bias + tl.arange(0, N))[None, :]
    tl.store(best + tl.arange(0, N), tl.max(s, 1))
    p = tl.maximum(s, 0.0).to(tl.float16)
    tl.store(out + i * N + j, tl.dot(p, tl.load(c + i * N + j)).to(tl.float16))


@triton.jit
def rows_of_a_loop(x, total, n, M: tl.constexpr, N: tl.constexpr):
    """Sums and extrema that go round a loop in a tile of rows."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    most = tl.full((M,), -1e30, tl.float32)
    acc = tl.zeros((M,), tl.float32)
    for k in range(0, n, N):
        t = tl.load(x + i[:, None] * n + k + j[None, :]).to(tl.float32)
        new = tl.maximum(most, tl.max(t, 1))
        acc = acc * (most - new + 1) + tl.max(t - new[:, None], 1)
        most = new
    tl.store(total + i, acc + most)


def numbers(*shape, dtype=np.float32):
    values = np.random.default_rng(len(shape)).integers(-8, 8, shape)
    return (values / 4).astype(dtype)


def nothing(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


F16 = np.float16


class Case(NamedTuple):
    kernel: Any
    args: list
    constants: dict
    propagated: int
    chosen: int


LEFT = {
    "narrower": Case(narrower, [numbers(1024), nothing(1024, dtype=F16)], {"B": 1024}, 1, 0),
    "moments": Case(moments, [numbers(1024, dtype=F16), numbers(1024, dtype=F16), numbers(1024), 1000], {"B": 1024},
                    1, 0),
    "interleaved": Case(interleaved, [numbers(1024), numbers(1024), nothing(2048)], {"B": 1024}, 1, 0),
    "parted": Case(parted, [numbers(2048), nothing(1024), nothing(1024)], {"B": 1024}, 2, 0),
    "both_axes": Case(both_axes, [numbers(32, 256), nothing(32), nothing(256)], {"M": 32, "N": 256}, 1, 0),
    "centred": Case(centred, [numbers(4, 1024), numbers(1024), nothing(4, 1024)], {"M": 4, "N": 1024}, 0, 0),
    "transposed": Case(transposed, [numbers(64, 64), nothing(64, 64)], {"M": 64, "N": 64}, 1, 1),
    "two_products": Case(two_products, [*(numbers(64, 64, dtype=F16) for _ in range(2)), numbers(64),
                                        numbers(64, 64, dtype=F16), nothing(64, 64, dtype=F16), nothing(64)],
                         {"N": 64}, 3, 1),
    "rows_of_a_loop": Case(rows_of_a_loop, [numbers(4, 2048, dtype=F16), nothing(4), 2048], {"M": 4, "N": 1024}, 0, 0),
}


def of_case(name):
    case = LEFT[name]
    return tile_ir(case.kernel, *case.args, **case.constants)


def of_fuzz(seed, folder):
    program = generate(seed, crowded=False)
    kernel = load(program, folder)
    return tile_ir(kernel, *arguments(program).values(), disjoint=False, **dict(program.scalars),
                   **dict(program.constants))


def by_propagation(module, num_warps=4):
    return Asked(module.entry.body, propagated(module, Accesses(module, num_warps), num_warps, SM90))


def leaving(asked):
    """How many conversions leave their thread."""
    homes = asked.assignment
    return sum(reach(homes.of(v), layout) > Reach.THREAD for v, wanted in asked.wanted.items()
               if v not in homes.flexible for layout in wanted)


@pytest.mark.parametrize("name", LEFT)
def test_conversions(name):
    module = of_case(name)
    assert (leaving(by_propagation(module)), leaving(assigned(module, 4, SM90))) == (
        LEFT[name].propagated, LEFT[name].chosen)


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("name", LEFT)
def test_results(name, num_warps):
    case = LEFT[name]
    found = {}
    for engine in ("batched", "ptx"):
        found[engine] = [a.copy() if isinstance(a, np.ndarray) else a for a in case.args]
        engines.launch(engine, case.kernel, (1,), *found[engine], **case.constants, num_warps=num_warps)
    for expected, got in zip(found["batched"], found["ptx"], strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-3)


def gain(module, num_warps):
    """How much less the choice costs than what propagation gives."""
    costs = Costs(module, Accesses(module, num_warps), num_warps, SM90)
    return costs.gain(by_propagation(module, num_warps), assigned(module, num_warps, SM90))


@pytest.mark.parametrize("name", LEFT)
def test_a_choice_costs_less_than_propagation(name):
    assert gain(of_case(name), 4) >= 0
    if LEFT[name].chosen < LEFT[name].propagated or name in ("centred", "rows_of_a_loop"):
        assert gain(of_case(name), 4) > 0


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_costs_more_than_propagation(seed, tmp_path):
    module = of_fuzz(seed, tmp_path)
    assert all(gain(module, num_warps) >= 0 for num_warps in (1, 4))


def ops_of(module, name):
    return [op for op in ops_in(module.entry.body) if op.name == name]


def test_vectors_that_fit_the_wider_element():
    module = laid_out(of_case("narrower"))
    (access,) = {layout_of(op.operands[0]) for op in ops_of(module, "load") + ops_of(module, "store")}
    assert access == coalesced((1024,), 4, 4)


def test_an_accumulator_is_converted_before_it_is_stored():
    (*_, store) = ops_of(laid_out(of_case("two_products")), "store")
    assert layout_of(store.operands[0]) == coalesced((64, 64), 8, 4)


def test_columns_are_loaded_where_they_are_added():
    module = laid_out(of_case("two_products"))
    bias = next(op for op in ops_of(module, "load") if op.result.type.shape == (64,))
    dot = ops_of(module, "dot")[0]
    assert layout_of(bias.result) == views.sliced(layout_of(dot.result), 0)


@pytest.mark.parametrize("name", ["centred", "rows_of_a_loop"])
def test_rows_are_reduced_within_their_warps(name):
    reduces = ops_of(laid_out(of_case(name)), "reduce")
    assert reduces
    for op in reduces:
        assert not any(layout_of(op.operands[0]).coordinate(op.attrs["axis"]).bases(WARP))


def test_within_warps():
    wide = coalesced((4, 1024), 4, 4)
    found = within_warps(wide, 1)
    assert found is not None and found.is_surjective() and found.is_injective()
    assert not any(found.coordinate(1).bases(WARP)) and found.bases(REGISTER)[:2] == wide.bases(REGISTER)[:2]
    assert within_warps(found, 1) is None                       # done
    assert within_warps(coalesced((1, 1024), 4, 4), 1) is None  # nothing beside the axis
    some = within_warps(coalesced((2, 1024), 4, 4), 1)          # one warp bit of two
    assert some is not None and sum(b != 0 for b in some.coordinate(1).bases(WARP)) == 1


def test_the_same_in_every_process():
    """Sets of strings are ordered differently in each, so this would show an order that comes from one."""
    program = ("from tests.targets.nvidia.test_assign import *\n"
               "print(*(print_module(laid_out(of_case(name))) for name in LEFT))")
    texts = {subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True,
                            env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in "12"}
    assert len(texts) == 1 and b"convert" in texts.pop()
    assert print_module(laid_out(of_case("moments"))) == print_module(laid_out(of_case("moments")))


@pytest.mark.parametrize("layout", [coalesced((64, 64), 4, 4), coalesced((64, 64), 1, 4, (0, 1))], ids=str)
def test_an_access_costs_least_in_its_own_layout(layout: Layout):
    module = of_case("transposed")
    accesses = Accesses(module, 4)
    for op in ops_in(module.entry.body):
        if op.name in ("load", "store"):
            assert accesses.cost(op, accesses.coalesced(op)) <= accesses.cost(op, layout)
