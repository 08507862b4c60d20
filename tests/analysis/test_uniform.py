"""Uniform tiles and constants."""

from tilewright.analysis.uniform import Uniform
from tilewright.ir.parse import parse_module

MODULE = parse_module("""module @k
func @k(%x: i32) {
  %c5 = constant 5 : i32
  %yes = constant true : i1
  %half = constant 0.5 : f32
  %t = splat %x [shape = (4)] : tile<4xi32>
  %wide = expand_dims %t [axis = 0] : tile<1x4xi32>
  %big = broadcast %wide [shape = (2, 4)] : tile<2x4xi32>
  %promised = hint %big [divisible = (4, 4)] : tile<2x4xi32>
  %fives = splat %c5 [shape = (4)] : tile<4xi32>
  %flat = reshape %fives [shape = (2, 2)] : tile<2x2xi32>
  %known = hint %c5 [divisible = (5)] : i32
  %lanes = iota [start = 0, end = 1] : tile<1xi32>
  %sum = add %t, %fives : tile<4xi32>
  return
}
""")


def test_facts():
    facts = Uniform.of(MODULE.entry.body)
    x = MODULE.entry.params[0]
    v = {r.hint: r for op in MODULE.entry.body.ops for r in op.results}
    assert facts.scalar_of(x) is x
    assert all(facts.scalar_of(v[n]) is x for n in ("t", "wide", "big", "promised"))
    assert facts.scalar_of(v["lanes"]) is None and facts.scalar_of(v["sum"]) is None
    assert [facts.constant_of(v[n]) for n in ("c5", "yes", "half", "fives", "flat", "known", "t", "sum")] == [
        5, True, 0.5, 5, 5, 5, None, None]
    assert facts.constant_of(x) is None
    assert [facts.integer_of(v[n]) for n in ("yes", "half", "flat")] == [1, None, 5]
    assert facts.op_of(v["t"]).name == "splat" and facts.op_of(v["t"], "iota") is None and facts.op_of(x) is None
