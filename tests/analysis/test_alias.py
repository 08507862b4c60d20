"""Overlap of accesses (what pointers are based on: golden/alias)."""

import itertools

import pytest

from tilewright.analysis.alias import Alias
from tilewright.ir.parse import parse_module

TEXT = """module @k
func @k(%p: ptr<i32>, %q: ptr<i32>, %address: i64, %flag: i1) {
  %x = load %p : i32
  %one = constant 1 : i32
  %next = ptr_add %p, %one : ptr<i32>
  %either = select %flag, %p, %q : ptr<i32>
  %made = int_to_ptr %address [to = ptr<i32>] : ptr<i32>
  store %next, %x
  store %q, %x
  store %either, %x
  store %made, %x
  return
}
"""


@pytest.mark.parametrize("disjoint", [True, False])
def test_may_overlap(disjoint):
    module = parse_module(TEXT.replace("@k\n", "@k [disjoint]\n", 1) if disjoint else TEXT)
    alias = Alias(module)
    ops = {op.operands[0].hint: op for op in module.entry.body.ops if op.name in ("load", "store")}
    apart = {frozenset(pair) for pair in itertools.combinations(ops, 2)
             if not alias.may_overlap(ops[pair[0]], ops[pair[1]])}
    assert apart == ({frozenset(("p", "q")), frozenset(("next", "q"))} if disjoint else set())
    for a, b in itertools.product(ops.values(), repeat=2):
        assert alias.may_overlap(a, b) == alias.may_overlap(b, a)


def test_bases_and_addresses():
    module = parse_module(TEXT)
    alias = Alias(module)
    p, q = module.entry.params[:2]
    values = {v.hint: v for op in module.entry.body.ops for v in op.results}
    assert alias.base(values["next"]) is p
    assert alias.base(values["either"]) is None and alias.bases(values["either"]) == {p, q}
    assert alias.bases(values["made"]) is None
    assert alias.same_addresses(p, p) and not alias.same_addresses(p, values["next"])
