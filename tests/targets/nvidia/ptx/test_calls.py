"""vprintf and __assertfail, as compilers call them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import run_body
from tilewright.targets.nvidia.ptx import Fault, PtxSyntaxError


def text(name: str, value: str) -> str:
    raw = value.encode() + b"\0"
    return f".global .align 1 .b8 {name}[{len(raw)}] = {{{', '.join(map(str, raw))}}};\n"


PRINT = """.local .align 8 .b8 depot[48]; FILL
mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; mov.u64 %rd3, format;
{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd3; st.param.b64 [b], %rd2;
call.uni (r), vprintf, (a, b); ld.param.b32 %r50, [r]; } ret;"""
EXTERN = """.extern .func (.param .b32 r) vprintf (.param .b64 x, .param .b64 y);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
"""


@pytest.mark.parametrize("format, fill, want", [
    ("t %d\n", "st.local.b32 [depot], %r100;", "t 0\nt 1\n"),
    ("%5u|%-4d|%x|%c %%", "st.local.b32 [depot], 7; st.local.b32 [depot+4], -3; st.local.b32 [depot+8], 255; "
     "st.local.b32 [depot+12], 65;", "    7|-3  |ff|A %" * 2),
    ("%f %.2e", "st.local.b64 [depot], 0d3FF8000000000000; st.local.b64 [depot+8], 0dC05EDD2F1A9FBE77;",
     "1.500000 -1.23e+02" * 2),
    ("%d %lld %u", "st.local.b32 [depot], -1; st.local.b64 [depot+8], -5; st.local.b32 [depot+16], -1;",
     "-1 -5 4294967295" * 2),
    ("%s!", "mov.u64 %rd9, name; st.local.b64 [depot], %rd9;", "kernel!" * 2)])
def test_formats(format: str, fill: str, want: str) -> None:
    before = EXTERN + text("format", format) + text("name", "kernel")
    result = run_body(PRINT.replace("FILL", fill), block=2, before=before)
    assert result.printed == want


def test_threads_print_in_order_and_only_if_they_are_there() -> None:
    body = "setp.lt.u32 %p1, %r100, 61; @%p1 ret;" + PRINT.replace("FILL", "st.local.b32 [depot], %r100;")
    assert run_body(body, block=64, before=EXTERN + text("format", "%d ")).printed == "61 62 63 "


def test_an_assertion_names_its_place() -> None:
    body = """setp.ne.u32 %p1, %r100, 9; @%p1 ret; mov.u64 %rd1, message; mov.u64 %rd2, file; mov.u64 %rd3, function;
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %rd1;
        st.param.b64 [b], %rd2; st.param.b32 [c], 12; st.param.b64 [d], %rd3; st.param.b64 [e], 1;
        call.uni __assertfail, (a, b, c, d, e); } trap;"""
    before = EXTERN + text("message", "x must be positive") + text("file", "model.py") + text("function", "norm")
    with pytest.raises(Fault, match="x must be positive") as caught:
        run_body(body, block=32, before=before)
    assert caught.value.kind == "assertion"
    assert caught.value.threads == (9,)
    assert str(caught.value.location) == "model.py:12:1"
    assert caught.value.location.function == "norm"


def test_a_format_that_lies_nowhere() -> None:
    with pytest.raises(Fault, match="a string at address") as caught:
        body = PRINT.replace("FILL", "").replace("mov.u64 %rd3, format;", "mov.u64 %rd3, 64;")
        run_body(body, block=1, before=EXTERN)
    assert caught.value.kind == "out of bounds"


def test_an_unknown_function() -> None:
    with pytest.raises(PtxSyntaxError, match="a call of cudaMalloc"):
        run_body("call.uni cudaMalloc, (); ret;", np.zeros(1), block=1)
