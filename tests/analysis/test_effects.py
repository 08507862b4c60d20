"""Effects and what a load may move across (the effects of single ops: golden/effects)."""

import pytest

from tilewright.analysis.alias import Alias
from tilewright.analysis.effects import Effects
from tilewright.ir.ops.table import Effect
from tilewright.ir.parse import parse_module
from tilewright.ir.walk import ops_in

TEXT = """module @k [disjoint]
func @k(%p: ptr<i32>, %q: ptr<i32>, %table: ptr<ptr<i32>>, %n: i32, %flag: i1) {
  %x = load %p : i32
  %other = ptr_add %p, %n : ptr<i32>
  store %q, %x                                              // to q
  store %other, %x                                          // to p
  %anywhere = load %table : ptr<i32>
  store %anywhere, %x                                       // anywhere
  if %flag then {
    for %n, %n, %n do (%i: i32) {
      store %p, %i
      yield
    }
    yield
  } else {
    yield
  }
  call %p [callee = "writes", result_types = ()]
  call %p [callee = "reads", result_types = ()]
  while before {
    %lock = load %q : i32
    %locked = trunc %lock [to = i1] : i1
    condition %locked
  } do {
    yield
  }
  device_print %n [prefix = "n", signed = (true)]
  %forced = load %p [volatile = true] : i32
  return
}
func @writes(%a: ptr<i32>) {
  %c = constant 1 : i32
  call %a, %c [callee = "deep", result_types = ()]
  return
}
func @deep(%a: ptr<i32>, %c: i32) {
  store %a, %c
  return
}
func @reads(%a: ptr<i32>) {
  %c = load %a : i32
  return
}
"""


@pytest.mark.parametrize("disjoint", [True, False])
def test_what_a_load_may_cross(disjoint):
    module = parse_module(TEXT if disjoint else TEXT.replace(" [disjoint]", ""))
    effects, alias = Effects(module), Alias(module)
    ops = module.entry.body.ops
    load = ops[0]
    crosses = {f"{i} {op.name}": effects.may_cross(load, [op], alias) for i, op in enumerate(ops[1:-1], 1)}
    assert crosses == {"1 ptr_add": True, "2 store": disjoint, "3 store": False, "4 load": True, "5 store": False,
                       "6 if": False, "7 call": False, "8 call": True, "9 while": False, "10 device_print": True,
                       "11 load": True}
    assert effects.may_cross(load, [ops[1], ops[4], ops[10]], alias)
    assert not effects.may_cross(load, [ops[1], ops[3]], alias)
    assert not effects.may_cross(ops[11], [], alias)        # volatile


def test_nested_effects_and_accesses():
    module = parse_module(TEXT)
    effects = Effects(module)
    ops = module.entry.body.ops
    assert effects.of(ops[7]) == Effect.WRITES and effects.of_function("reads") == Effect.READS
    assert [op.name for op in effects.accesses(ops[6], Effect.WRITES)] == ["store"]
    assert [op.name for op in effects.accesses(ops[7], Effect.WRITES)] == ["store"]
    assert list(effects.accesses(ops[8], Effect.WRITES)) == []
    assert effects.waits(ops[9]) and not effects.waits(ops[6])
    assert effects.is_pure(ops[1]) and not effects.is_pure(ops[0])
    assert effects.of_block(module.entry.body) == Effect.READS | Effect.WRITES | Effect.PRINTS
    assert all(effects.of(op) & (Effect.NESTED | Effect.CONTROL) == Effect.NONE for op in ops_in(module.entry.body))
