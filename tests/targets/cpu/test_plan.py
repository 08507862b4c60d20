"""Which tiles are kept in scratch, and which roots need a tile."""

import pytest

from tests.targets.cpu.harness import F32, I32, generated, kernel, ptr
from tilewright.ir.ops import TABLE
from tilewright.targets.cpu.plan import Plan, is_virtual, unrolling

FUNCTIONS = [name for name, row in TABLE.items() if row.bound.ulp and row.source in ("C11 7.12", "PTX ISA rsqrt")]


def planned(body):
    module = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)
    block = module.entry.body
    return Plan(block), block.ops


def ops_named(ops, name):
    return [op for op in ops if op.name == name]


def test_a_dear_tile_that_two_roots_need_is_kept_and_a_load_is_not():
    def body(b, x, o, n):
        v = b.load(b.at(x, b.iota(64)))
        e = b.op("exp", b.op("sub_f", v, b.like(b.max(v, 0), v)))
        b.store(b.at(o, b.iota(64)), b.op("div_rn", e, b.like(b.sum(e, 0), e)))
    plan, ops = planned(body)
    (load,), (exp,) = ops_named(ops, "load"), ops_named(ops, "exp")
    assert plan.kept == {exp.result}
    assert {r.name for r in plan.roots(exp.result)} == {"reduce", "store"}
    assert {r.name for r in plan.roots(load.result)} == {"reduce"}      # max, and the sum that computes exp


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementary_functions_that_two_roots_need_are_kept(name):
    def body(b, x, o, n):
        v = b.load(b.at(x, b.iota(64)))
        e = b.op(name, *[v] * len(TABLE[name].operands))
        b.store(b.at(o, b.iota(64)), b.op("div_rn", e, b.like(b.sum(e, 0), e)))
    plan, ops = planned(body)
    assert (ops_named(ops, name)[0].result in plan.kept) == (name != "rsqrt")


def test_what_is_known_to_be_zero():
    def body(b, x, o, n):
        for number in (0.0, -0.0, 1.0):
            b.store(b.at(o, b.iota(8)), b.op("splat", b.op("constant", value=number, type=F32), shape=(8,)))
        b.store(b.at(o, b.iota(8)), b.load(b.at(x, b.iota(8))))
    plan, ops = planned(body)
    assert [plan.is_zero(op.operands[1]) for op in ops_named(ops, "store")] == [True, False, False, False]


def test_a_load_that_a_loop_repeats_is_kept():
    def body(b, x, o, n):
        v = b.load(b.at(x, b.iota(64)))
        (acc,) = b.for_(0, n, 1, [b.const(0.0, F32, (64,))], lambda i, acc: [b.op("add_f", acc, v)])
        b.store(b.at(o, b.iota(64)), acc)
    plan, ops = planned(body)
    assert ops_named(ops, "load")[0].result in plan.kept
    (loop,) = ops_named(ops, "for")
    assert plan.last_use(ops_named(ops, "load")[0].result, ops and plan.places[loop].block) == plan.places[loop].index


def test_a_dear_row_under_a_broadcast_is_kept():
    def body(b, x, o, n):
        row = b.op("exp", b.load(b.at(x, b.iota(16))))
        tile = b.op("broadcast", b.row(row), shape=(8, 16))
        b.store(b.at(o, b.add(b.mul(b.col(b.iota(8)), 16), b.row(b.iota(16)))), tile)
    plan, ops = planned(body)
    (expand,) = [op for op in ops_named(ops, "expand_dims") if op.operands[0] is ops_named(ops, "exp")[0].result]
    assert plan.kept == {expand.result}


def test_what_is_virtual():
    def body(b, x, o, n):
        v = b.load(b.at(x, b.iota(8)))
        w = b.load(b.at(x, b.iota(8)), volatile=True)
        b.store(b.at(o, b.iota(8)), b.op("add_f", v, w))
    plan, ops = planned(body)
    assert [is_virtual(op) for op in ops_named(ops, "load")] == [True, False]
    assert not is_virtual(ops_named(ops, "store")[0])


def test_long_work_is_unrolled_less():
    def body(b, x, o, n):
        b.store(b.at(o, b.iota(64)), b.op("exp", b.op("log", b.load(b.at(x, b.iota(64))))))
    plan, ops = planned(body)
    assert unrolling(ops) < unrolling(ops_named(ops, "load")) == 4


def test_scratch_is_used_again():
    """Ten reductions one after the other need the scratch of one."""
    def body(b, x, o, n):
        for k in range(10):
            e = b.op("exp", b.load(b.at(b.at(x, b.const(64 * k)), b.iota(64))))
            b.store(b.at(b.at(o, b.const(64 * k)), b.iota(64)), b.op("sub_f", e, b.like(b.sum(e, 0), e)))
    module = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)
    assert generated(module).metadata["scratch_bytes"] == 256
