"""How far neighbours are likely to be apart."""

from __future__ import annotations

import pytest

from tilewright.analysis.axis import Axis
from tilewright.analysis.steps import FAR, LikelySteps
from tilewright.ir.parse import parse_module
from tilewright.ir.verify import verify

HEAD = """module @k

func @k(%p: ptr<f32>, %n: i32, %large: i32 [divisible_by = 16], %q: ptr<i32>) {
  %zero = constant 0 : i32
  %nine = constant 9 : i32
  %i = iota [start = 0, end = 32] : tile<32xi32>
  %ns = splat %n [shape = (32)] : tile<32xi32>
  %ls = splat %large [shape = (32)] : tile<32xi32>
  %nines = splat %nine [shape = (32)] : tile<32xi32>
"""


def steps(lines: str):
    module = parse_module(HEAD + lines + "\n  return\n}\n")
    verify(module)
    axis = Axis(module)
    likely = LikelySteps(module.entry.body, lambda v: axis.fact(v).divisor)
    return likely.of(module.entry.body.ops[-2].result)


@pytest.mark.parametrize(("line", "want"), [
    ("%x = rem_s %i, %ns : tile<32xi32>", (1.0,)),
    ("%x = div_s %i, %ns : tile<32xi32>", (1 / 64,)),
    ("%x = mul %i, %nines : tile<32xi32>", (9.0,)),
    ("%x = mul %ns, %i : tile<32xi32>", (64.0,)),
    ("%x = mul %i, %ls : tile<32xi32>", (1024.0,)),
    ("%x = mul %i, %i : tile<32xi32>", (FAR,)),
    ("%x = add %i, %ns : tile<32xi32>", (1.0,)),
    ("%x = expand_dims %i [axis = 1] : tile<32x1xi32>", (1.0, 0.0)),
    ("%e = expand_dims %i [axis = 0] : tile<1x32xi32>\n%x = broadcast %e [shape = (4, 32)] : tile<4x32xi32>",
     (0.0, 1.0)),
    ("%x = reshape %i [shape = (1, 32)] : tile<1x32xi32>", (0.0, 1.0)),
    ("%x = reshape %i [shape = (4, 8)] : tile<4x8xi32>", (FAR, FAR)),
    ("%s = splat %q [shape = (32)] : tile<32xptr<i32>>\n%a = ptr_add %s, %i : tile<32xptr<i32>>\n"
     "%x = load %a : tile<32xi32>", (FAR,)),
])
def test_steps(line, want):
    assert steps(line) == want


def test_what_a_loop_carries_starts_as_it_does():
    assert steps("""  %x = for %zero, %n, %nine, %i do (%k: i32, %c: tile<32xi32>) {
    %d = add %c, %nines : tile<32xi32>
    yield %d
  } : tile<32xi32>""") == (1.0,)
