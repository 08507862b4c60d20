"""Blocks, loops and phis: moves that happen at once, registers that a loop keeps, code that goes down or to the end."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.translate.harness import CPU, FEATURES, both, edges, kernel
from tilewright.targets.nvidia.translate.module import translated

A, B = edges("i32", 31), edges("i32", 32)
GIVEN = {"i32": A, "i32'": B}

FIBONACCI = """%n = and i32 %a, 15
br label %head
head:
%i = phi i32 [ 0, %entry ], [ %j, %body ]
%x = phi i32 [ 0, %entry ], [ %y, %body ]
%y = phi i32 [ 1, %entry ], [ %z, %body ]
%more = icmp ult i32 %i, %n
br i1 %more, label %body, label %exit
body:
%z = add i32 %x, %y
%j = add i32 %i, 1
br label %head
exit:"""

TESTED = """%n = and i32 %a, 15
%first = icmp ult i32 0, %n
br i1 %first, label %body, label %exit
body:
%i = phi i32 [ 0, %entry ], [ %j, %body ]
%x = phi i32 [ %a, %entry ], [ %y, %body ]
%y = phi i32 [ %b, %entry ], [ %z, %body ]
%s = phi i32 [ 3, %entry ], [ %t, %body ]
%z = sub i32 %x, %i
%t = mul i32 %s, 5
%j = add i32 %i, 1
%more = icmp ult i32 %j, %n
br i1 %more, label %body, label %exit
exit:
%r = phi i32 [ %a, %entry ], [ %y, %body ]
%q = phi i32 [ 3, %entry ], [ %t, %body ]
%u = phi i32 [ 0, %entry ], [ %i, %body ]"""

NESTED = """%n = and i32 %a, 3
%m = and i32 %b, 3
br label %outer
outer:
%i = phi i32 [ 0, %entry ], [ %i2, %after ]
%s = phi i32 [ %a, %entry ], [ %s3, %after ]
%t = phi i32 [ %b, %entry ], [ %s, %after ]
br label %inner
inner:
%k = phi i32 [ 0, %outer ], [ %k2, %inner ]
%s1 = phi i32 [ %s, %outer ], [ %s2, %inner ]
%s2 = add i32 %s1, %i
%k2 = add i32 %k, 1
%again = icmp ule i32 %k2, %m
br i1 %again, label %inner, label %choose
choose:
%odd = and i32 %i, 1
%c = icmp ne i32 %odd, 0
br i1 %c, label %then, label %after, !prof !0
then:
%w = xor i32 %s2, %t
br label %after
after:
%s3 = phi i32 [ %s2, %choose ], [ %w, %then ]
%i2 = add i32 %i, 1
%more = icmp ule i32 %i2, %n
br i1 %more, label %outer, label %exit
exit:"""

ONLY_THERE = """%big = mul i32 %a, 77
%sum = add i32 %big, %b
%c = icmp slt i32 %a, %b
%wide = sext i32 %sum to i64
br i1 %c, label %then, label %join, !prof !0
then:
%d = icmp sgt i64 %wide, 5
%e = select i1 %d, i32 %sum, i32 9
br label %join
join:
%r = phi i32 [ %b, %entry ], [ %e, %then ]
%f = phi i1 [ true, %entry ], [ %d, %then ]
%g = select i1 %f, i32 1, i32 2"""

PROF = '!0 = !{!"branch_weights", i32 1, i32 1000000}\n'


@pytest.mark.parametrize("body, results", [
    (FIBONACCI, ("%x", "%y", "%i")), (TESTED, ("%r", "%q", "%u")), (NESTED, ("%s3", "%i2", "%s2")),
    (ONLY_THERE, ("%r", "%g"))], ids=["moves at once", "tested at the end", "nested", "what one branch needs"])
def test_values(body, results):
    both(body, GIVEN, dict.fromkeys(results, "i32"), PROF if "!prof" in body else "")


def test_numbers_of_fibonacci():
    (ours,) = both(FIBONACCI, GIVEN, {"%x": "i32"})
    known = [0, 1]
    while len(known) < 16:
        known.append(known[-1] + known[-2])
    np.testing.assert_array_equal(ours, np.array(known)[A & 15])


def test_conditions_that_are_known():
    body = """br i1 false, label %never, label %always
never:
%x = add i32 %a, 1
br label %always
always:
%r = phi i32 [ %a, %entry ], [ %x, %never ]"""
    both(body, GIVEN, {"%r": "i32"})
    assert "$never" not in translated(kernel(body, ["i32"], {"%r": "i32"}), CPU, FEATURES)


def test_a_loop_carries_in_one_register():
    ptx = translated(kernel(TESTED, ["i32", "i32"], {"%q": "i32"}), CPU, FEATURES)
    loop = ptx[ptx.index("$body:"):ptx.index("$exit:")]
    assert "mul.lo.s32" in loop and "mov.b32" not in loop.split("bra")[0]


def test_what_hardly_ever_runs_comes_last():
    text = kernel(ONLY_THERE, ["i32", "i32"], {"%g": "i32"}, PROF)
    ptx = translated(text, CPU, FEATURES)
    assert ptx.index("$then:") > ptx.index("$join:") and "mul.lo.s32" in ptx[ptx.index("$then:"):]


def test_loops_that_stay_loops():
    marked = TESTED.replace("label %body, label %exit\nexit", "label %body, label %exit, !llvm.loop !0\nexit")
    declared = '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.unroll.disable"}\n'
    ptx = translated(kernel(marked, ["i32", "i32"], {"%q": "i32"}, declared), CPU, FEATURES)
    assert '$body:\n\t.pragma "nounroll";' in ptx
    both(marked, GIVEN, {"%q": "i32"}, declared)
