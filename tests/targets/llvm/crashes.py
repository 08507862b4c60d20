"""LLVM texts that end the process of LLVM 20 to 22, each in another way, and one that compiles."""

GOOD = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"
REFUSED = GOOD.replace("add i64", "add i32")

# a call in the form with the alignment on the pointer, next to a declaration in the form with it as an argument
SEGFAULT = """\
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, i32, <4 x i1>, <4 x float>)
define <4 x float> @f(ptr %p, <4 x i1> %m) {
  %y = call <4 x float> @llvm.masked.load.v4f32.p0(ptr align 4 %p, <4 x i1> %m, <4 x float> zeroinitializer)
  ret <4 x float> %y
}
"""

# an intrinsic of another machine
ABORT = """\
declare void @llvm.nvvm.barrier0()
define void @f() {
  call void @llvm.nvvm.barrier0()
  ret void
}
"""

# a constraint that the value does not fit, as in a user's inline assembly
EXIT = """\
define i64 @f(<4 x i64> %x) {
  call void asm sideeffect "nop", "r"(<4 x i64> %x)
  ret i64 0
}
"""
