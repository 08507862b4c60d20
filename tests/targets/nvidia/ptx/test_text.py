"""The parser: scopes, numbers, directives, user's lines; what is not PTX is an error with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.targets.nvidia.ptx.harness import HEAD, kernel
from tilewright.targets.nvidia.ptx import PtxSyntaxError
from tilewright.targets.nvidia.ptx.operands import Address, Immediate, Pair, Register, Special, Symbol, Vector
from tilewright.targets.nvidia.ptx.text import parse


def code(body: str) -> list:
    return parse(kernel(body)).functions["k"].code


def test_operands() -> None:
    (one, two, three, four) = code("""@!%p1 setp.lt.and.u32 %p2|%p3, %r1, -5, !%p4;
        ld.global.v2.b32 {%r1, %r2}, [%rd1+-8]; mov.u32 %r1, %tid.x; st.shared.b32 [%r1], 0xFF;""")
    assert one.guard is not None
    assert one.guard.negated
    assert one.operands == (Pair(Register("%p2"), Register("%p3")), Register("%r1"), Immediate(-5),
                            Register("%p4", True))
    assert two.operands == (Vector((Register("%r1"), Register("%r2"))), Address(Register("%rd1"), -8))
    assert three.operands[1] == Special("%tid.x")
    assert four.operands[1] == Immediate(255)


@pytest.mark.parametrize("text, value, kind", [
    ("10", 10, "int"), ("0x1fU", 31, "int"), ("017", 15, "int"), ("0b101", 5, "int"), ("-3", -3, "int"),
    ("0f3F800000", 0x3F800000, "f32"), ("0d3FF0000000000000", 0x3FF0000000000000, "f64"),
    ("1.5", 0x3FF8000000000000, "f64"), ("4294967295", 4294967295, "int")])
def test_numbers(text: str, value: int, kind: str) -> None:
    assert code(f"mov.b32 %r1, {text};")[0].operands[1] == Immediate(value, kind)


def test_scopes_have_names_of_their_own() -> None:
    """As inline assembly has them: the same names in two scopes, and a label used before it stands."""
    scope = "{ .reg .pred p; .reg .b32 t<3>; setp.eq.u32 p, %r1, 0; @p bra L; mov.u32 t1, 5; L: mov.u32 %r2, t1; }"
    first, second = code(scope + scope)[:4], code(scope + scope)[4:]
    names = [instruction.operands[0].name for instruction in (first[0], second[0])]
    assert names[0] != names[1]
    function = parse(kernel(scope + scope)).functions["k"]
    assert sorted(function.labels.values()) == [3, 7]
    assert first[1].operands[0] != second[1].operands[0]


def test_lines_of_the_user() -> None:
    text = HEAD + """.visible .entry k()
{
.reg .b32 %r<3>;
.loc 1 10 5
mov.u32 %r1, 1;
.loc 2 33 9, function_name $L__info_string0, inlined_at 1 12 7
mov.u32 %r2, 2;
.loc 1 0 0
mov.u32 %r1, 3;
ret;
}
.file 1 "/somewhere/kernel.py"
.file 2 "/somewhere/library.py"
"""
    first, second, third, _ = parse(text).functions["k"].code
    assert (first.location.file, first.location.line, first.location.column) == ("/somewhere/kernel.py", 10, 4)
    assert (second.location.file, second.location.line) == ("/somewhere/library.py", 33)
    assert (second.location.caller.file, second.location.caller.line) == ("/somewhere/kernel.py", 12)
    assert third.location.line == 33
    assert first.line == 8


def test_declarations() -> None:
    module = parse(HEAD + """.global .align 8 .b8 a[16] = {1, 2}; .const .f32 b[2][2] = {{0f3F800000, 0f0}, {1.5, 2.0}};
        .extern .shared .align 128 .b8 c[]; .extern .func (.param .b32 r) vprintf (.param .b64 x, .param .b64 y);
        .visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 q[128]) .reqntid 64, 2
        .minnctapersm 1 { ret; }""".replace("0f0}", "0f00000000}"))
    assert module.variables["a"].size == 16
    assert module.variables["b"].size == 16
    assert len(module.variables["b"].initial) == 4
    assert module.variables["c"].size == 0
    function = module.functions["k"]
    assert function.directives["reqntid"] == (64, 2)
    assert [p.size for p in function.parameters] == [8, 128]


def test_comments_and_implicit_definitions() -> None:
    function = parse(kernel("""/* a
        comment */ mov.u32 %r1, 1; // another
        // implicit-def: %r2
        mov.u32 %r3, %r2;""")).functions["k"]
    assert len(function.code) == 2
    assert function.undefined == {1: ["%r2"]}


@pytest.mark.parametrize("body, message, line", [
    ("bra nowhere;", "a label that k does not have", 12), ("mov.u32 %r1 %r2;", "a comma or semicolon", 12),
    ("mov.u32 %r1, 0xZZ;", "no number", 12), (".reg .b33 x;", "no type of a register", 12),
    ("a: a: ret;", "stands twice", 12), ("mov.u32 %r1, [%r2;", "belongs", 12)])
def test_errors(body: str, message: str, line: int) -> None:
    with pytest.raises(PtxSyntaxError, match=message) as caught:
        parse(kernel(body))
    assert caught.value.line == line


def test_text_that_ends_early() -> None:
    with pytest.raises(PtxSyntaxError, match="ends in the middle"):
        parse(HEAD + ".visible .entry k() { mov.u32")
    with pytest.raises(PtxSyntaxError, match="cannot begin a declaration"):
        parse("hello")


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*/*.ptx")), ids=lambda p: p.stem)
def test_every_instruction_has_a_line_and_a_place(path: Path) -> None:
    text = path.read_text()
    lines = text.split("\n")
    for function in parse(text).functions.values():
        for instruction in function.code:
            assert instruction.opcode in lines[instruction.line - 1]


def test_symbols_with_offsets() -> None:
    assert code("ld.const.b32 %r1, [table+12];")[0].operands[1] == Address(Symbol("table"), 12)
    assert code("mov.u64 %rd1, table+4;")[0].operands[1] == Symbol("table", 4)
