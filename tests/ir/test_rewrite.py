"""Rewriting: identity means unchanged, substitution, clones, locations of callers."""

from tilewright.diagnostics import Location
from tilewright.ir.build import make_op
from tilewright.ir.node import Value
from tilewright.ir.parse import parse_module
from tilewright.ir.rewrite import (
    Cloner,
    Replacement,
    Rewriter,
    inlined,
    map_bodies,
    substitute,
    with_operands,
    with_ops,
    without_unreachable,
)
from tilewright.ir.text import print_module
from tilewright.ir.types import I32
from tilewright.ir.verify import verify
from tilewright.ir.walk import ops_in

TEXT = """module @k

func @k(%p: ptr<i32>, %x: i32, %flag: i1) {
  %a = add %x, %x : i32
  %b = if %flag then {
    %c = mul %a, %x : i32
    yield %c
  } else {
    yield %x
  } : i32
  if %flag then {
    store %p, %x
    yield
  } else {
    yield
  }
  store %p, %b
  return
}
"""


def module():
    return parse_module(TEXT, "t.ir", own_locations=True)


def named(m, hint):
    return next(v for op in ops_in(m.entry.body) for v in op.results if v.hint == hint)


def test_nothing_changes():
    m = module()
    assert map_bodies(m, Rewriter().block) is m
    assert substitute(m.entry.body, {}) is m.entry.body
    assert substitute(m.entry.body, {Value(I32): Value(I32)}) is m.entry.body


class Doubler(Rewriter):
    """mul a, b becomes shl a, b, and adds are replaced by their first operand."""

    def visit(self, op):
        if op.name == "mul":
            new = make_op("shl", op.operands)
            return Replacement(new.results, (new,))
        return Replacement(op.operands[:1]) if op.name == "add" else None


def test_replacing():
    m = module()
    after = map_bodies(m, Doubler().block)
    verify(after)
    text = print_module(after)
    assert "shl %x, %x" in text and "mul" not in text and "add" not in text
    assert print_module(m) == TEXT
    # what is not on the way to a change is shared
    old, new = m.entry.body.ops, after.entry.body.ops
    assert new[-3:] == old[-3:] and new[0] is not old[1]
    assert new[0].results == old[1].results and new[0].regions[1] is old[1].regions[1]


def test_substitution_reaches_nested_regions():
    m = module()
    a, x = named(m, "a"), m.entry.params[1]
    after = m.with_functions({"k": m.entry.with_body(substitute(m.entry.body, {a: x}))})
    assert "mul %x, %x" in print_module(after)
    verify(after)


def test_parts_that_are_the_same():
    m = module()
    op = m.entry.body.ops[0]
    assert with_operands(op, op.operands) is op
    assert with_operands(op, op.operands[:1] * 2) is op       # both are %x
    assert with_operands(op, (op.result, op.result)) is not op
    assert with_ops(m.entry.body, list(m.entry.body.ops)) is m.entry.body
    assert with_ops(m.entry.body, m.entry.body.ops[1:]) is not m.entry.body


def test_clones_have_fresh_values():
    m = module()
    copy = Cloner({}).block(m.entry.body)
    twin = m.with_functions({"k": m.entry.with_body(copy)})
    assert print_module(twin) == TEXT
    assert not {v for op in ops_in(copy) for v in op.results} & {v for op in ops_in(m.entry.body) for v in op.results}
    assert [op.loc for op in ops_in(copy)] == [op.loc for op in ops_in(m.entry.body)]


def test_inlined_bodies_know_their_callers():
    m = module()
    args = [Value(p.type, "arg") for p in m.entry.params]
    outer = Location("outer.py", 1, function="outer")
    site = Location("caller.py", 5, function="kernel", caller=outer)
    ops, results = inlined(m.entry.body, args, site)
    assert results == () and len(ops) == len(m.entry.body.ops) - 1
    assert ops[0].operands == (args[1], args[1])
    for old, new in zip(m.entry.body.ops, ops):
        assert new.loc == old.loc.called_from(site)
        assert new.loc.caller.caller == outer


def test_unreachable_functions_go():
    m = parse_module("""module @k
func @k(%x: i32) {
  %a = call %x [callee = "f", result_types = (i32)] : i32
  return
}
func @f(%x: i32) -> (i32) {
  %a = call %x [callee = "g", result_types = (i32)] : i32
  return %a
}
func @g(%x: i32) -> (i32) {
  return %x
}
""")
    assert without_unreachable(m) is m
    extra = m.with_functions({**m.functions, "h": m.functions["g"]})
    assert list(without_unreachable(extra).functions) == ["k", "f", "g"]
