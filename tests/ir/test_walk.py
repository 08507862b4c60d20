"""Walks: order, definitions, uses, free values, visibility."""

import pytest

from tests.passes.random_modules import random_module
from tilewright.ir.node import Value
from tilewright.ir.parse import parse_module
from tilewright.ir.walk import (
    Visibility,
    blocks_in,
    defining_ops,
    definitions,
    free_values,
    free_values_of,
    is_isolated,
    ops_in,
    use_counts,
    uses,
)

MODULE = parse_module("""module @k
func @k(%p: ptr<i32>, %n: i32, %flag: i1) {
  %one = constant 1 : i32
  %t = iota [start = 0, end = 4] : tile<4xi32>
  %sum = for %one, %n, %one, %one do (%i: i32, %s: i32) {
    %u = if %flag then {
      %v = add %s, %one : i32
      yield %v
    } else {
      yield %n
    } : i32
    yield %u
  } : i32
  %r = reduce %t [axis = 0] with (%a: i32, %b: i32) {
    %c = add %a, %b : i32
    yield %c
  } : i32
  store %p, %sum
  return
}""")
BODY = MODULE.entry.body


def named(name: str) -> Value:
    return next(v for v in definitions(BODY) if v.hint == name)


def op(name: str):
    return next(o for o in ops_in(BODY) if o.name == name)


def hints(values) -> list[str]:
    return [v.hint for v in values]


def test_order():
    assert [o.name for o in ops_in(BODY)] == [
        "constant", "iota", "for", "if", "add", "yield", "yield", "yield", "reduce", "add", "yield", "store", "return"]
    assert [len(b.ops) for b in blocks_in(BODY)] == [6, 2, 2, 1, 2]


def test_definitions():
    found = definitions(BODY)
    assert (found[named("n")].op, found[named("n")].index, found[named("n")].is_argument) == (None, 1, True)
    loop = op("for")
    assert (found[named("s")].op, found[named("s")].index, found[named("s")].block) == (loop, 1, loop.regions[0])
    assert found[named("u")].op is op("if") and not found[named("u")].is_argument
    assert defining_ops(BODY)[named("v")] is op("add")
    assert named("s") not in defining_ops(BODY)


def test_uses():
    assert [(u.op.name, u.index) for u in uses(BODY)[named("one")]] == [("for", 0), ("for", 2), ("for", 3), ("add", 1)]
    assert use_counts(BODY)[named("one")] == 4
    assert named("r") not in uses(BODY) and named("r") not in use_counts(BODY)


def test_free_values():
    assert free_values(BODY) == ()
    assert hints(free_values(op("for").regions[0])) == ["flag", "one", "n"]
    assert hints(free_values(op("if").regions[0])) == ["s", "one"]
    assert hints(free_values_of(op("if"))) == ["flag", "s", "one", "n"]


def test_isolated_regions():
    assert [o.name for o in ops_in(BODY) if is_isolated(o)] == ["reduce"]


def test_visibility():
    seen = Visibility(BODY)
    add, store, branch, loop = op("add"), op("store"), op("if"), op("for")
    combine = op("reduce").regions[0].ops[0]
    for value, user, visible in [("one", add, True), ("n", add, True), ("s", add, True), ("s", store, False),
                                 ("v", store, False), ("v", branch, False), ("u", branch, False), ("sum", store, True),
                                 ("sum", add, False), ("a", combine, True), ("one", combine, False),
                                 ("n", combine, False), ("r", store, True), ("one", loop, True)]:
        assert seen.visible_at(named(value), user) == visible, (value, user)
    assert seen.is_before(loop, add) and not seen.is_before(store, add)


@pytest.mark.parametrize("seed", range(5))
def test_operands_of_verified_modules_are_visible(seed):
    body = random_module(seed).entry.body
    seen = Visibility(body)
    for each in ops_in(body):
        assert all(seen.visible_at(v, each) for v in each.operands)
        assert not any(seen.visible_at(v, each) for v in each.results)
