"""Loads and stores of every space, type and vector; generic addresses; cvta, isspacep."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import aligned, kernel, pointers, run_body
from tilewright.targets.nvidia.ptx import Fault, PtxSyntaxError, run

TYPES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "s16": 2, "b32": 4, "f32": 4, "b64": 8, "f64": 8}


@pytest.mark.parametrize("type, size, width", [(t, s, w) for t, s in TYPES.items() for w in (1, 2, 4) if s * w <= 16])
@pytest.mark.parametrize("space", ["global", "shared", "local", ""])
def test_vectors(space: str, width: int, type: str, size: int) -> None:
    """Out to a space and back, element by element."""
    x = np.random.default_rng(0).integers(0, 256, 64 * size * width).astype("u1")
    out = np.zeros_like(x)
    name = {1: "rs", 2: "rs", 4: "r", 8: "rd"}[size]
    registers = [f"%{name}{10 + i}" for i in range(width)]
    vector = f".v{width}" if width > 1 else ""
    operand = "{" + ", ".join(registers) + "}" if width > 1 else registers[0]
    total = size * width
    through = ""
    if space == "shared":
        through = f"""mov.u32 %r1, area; mad.lo.u32 %r1, %r100, {total}, %r1; st.shared{vector}.{type} [%r1], {operand};
            ld.shared{vector}.{type} {operand}, [%r1];"""
    elif space == "local":
        through = f"st.local{vector}.{type} [own+16], {operand}; ld.local{vector}.{type} {operand}, [own+16];"
    elif space == "":
        through = f"""mov.u64 %rd1, area; mad.wide.u32 %rd1, %r100, {total}, %rd1; cvta.shared.u64 %rd2, %rd1;
            st{vector}.{type} [%rd2], {operand}; ld{vector}.{type} {operand}, [%rd2];
            mov.u64 %rd1, own; cvta.local.u64 %rd2, %rd1; st{vector}.{type} [%rd2], {operand};
            ld{vector}.{type} {operand}, [%rd2];"""
    run_body(f""".shared .align 16 .b8 area[2048]; .local .align 16 .b8 own[64];
        mad.wide.u32 %rd60, %r100, {total}, %rd100; mad.wide.u32 %rd61, %r100, {total}, %rd101;
        ld.global{vector}.{type} {operand}, [%rd60]; {through} st.global{vector}.{type} [%rd61], {operand}; ret;""",
             x, out, block=64)
    assert (out == x).all()


def test_extension_into_wider_registers() -> None:
    x = np.array([0x80, 0x7F, 0xFF, 1], "u1")
    out = np.zeros((4, 4), "i8")
    run_body("""cvt.u64.u32 %rd1, %r100; add.u64 %rd2, %rd100, %rd1; ld.global.s8 %r1, [%rd2]; ld.global.u8 %r2, [%rd2];
        ld.global.s8 %rd3, [%rd2]; ld.global.b8 %rd4, [%rd2]; cvt.s64.s32 %rd5, %r1; cvt.s64.s32 %rd6, %r2;
        mul.wide.u32 %rd7, %r100, 32; add.u64 %rd8, %rd101, %rd7; st.global.v2.b64 [%rd8], {%rd5, %rd6};
        st.global.v2.b64 [%rd8+16], {%rd3, %rd4}; ret;""", x, out, block=4)
    s, u = x.view("i1").astype("i8"), x.astype("i8")
    assert (out == np.stack([s, u, s, u], 1)).all()


def test_wide_vectors_and_cache_hints() -> None:
    """ld.v8.b32 and v4.b64 (32 bytes, sm_100); hints have no effect."""
    x, out = aligned(256, "u4"), aligned(256, "u4")
    x[:] = np.arange(256)
    registers = ", ".join(f"%r{10 + i}" for i in range(8))
    run_body(f"""mul.wide.u32 %rd1, %r100, 32; add.u64 %rd2, %rd100, %rd1; add.u64 %rd3, %rd101, %rd1;
        createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;
        ld.global.L1::no_allocate.L2::cache_hint.v8.b32 {{{registers}}}, [%rd2], %rd9;
        prefetch.global.L2 [%rd2];
        st.global.L1::evict_last.v8.b32 [%rd3], {{{registers}}}; ret;""", x, out, block=32)
    assert (out == x).all()


def test_variables_of_the_module() -> None:
    """.global and .const with initial values, addresses in them, a counter that all CTAs share."""
    before = """.const .align 4 .b32 table[4] = {10, -20, 0x1E, 40};
        .global .align 8 .u64 where = table; .global .align 4 .f32 half = 0f3F000000; .global .b32 count;
        .global .align 1 .b8 text[4] = {104, 105};"""
    out, floats, chars = np.zeros(8, "i4"), np.zeros(1, "f4"), np.zeros(4, "u1")
    run_body("""and.b32 %r1, %r100, 3; mul.wide.u32 %rd1, %r1, 4; ld.global.u64 %rd2, [where]; add.u64 %rd3, %rd2, %rd1;
        ld.const.b32 %r2, [%rd3]; ld.const.b32 %r3, [table+12]; mul.wide.u32 %rd4, %r100, 4; add.u64 %rd5, %rd100, %rd4;
        add.s32 %r4, %r2, %r3; st.global.b32 [%rd5], %r4; ld.global.f32 %r5, [half]; st.global.f32 [%rd101], %r5;
        red.global.add.u32 [count], 1; ld.global.b32 %r6, [text]; st.global.b32 [%rd102], %r6; ret;""",
             out, floats, chars, block=8, before=before)
    assert (out == np.tile([50, 20, 70, 80], 2)).all()
    assert floats[0] == 0.5
    assert chars.tolist() == [104, 105, 0, 0]


def test_windows_of_generic_addresses() -> None:
    out = np.zeros(8, "u4")
    run_body(""".shared .b32 a; .local .b32 b; mov.u64 %rd1, a; cvta.shared.u64 %rd2, %rd1; mov.u64 %rd3, b;
        cvta.local.u64 %rd4, %rd3; cvta.to.shared.u64 %rd5, %rd2; setp.eq.u64 %p9, %rd5, %rd1;
        isspacep.shared %p1, %rd2; isspacep.local %p2, %rd2; isspacep.global %p3, %rd2;
        isspacep.shared %p4, %rd4; isspacep.local %p5, %rd4; isspacep.global %p6, %rd100; isspacep.shared %p7, %rd100;
        selp.b32 %r1, 1, 0, %p1; st.global.b32 [%rd100], %r1; selp.b32 %r1, 1, 0, %p2; st.global.b32 [%rd100+4], %r1;
        selp.b32 %r1, 1, 0, %p3; st.global.b32 [%rd100+8], %r1; selp.b32 %r1, 1, 0, %p4; st.global.b32 [%rd100+12], %r1;
        selp.b32 %r1, 1, 0, %p5; st.global.b32 [%rd100+16], %r1; selp.b32 %r1, 1, 0, %p6;
        st.global.b32 [%rd100+20], %r1; selp.b32 %r1, 1, 0, %p7; st.global.b32 [%rd100+24], %r1;
        selp.b32 %r1, 1, 0, %p9; st.global.b32 [%rd100+28], %r1; ret;""", out, block=1)
    assert out.tolist() == [1, 0, 0, 0, 1, 1, 0, 1]


def test_generic_addresses_of_several_spaces_in_one_instruction() -> None:
    x, out = np.arange(32, dtype="i4"), np.zeros(32, "i4")
    run_body(""".shared .b32 s[32]; mul.wide.u32 %rd1, %r100, 4; mov.u64 %rd2, s; add.u64 %rd2, %rd2, %rd1;
        st.shared.b32 [%rd2], -7; cvta.shared.u64 %rd3, %rd2; add.u64 %rd4, %rd100, %rd1; and.b32 %r1, %r100, 1;
        setp.eq.u32 %p1, %r1, 0; selp.b64 %rd5, %rd3, %rd4, %p1; ld.b32 %r2, [%rd5]; add.u64 %rd6, %rd101, %rd1;
        st.b32 [%rd6], %r2; ret;""", x, out, block=32)
    assert (out == np.where(x % 2 == 0, -7, x)).all()


def test_parameters() -> None:
    """Every width, a struct by value, and the address of one."""
    parameters = ".param .u8 a, .param .s16 b, .param .u32 c, .param .f64 d, .param .align 8 .b8 e[16], .param .u64 f"
    body = """ld.param.u64 %rd1, [f]; ld.param.u8 %r1, [a]; ld.param.s16 %r2, [b]; ld.param.u32 %r3, [c];
        ld.param.b64 %rd2, [d]; ld.param.b64 %rd3, [e+8]; ld.param.v2.b32 {%r4, %r5}, [e]; mov.b64 %rd4, e;
        cvta.param.u64 %rd5, %rd4; ld.param.b32 %r6, [%rd4+4]; ld.b32 %r7, [%rd5];
        st.global.v4.b32 [%rd1], {%r1, %r2, %r3, %r4}; st.global.v2.b64 [%rd1+16], {%rd2, %rd3};
        st.global.v4.b32 [%rd1+32], {%r5, %r6, %r7, %r7}; ret;"""
    out = np.zeros(12, "i4")
    struct = np.array([11, 12, 13, 14], "i4")
    run(kernel(body, parameters), "k", (1,), 1, [200, np.int16(-5), 2**32 - 1, 2.5, struct.tobytes(), out])
    assert out[:4].tolist() == [200, -5, -1, 11]
    assert out[4:6].copy().view("f8")[0] == 2.5
    assert out[6:8].tolist() == [13, 14]
    assert out[8:].tolist() == [12, 12, 11, 11]


def test_packing_and_unpacking() -> None:
    out = np.zeros(6, "u8")
    run_body("""mov.b32 %r1, 0x11223344; mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r2, {%rs2, %rs1}; mov.b64 %rd1, {%r1, %r2};
        st.global.b64 [%rd100], %rd1; mov.b64 {%rs3, %rs4, %rs5, %rs6}, %rd1; mov.b64 %rd2, {%rs6, %rs5, %rs4, %rs3};
        st.global.b64 [%rd100+8], %rd2; mov.b64 {_, %r3}, %rd1; cvt.u64.u32 %rd3, %r3; st.global.b64 [%rd100+16], %rd3;
        mov.b128 %q1, {%rd1, %rd2}; mov.b128 {%rd4, %rd5}, %q1; st.global.b64 [%rd100+24], %rd4;
        st.global.b64 [%rd100+32], %rd5; ret;""", out, block=1)
    assert out[:5].tolist() == [0x3344112211223344, 0x3344112211223344, 0x33441122, 0x3344112211223344,
                                0x3344112211223344]


def test_reading_past_a_parameter() -> None:
    with pytest.raises(PtxSyntaxError, match="reads 8 bytes at 8 of parameter p0"):
        run(kernel("ld.param.u64 %rd1, [p0+8]; ret;", pointers(1)), "k", (1,), 32, [0])


@pytest.mark.parametrize("body, kind", [
    ("st.local.b32 [own], %r100; ld.local.b32 %r1, [own+4];", "uninitialised"),
    ("st.local.b32 [own+8], %r100;", "out of bounds"), ("st.local.b32 [own+2], %r100;", "misaligned"),
    ("mov.u64 %rd1, 0x300000000000000; ld.b32 %r1, [%rd1];", "out of bounds"),
    ("mov.u64 %rd1, -8; ld.global.b32 %r1, [%rd1];", "out of bounds"),
    ("ld.global.b32 %r1, [%rd100+4194304];", "out of bounds")])
def test_faults_of_memory(body: str, kind: str) -> None:
    with pytest.raises(Fault) as caught:
        run_body(".local .align 8 .b8 own[8]; " + body + " ret;", np.zeros(4, "i4"), block=32)
    assert caught.value.kind == kind


def test_an_address_is_named_by_its_array() -> None:
    with pytest.raises(Fault, match=r"at byte 16 of the array of p0, which has 16 bytes"):
        run_body("ld.global.b32 %r1, [%rd100+16]; ret;", np.zeros(4, "i4"), block=32)
    with pytest.raises(Fault, match=r"8 bytes before the array of p0"):
        run_body("ld.global.b32 %r1, [%rd100+-8]; ret;", np.zeros(4, "i4"), block=32)
