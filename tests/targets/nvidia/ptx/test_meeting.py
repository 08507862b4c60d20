"""Threads that part meet again where their ways join, also right in front of a barrier."""

import numpy as np
import pytest

from tilewright.targets.nvidia import ptx
from tilewright.targets.nvidia.ptx import Fault

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 64
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<4>;
	ld.param.b64 	%rd1, [out];
	mov.u32 	%r1, %tid.x;
	setp.ne.b32 	%p1, %r1, 0;
	mov.b32 	%r2, 7;
	@%p1 bra 	$L__1;
	mov.b32 	%r2, 5;
$L__1:
	bar.sync 	0;
	mul.wide.u32 	%rd2, %r1, 4;
	add.s64 	%rd3, %rd1, %rd2;
	st.global.b32 	[%rd3], %r2;
	ret;
}
"""


def test_a_barrier_at_the_join():
    out = np.zeros(64, np.int32)
    ptx.run(TEXT, "k", (1,), 64, [out])
    assert out[0] == 5 and (out[1:] == 7).all()


PACKS = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 32
{
	.reg .b16 	%rs<5>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<2>;
	ld.param.b64 	%rd1, [out];
	mov.b16 	%rs1, 7;
	mov.b32 	%r1, {%rs1, %rs2};
	mov.b32 	{%rs3, %rs4}, %r1;
	mov.b32 	%r2, {FIRST, %rs1};
	st.global.b32 	[%rd1], %r2;
	ret;
}
"""


def test_a_word_with_an_unwritten_part_may_be_taken_apart():
    out = np.zeros(1, np.int32)
    ptx.run(PACKS.replace("FIRST", "%rs3"), "k", (1,), 32, [out])
    assert out[0] == 7 << 16 | 7


PERMUTES = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
	.reg .b32 	%r<8>;
	.reg .b64 	%rd<2>;
	ld.param.b64 	%rd1, [out];
	cvta.to.global.u64 	%rd1, %rd1;
	mov.b32 	%r1, 7;
	prmt.b32 	%r2, %r1, %r7, 0x7740U;
	prmt.b32 	%r3, %r7, %r1, 0x3047U;
	prmt.b32 	%r4, %r2, %r1, PICKED;
	st.global.b32 	[%rd1], %r4;
	ret;
}
"""


def test_a_word_that_is_made_byte_by_byte_has_bytes_that_nobody_looks_at():
    """Of int8 LLVM puts two at a time into words whose other bytes it fills later."""
    out, text = np.zeros(1, np.int32), PERMUTES.replace("PICKED", "0x4040U")
    ptx.run(text, "k", (1,), 32, [out])
    assert out[0] == 0x07070707
    with pytest.raises(Fault, match="%r7 is read"):
        ptx.run(text.replace("], %r4;", "], %r7;"), "k", (1,), 32, [out])
