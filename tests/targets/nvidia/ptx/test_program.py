"""Decoding: joins of branches, registers that may be unwritten, inlined calls; the table of meanings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import HEAD, kernel, run_body
from tilewright.targets.nvidia.ptx import Fault, PtxSyntaxError, not_always_written, opcodes
from tilewright.targets.nvidia.ptx.dominance import post_dominators
from tilewright.targets.nvidia.ptx.program import decode
from tilewright.targets.nvidia.ptx.table import TABLE


def test_post_dominators() -> None:
    """A loop in one side of an if, and an exit."""
    edges = {0: [1, 4], 1: [2], 2: [1, 3], 3: [5], 4: [5, 6], 5: [9], 6: [9]}
    assert post_dominators(edges, 9) == {0: None, 1: 2, 2: 3, 3: 5, 4: None, 5: None, 6: None}
    assert post_dominators({0: [1, 2], 1: [3], 2: [3], 3: [9]}, 9)[0] == 3


def test_a_loop_without_an_exit_has_no_join() -> None:
    assert post_dominators({0: [1, 2], 1: [1], 2: [9]}, 9) == {0: 2, 1: None, 2: None}


def suspects(body: str) -> set[str]:
    return decode(kernel(body)).suspects


def test_registers_that_may_be_unwritten() -> None:
    assert suspects("mov.u32 %r1, 1; add.u32 %r2, %r1, 1; ret;") == set()
    assert suspects("add.u32 %r2, %r1, 1; ret;") == {"%r1", "%r2"}
    one_way = "setp.eq.u32 %p1, %r9, 0; @%p1 bra a; mov.u32 %r1, 1; a: st.shared.u32 [%r1], 1; ret;"
    assert suspects(one_way) >= {"%r1"}
    both = "mov.u32 %r9, 1; setp.eq.u32 %p1, %r9, 0; @%p1 bra a; mov.u32 %r1, 1; bra b; a: mov.u32 %r1, 2; b: " \
        "st.shared.u32 [%r1], 1; ret;"
    assert suspects(both) == set()


_TURNS = """mov.u32 %r9, 0; again: setp.eq.u32 %p1, %r9, 0; @%p1 bra first; bra both;
    first: mov.u32 %r1, 5; both: add.u32 %r9, %r9, 1; st.shared.u32 [%r9], %r1; setp.lt.u32 %p2, %r9, 9;
    @%p2 bra again; ret;"""


def test_registers_that_some_way_does_not_write() -> None:
    """The second turn of a loop finds what the first one wrote; that it did is not known."""
    assert not_always_written(kernel(_TURNS), "") == ("%r1",)
    assert not_always_written(kernel(_TURNS.replace("mov.u32 %r9, 0;", "mov.u32 %r9, 0; mov.u32 %r1, 1;")), "") == ()
    guarded = "setp.eq.u32 %p1, 1, 0; @%p1 mov.u32 %r1, 1; st.shared.u32 [%r1], 1; ret;"
    assert not_always_written(kernel(guarded), "") == () and suspects(guarded) == {"%r1"}
    nowhere = "mov.b32 %r1, {%rs1, %rs2}; mov.b32 {%rs3, _}, %r1; ret;"
    assert not_always_written(kernel(f"mov.b16 %rs1, 1; {nowhere}"), "") == ()
    assert not_always_written(kernel(f"add.s16 %rs4, %rs2, 1; {nowhere}"), "") == ("%rs2",)


def test_a_value_that_nobody_looks_at_may_be_unwritten() -> None:
    """Lanes that loaded nothing may compute; storing what they computed is a fault."""
    x, out = np.arange(32, dtype="i4"), np.zeros(32, "i4")
    body = """mul.wide.u32 %rd1, %r100, 4; add.u64 %rd2, %rd100, %rd1; add.u64 %rd3, %rd101, %rd1;
        setp.lt.u32 %p1, %r100, 16; @%p1 ld.global.b32 %r1, [%rd2]; add.s32 %r2, %r1, 1;
        shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; selp.b32 %r4, %r3, 7, %p1; st.global.b32 [%rd3], GIVEN; ret;"""
    run_body(body.replace("GIVEN", "%r4"), x, out, block=32)
    assert (out == np.where(x < 16, (x ^ 1) + 1, 7)).all()
    with pytest.raises(Fault, match="%r3 is read, and nothing wrote it") as caught:
        run_body(body.replace("GIVEN", "%r3"), x, out, block=32)
    assert caught.value.threads[0] == 16


def test_implicit_definitions_are_no_fault() -> None:
    out = np.zeros(1, "i4")
    run_body("// implicit-def: %r5\nmov.u32 %r6, %r5; st.global.b32 [%rd100], %r6; ret;", out, block=1)


def test_recursion_and_unknown_functions() -> None:
    with pytest.raises(PtxSyntaxError, match="calls itself"):
        decode(HEAD + ".func f() { call f; ret; } .visible .entry k() { call f; ret; }", "k")
    with pytest.raises(PtxSyntaxError, match="malloc"):
        decode(HEAD + ".extern .func malloc; .visible .entry k() { call malloc; ret; }", "k")


def test_an_instruction_without_a_meaning() -> None:
    with pytest.raises(PtxSyntaxError, match=r"vadd4\.s32 has no meaning here") as caught:
        decode(kernel("mov.u32 %r1, 1;\nvadd4.s32 %r1, %r1, %r1; ret;"))
    assert caught.value.line == 13
    assert "vadd4" in caught.value.text


@pytest.mark.parametrize("body, message", [
    ("mov.b64 %r1, 5;", "32 bits"), ("add.f32 %r1, %p1, %r2;", "is a predicate"),
    ("add.u32 %r1, %r2;", "takes 2 sources"), ("add.u32 %r1, %r2, %r3, %r4;", "takes 2 sources"),
    ("@x mov.u32 %r1, 1;", "x is not declared"), ("@%r1 bra a; a:", "is no predicate"),
    ("ld.global.v4.b32 {%r1, %r2, %r3}, [%rd1];", "not 3"), ("mov.b64 %rd1, {%r1, , %r2};", "an operand belongs"),
    ("ld.global.b32 %r1;", "no meaning here"), ("fma.rn.f32 %r1, %r2, %r3;", "takes 3 sources"),
    ("mov.u32 %r1, nothing;", "declared nowhere"), ("setp.xx.u32 %p1, %r1, %r2;", "no comparison"),
    ("mov.b32 {%rs1, %rs2, %rs3}, %r1;", "do not make b32"), ("mov.u32 5, %r1;", "cannot be written"),
    ("ld.global.b32 %r1, %rd1;", "an address"), ("mov.u32 %r1, %envreg0;", "has no meaning here")])
def test_operands_that_do_not_fit(body: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=message) as caught:
        run_body(body + " ret;", block=32)
    assert caught.value.line > 0


def test_the_table() -> None:
    """Every row has a meaning and a section; the families that code generators need are there."""
    assert opcodes() == frozenset(TABLE)
    assert all(row.section.count(".") >= 2 and callable(row.meaning) for row in TABLE.values())
    assert {"mma", "ldmatrix", "cp.async", "mbarrier.try_wait", "wgmma.mma_async", "cp.async.bulk.tensor", "shfl",
            "bar", "atom", "fma", "cvt", "ld", "st"} <= opcodes()
