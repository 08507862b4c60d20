"""Which loops wait on memory, which pointers came out of memory, how large a program is."""

import pytest

from tests.conform.modules import function, module, ptr
from tilewright.interpret import dataflow
from tilewright.ir.types import F32, I32, I64


def counted(k, x):
    """A while loop on a counter; the body loads, but the condition does not see it."""
    k.while_([k.const(0)], lambda n: [k.one("cmp_lt_s", n, k.const(3)), n],
             lambda n: [(k.load(x), k.one("add", n, k.const(1)))[1]])


def bound_loaded_before(k, x):
    bound = k.load(x)
    k.while_([k.const(0)], lambda n: [k.one("cmp_lt_s", n, bound), n], lambda n: [k.one("add", n, k.const(1))])


def waits(k, x):
    k.while_([], lambda: [k.one("cmp_eq", k.load(x), k.const(0))], list)


def waits_through_a_carried_value(k, x):
    k.while_([k.const(0)], lambda v: [k.one("cmp_eq", v, k.const(0)), v], lambda v: [k.load(x)])


def waits_through_a_branch(k, x):
    def body(v):
        ready = k.one("cmp_ne", k.load(x), k.const(0))
        return list(k.if_(ready, lambda: [k.const(1)], lambda: [k.const(0)]))

    k.while_([k.const(0)], lambda v: [k.one("cmp_eq", v, k.const(0)), v], body)


def waits_through_a_reduction(k, x):
    def before():
        total = k.one("reduce", k.load(k.splat(x, (4,))), axis=0,
                      regions=[k.region([I32, I32], lambda a, b: [k.one("add", a, b)])])
        return [k.one("cmp_eq", total, k.const(0))]

    k.while_([], before, list)


def waits_in_an_inner_loop(k, x):
    k.for_(k.const(0), k.const(2), k.const(1), [], lambda i: (waits(k, x), [])[1])


def for_bound_loaded_inside(k, x):
    """The inner for ends whatever the load gives, but what it counts decides the outer loop."""
    def body(v):
        return list(k.for_(k.const(0), k.load(x), k.const(1), [v], lambda i, c: [k.one("add", c, k.const(1))]))

    k.while_([k.const(0)], lambda v: [k.one("cmp_eq", v, k.const(0)), v], body)


@pytest.mark.parametrize("body,expected", [
    (counted, False), (bound_loaded_before, False), (waits, True), (waits_through_a_carried_value, True),
    (waits_through_a_branch, True), (waits_through_a_reduction, True), (waits_in_an_inner_loop, True),
    (for_bound_loaded_inside, True)])
def test_spins(body, expected):
    assert dataflow.spins(module([ptr(I32)], body)) is expected


@pytest.mark.parametrize("reads", [False, True])
def test_spins_through_a_call(reads):
    peek = function("peek", [ptr(I32)], lambda k, x: [k.load(x) if reads else k.const(1)])
    outer = function("outer", [ptr(I32)], lambda k, x: k.create("call", [x],
                                                                 {"callee": "peek", "result_types": (I32,)}))

    def body(k, x):
        def before():
            (v,) = k.create("call", [x], {"callee": "outer", "result_types": (I32,)})
            return [k.one("cmp_eq", v, k.const(0))]

        k.while_([], before, list)

    assert dataflow.spins(module([ptr(I32)], body, peek, outer)) is reads


def accesses(m):
    """Names of the marked memory ops, by the hint of their pointer."""
    marked = dataflow.foreign_accesses(m)
    return {op.operands[0].hint for f in m.functions.values() for op in dataflow._all_ops(f.body) if id(op) in marked}


def named(value, hint):
    value.hint = hint
    return value


def test_foreign_pointers_are_followed_and_indices_are_not():
    def body(k, x, table, n):
        gather = named(k.one("ptr_add", x, k.load(named(x, "x"))), "gather")
        k.load(gather)
        loaded = k.load(table)
        k.load(named(k.one("ptr_add", loaded, k.const(1)), "loaded"))
        k.load(named(k.one("int_to_ptr", n, to=ptr(I32)), "made"))
        either = k.one("select", k.one("cmp_eq", n, n), x, loaded)
        k.load(named(either, "either"))
        (moved,) = k.for_(k.const(0), k.const(2), k.const(1), [x], lambda i, p: [loaded])
        k.load(named(moved, "moved"))
        (walked,) = k.for_(k.const(0), k.const(2), k.const(1), [x], lambda i, p: [k.one("ptr_add", p, i)])
        k.load(named(walked, "walked"))
        (chosen,) = k.if_(k.one("cmp_eq", n, n), lambda: [x], lambda: [loaded])
        k.load(named(chosen, "chosen"))

    assert accesses(module([ptr(I32), ptr(ptr(I32)), I64], body)) == {"loaded", "made", "either", "moved", "chosen"}


def test_foreign_pointers_pass_through_calls():
    peek = function("peek", [ptr(F32)], lambda k, p: [k.load(named(p, "in callee"))])

    def body(k, table, x):
        k.create("call", [k.load(named(table, "table"))], {"callee": "peek", "result_types": (F32,)})

    assert accesses(module([ptr(ptr(F32)), ptr(F32)], body, peek)) == {"in callee"}


def test_size_grows_with_tiles():
    def size(n):
        copy = module([ptr(F32)], lambda k, x: k.store(k.lanes(x, n), k.load(k.lanes(x, n))))
        return dataflow.bytes_per_program(copy)

    assert 10 * 1024 < size(1024) < 1024 * 1024 and size(2048) > 1.9 * size(1024)
