"""The hoisting writer: invariants stand outside, equal instructions are shared, branches are barriers."""

import ctypes

import pytest

from tilewright.targets.cpu.code import Code
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.toolchain import Loader, compile_object, host_machine
from tilewright.targets.llvm.types import I1, I64, PTR, Value, constant


def code():
    return Code(ModuleWriter(Isa()), "k", [("x", PTR), ("n", I64)])


def test_invariants_leave_loops_and_equal_texts_are_one():
    c = code()
    n = c.params[1]

    def body(i, _):
        a = c.op("mul", n, constant(I64, 3))
        assert a == c.op("mul", n, constant(I64, 3))
        b = c.op("add", a, i)
        assert c.op("add", a, i) == b
        c.store(b, c.gep(c.params[0], i, I64), 8)
        return ()

    c.counted(8, 1, body)
    c.ret()
    text = c.text()
    assert text.count("mul i64") == 1 and text.index("mul i64") < text.index("loop")
    assert text.index("add i64 %v") > text.index("loop")


def test_a_hidden_loop_goes_round_with_a_number_that_llvm_does_not_know():
    """Both kinds add up the same, whatever LLVM knows of them."""
    for hidden in (False, True):
        c = code()

        def body(i, carried, c=c):
            return [c.op("add", carried[0], i)]

        (counted,) = c.counted(10, 2, body, [constant(I64, 0)], hidden=hidden)
        (looped,) = c.loop(constant(I64, 1), c.params[1], constant(I64, 1), body, [counted], hidden=hidden)
        c.store(looped, c.params[0], 8)
        c.ret()
        text = c.text() + c.module.text()
        assert text.count('asm ""') == 2 * hidden
        for line in text.splitlines():
            if "= phi i64 [ 0," in line and "%i" in line.split("=")[0]:
                following = line.split(",")[2].split("[")[1].strip()
                assert (f"{following} = call i64 asm" in text) == hidden
        loaded = Loader().load(compile_object(text, host_machine()).binary, "k")
        result = ctypes.c_int64()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(loaded.address)(ctypes.addressof(result), 5)
        assert result.value == 20 + 10


def test_nothing_leaves_a_branch_and_what_is_known_outside_is_used():
    c = code()
    n = c.params[1]
    outside = c.op("mul", n, n)

    def way():
        assert c.op("mul", n, n) == outside
        return [c.op("add", n, n)]

    (joined,) = c.branch(c.icmp("slt", n, constant(I64, 5)), way, lambda: [n])
    c.store(joined, c.params[0], 8)
    c.ret()
    text = c.text()
    assert text.count("mul i64") == 1 and text.index("add i64") > text.index("then")


def test_loads_stay_but_shared_ones_move_up_to_the_floor():
    c = code()
    first = c.load(c.params[0], I64, 8)
    assert c.load(c.params[0], I64, 8) != first
    with c.scope() as floor:
        def body(i, _):
            a = c.shared_load("load i64, ptr %x, align 8", I64, floor)
            assert c.shared_load("load i64, ptr %x, align 8", I64, floor) == a
            return ()
        c.counted(4, 1, body)
    with c.scope() as floor:
        c.shared_load("load i64, ptr %x, align 8", I64, floor)
    c.ret()
    text = c.text()
    assert text.count("load i64") == 4      # two plain ones, one for each scope
    assert text.index("loop") > text.rindex("load i64", 0, text.index("loop"))


def test_a_known_condition_takes_its_way_at_once():
    c = code()
    taken = []
    c.branch(Value(I1, "true"), lambda: taken.append("then") or (), lambda: taken.append("else") or ())
    c.branch(Value(I1, "false"), lambda: taken.append("then") or (), lambda: taken.append("else") or ())
    assert taken == ["then", "else"] and "br i1" not in c.text()


def test_folding():
    c = code()
    n, zero, one = c.params[1], constant(I64, 0), constant(I64, 1)
    assert c.fold("add", n, zero) == n and c.fold("add", zero, n) == n and c.fold("sub", n, zero) == n
    assert c.fold("mul", n, one) == n and c.fold("mul", n, zero) == zero
    assert c.fold("add", constant(I64, 2**63 - 1), one) == constant(I64, -2**63)
    assert c.fold("and", n, constant(I64, -1)) == n and c.fold("and", n, zero) == zero
    assert c.fold_icmp("slt", zero, one) == Value(I1, "true")
    assert c.select(Value(I1, "true"), n, zero) == n and c.select(c.icmp("eq", n, zero), n, n) == n


def test_mixed_lines_keep_what_they_need_before_them():
    c = code()
    x, n = c.params

    def part(k):
        value = c.here(I64, f"load i64, {x}, align 8")
        for _ in range(12):
            value = c.op("mul", value, n)
        c.store(value, c.gep(x, k, I64), 8)
        return k

    with c.scope():
        c.here(I64, f"load i64, {x}, align 8")
        assert c.interleaved([lambda: part(1), lambda: part(2)]) == [1, 2]
    c.ret()
    lines = [line.strip() for line in c.text().splitlines() if "=" in line and "define" not in line]
    names = [line.split(" = ")[0] for line in lines]
    for k, line in enumerate(lines):
        assert all(v in names[:k] for v in line.split(" = ")[1].replace(",", " ").split() if v.startswith("%v"))
    operations = [line for line in lines if "mul" in line]
    assert len(operations) == 24 and operations[0].split(" = ")[0] not in operations[1]


@pytest.mark.parametrize("lengths", [(12, 12, 12), (30, 12, 20), (12, 30, 11)])
def test_mixed_parts_write_in_their_order(lengths):
    """Each kind of write by itself, also where the parts differ in length: addresses of one may be those of another."""
    c = code()
    x, n = c.params

    def part(k):
        value = n
        for _ in range(lengths[k]):
            value = c.here(I64, f"mul i64 {value}, {n}")
        for kind in (100, 200):
            c.store(constant(I64, kind + k), x, 8)
            for _ in range(lengths[-k]):
                value = c.here(I64, f"add i64 {value}, {n}")
        c.store(value, c.gep(x, k, I64), 8)

    c.interleaved([lambda k=k: part(k) for k in range(3)])
    lines = c.text().splitlines()
    stores = [line.split()[2].rstrip(",") for line in lines if " store i64 " in line]
    assert [s for s in stores if s[0] == "1"] == ["100", "101", "102"]
    assert [s for s in stores if s[0] == "2"] == ["200", "201", "202"]
    first = next(k for k, line in enumerate(lines) if " mul " in line)
    assert lines[first].split()[0] not in lines[first + 1].split(" = ")[1], "mixed"


def test_parts_with_branches_or_of_a_few_lines_stay_as_they_are():
    c = code()
    x, n = c.params

    def part(count):
        for _ in range(count):
            c.here(I64, f"load i64, {x}, align 8")
        if count > 20:
            c.branch(c.icmp("eq", n, constant(I64, 1)), lambda: ())
        c.store(constant(I64, count), x, 8)

    c.interleaved([lambda: part(3), lambda: part(3)])
    c.interleaved([lambda: part(30), lambda: part(30)])
    stores = [k for k, line in enumerate(c.text().splitlines()) if "store" in line]
    assert [b - a for a, b in zip(stores, stores[1:])][0] == 4 and stores[3] - stores[2] > 30


@pytest.mark.parametrize("isa,mixed", [(Isa(), True), (Isa(avx512=True), False)])
@pytest.mark.parametrize("extra", ["prefetch", "address"])
def test_parts_that_differ_in_length_are_mixed_on_narrow_machines(isa, mixed, extra):
    """Every second one asks for a line, or only the first one computes an address."""
    c = Code(ModuleWriter(isa), "k", [("x", PTR), ("n", I64)])
    x, n = c.params

    def part(k):
        value = c.here(I64, f"load i64, {x}, align 8")
        if k % 2 == 0:
            where = c.here(PTR, f"getelementptr i64, {x}, i64 {100 + k}")
            if extra == "prefetch":
                c.prefetch(where, 3)
        for _ in range(12):
            value = c.op("mul", value, n)
        c.store(value, c.gep(x, k + 1, I64), 8)

    c.interleaved([lambda: part(0), lambda: part(1)])
    c.ret()
    lines = [line.strip() for line in c.text().splitlines()]
    stores = [k for k, line in enumerate(lines) if line.startswith("store")]
    products = [k for k, line in enumerate(lines) if "= mul" in line]
    assert len(products) == 24 and (stores[0] > products[18]) == mixed
    names = [line.split(" = ")[0] for line in lines]
    for k, line in enumerate(lines):
        used = [v.rstrip(",") for v in line.split(" = ")[-1].split() if v.startswith("%v")]
        assert all(v in names[:k] for v in used)


def test_parts_that_write_more_often_than_others_stay_as_they_are():
    c = code()
    x, n = c.params

    def part(count):
        for k in range(12):
            c.here(I64, f"load i64, {x}, align 8")
        for k in range(count):
            c.store(n, c.gep(x, k, I64), 8)

    c.interleaved([lambda: part(1), lambda: part(2)])
    lines = [line for line in c.text().splitlines() if "load" in line or "store" in line]
    assert "store" in lines[12]
