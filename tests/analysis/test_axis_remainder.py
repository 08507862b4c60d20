"""Runs within a remainder by a number that is known only when the kernel runs."""

import pytest

from tilewright.analysis.axis import Axis
from tilewright.ir.parse import parse_module

TEXT = """module @k
func @k(%n: i32 [divisible_by = {divides}], %m: i32 [divisible_by = 16]) {{
  %i = iota [start = {start}, end = {end}] : tile<64xi32>
  %t = splat %n [shape = (64)] : tile<64xi32>
  %r = rem_{sign} %i, %t : tile<64xi32>
  return
}}
"""


@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("divides, start, run", [(16, 0, 16), (24, 0, 8), (1, 0, 1), (16, 8, 8), (64, 64, 64)])
def test_runs(sign, divides, start, run):
    module = parse_module(TEXT.format(divides=divides, start=start, end=start + 64, sign=sign))
    fact = Axis(module).fact(next(r for op in module.entry.body.ops for r in op.results if r.hint == "r"))
    assert fact.contiguity == (run,)


def test_a_dividend_that_may_be_negative_has_none():
    text = TEXT.replace("%i = iota [start = {start}, end = {end}]", "%i = splat %m [shape = (64)]").replace(
        "  %r =", "  %j = iota [start = 0, end = 64] : tile<64xi32>\n  %k = add %i, %j : tile<64xi32>\n  %r =").replace(
        "rem_{sign} %i", "rem_s %k")
    module = parse_module(text.format(divides=16, start=0, end=64, sign="s"))
    fact = Axis(module).fact(next(r for op in module.entry.body.ops for r in op.results if r.hint == "r"))
    assert fact.contiguity == (1,)
