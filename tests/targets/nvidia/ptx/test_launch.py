"""Buffers of every kind, grids, blocks, special registers, what a launch refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import kernel, pointers, run_body
from tilewright.targets.nvidia.ptx import Fault, Pointer, PtxSyntaxError, Uninitialised, run

ADD_ONE = kernel("""ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r5, [n]; ld.param.s32 %r6, [step];
    mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, %r5; @%p1 ret; mul.lo.s32 %r2, %r1, %r6; mul.wide.s32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3; ld.global.b32 %r3, [%rd4]; add.s32 %r3, %r3, 1; mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd6, %rd2, %rd5; st.global.b32 [%rd6], %r3; ret;""",
                 ".param .u64 p0, .param .u64 p1, .param .u32 n, .param .s32 step")


@pytest.mark.parametrize("n", [1, 7, 31, 32, 33, 128])
def test_strides_and_views(n: int) -> None:
    """Contiguous, every second, backwards, from the middle."""
    base = np.arange(1000, dtype="i4")
    for view, step in ((base[:n], 1), (base[5:5 + 2 * n:2], 2), (base[:n][::-1], -1), (base[300:300 + n], 1)):
        out = np.zeros(n, "i4")
        run(ADD_ONE, "k", (1,), 128, [view, Uninitialised(out), n, step])
        assert (out == view + 1).all()


def test_bounds_are_those_of_the_view() -> None:
    base = np.arange(100, dtype="i4")
    out = np.zeros(64, "i4")
    with pytest.raises(Fault, match="out of bounds"):
        run(ADD_ONE, "k", (1,), 128, [base[:50], out, 51, 1])
    with pytest.raises(Fault, match="bytes before"):
        run(ADD_ONE, "k", (1,), 128, [base[10:20], out, 2, -1])


def test_empty_arrays_and_grids() -> None:
    run(ADD_ONE, "k", (1,), 128, [np.zeros(0, "i4"), np.zeros(0, "i4"), 0, 1])
    run(ADD_ONE, "k", (0,), 128, [np.zeros(0, "i4"), np.zeros(0, "i4"), 5, 1])
    with pytest.raises(Fault, match="which has 0 bytes"):
        run(ADD_ONE, "k", (1,), 128, [np.zeros(0, "i4"), np.zeros(0, "i4"), 1, 1])


def test_arrays_that_overlap_and_pointers_inside() -> None:
    """One array twice; a pointer behind its start; a 0-d array."""
    x = np.arange(64, dtype="i4")
    run(ADD_ONE, "k", (1,), 128, [x, x, 64, 1])
    assert (x == np.arange(64) + 1).all()
    out = np.zeros(4, "i4")
    run(ADD_ONE, "k", (1,), 128, [Pointer(x, 40), out, 4, 1])
    assert out.tolist() == [12, 13, 14, 15]
    run(ADD_ONE, "k", (1,), 128, [x, x[32:], 32, 1])
    assert (x[32:] == np.arange(32) + 2).all()
    scalar = np.array(5, "i4")
    run(ADD_ONE, "k", (1,), 128, [scalar, scalar, 1, 1])
    assert scalar == 6


def test_read_only_arrays() -> None:
    x = np.zeros(4, "i4")
    x.flags.writeable = False
    out = np.zeros(4, "i4")
    run(ADD_ONE, "k", (1,), 128, [x, out, 4, 1])
    with pytest.raises(Fault) as caught:
        run(ADD_ONE, "k", (1,), 128, [out, x, 4, 1])
    assert caught.value.kind == "read-only"
    assert (x == 0).all()


def test_what_was_written_before_a_fault_is_there() -> None:
    out = np.zeros(8, "i4")
    with pytest.raises(Fault):
        run_body("st.global.b32 [%rd100], 5; st.global.b32 [%rd100+64], 5; ret;", out, block=1)
    assert out[0] == 5


def test_special_registers_of_a_grid() -> None:
    out = np.zeros((2, 3, 4, 2 * 3 * 4, 3), "u4")
    run_body("""mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x;
        mov.u32 %r5, %ntid.y; mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
        mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y;
        mov.u32 %r9, %ctaid.z; mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y; mad.lo.u32 %r12, %r9, %r11, %r8;
        mad.lo.u32 %r12, %r12, %r10, %r7; mad.lo.u32 %r13, %r12, 24, %r6; mul.wide.u32 %rd1, %r13, 12;
        add.u64 %rd2, %rd100, %rd1; mov.u32 %r14, %laneid; mov.u32 %r15, %warpid; mov.u32 %r16, %lanemask_lt;
        popc.b32 %r16, %r16; st.global.b32 [%rd2], %r6; st.global.b32 [%rd2+4], %r14; sub.u32 %r16, %r16, %r14;
        add.u32 %r16, %r16, %r15; st.global.b32 [%rd2+8], %r16; ret;""", out, block=(4, 3, 2), grid=(4, 3, 2))
    assert (out[..., 0] == np.arange(24)).all()
    assert (out[..., 1] == np.arange(24)).all()
    assert (out[..., 2] == 0).all()


def test_clocks_go_forward() -> None:
    out = np.zeros(2, "u8")
    run_body("mov.u64 %rd1, %clock64; mov.u64 %rd2, %globaltimer; st.global.v2.b64 [%rd100], {%rd1, %rd2}; ret;", out,
             block=1)
    assert out[1] > out[0]


def test_dynamic_shared_memory() -> None:
    out = np.zeros(64, "i4")
    run_body("""mov.u32 %r1, dyn; shl.b32 %r2, %r100, 2; add.u32 %r1, %r1, %r2; st.shared.b32 [%r1], %r100; bar.sync 0;
        mov.u32 %r3, %dynamic_smem_size; ld.shared.b32 %r4, [%r1]; add.u32 %r4, %r4, %r3; mul.wide.u32 %rd1, %r100, 4;
        add.u64 %rd2, %rd100, %rd1; st.global.b32 [%rd2], %r4; ret;""", out, block=64, shared_bytes=256,
             before=".shared .align 4 .b8 fixed[12]; .extern .shared .align 16 .b8 dyn[];")
    assert (out == np.arange(64) + 256).all()


@pytest.mark.parametrize("head, block, message", [
    (".reqntid 128", 64, "wants blocks of"), (".maxntid 32", 64, "at most"), ("", 1025, "1 to 1024"),
    ("", 0, "1 to 1024")])
def test_blocks_that_do_not_fit(head: str, block: int, message: str) -> None:
    text = kernel("ret;").replace("k()\n", f"k()\n{head}\n")
    with pytest.raises(ValueError, match=message):
        run(text, "k", (1,), block, [])


def test_arguments_that_do_not_fit() -> None:
    text = kernel("ret;", ".param .u64 p0, .param .align 8 .b8 s[16]")
    with pytest.raises(ValueError, match="2 parameters, got 1"):
        run(text, "k", (1,), 32, [0])
    with pytest.raises(ValueError, match="has 16 bytes, got 3"):
        run(text, "k", (1,), 32, [0, b"abc"])
    with pytest.raises(TypeError, match="no array, number or bytes"):
        run(text, "k", (1,), 32, ["x", bytes(16)])
    with pytest.raises(PtxSyntaxError, match="no entry 'other'"):
        run(text, "other", (1,), 32, [])


def test_numbers_are_stored_as_the_parameter_says() -> None:
    text = kernel("ld.param.u64 %rd1, [p0]; ld.param.b32 %r1, [f]; ld.param.b64 %rd2, [g]; st.global.b32 [%rd1], %r1;"
                  " st.global.b64 [%rd1+8], %rd2; ret;", pointers(1) + ", .param .f32 f, .param .f64 g")
    out = np.zeros(4, "f4")
    run(text, "", (1,), 1, [out, 2, 3])
    assert out[0] == 2.0 or out[:1].view("i4")[0] == 2
    run(text, "", (1,), 1, [out, 2.5, np.float64(1.25)])
    assert out[0] == 2.5
    assert out[2:].view("f8")[0] == 1.25
