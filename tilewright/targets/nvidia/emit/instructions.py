"""The machine instructions that code generation may write: one table.

A row says what an instruction is called here, the PTX opcode that it becomes, where the PTX ISA describes it, and how
it is written: as an intrinsic of LLVM, or as a line of inline assembly.  In a line, `{out}` stands for the results,
`{0}`, `{1}` for operands, other names for the modifiers that the caller chooses.  A line in braces is several
instructions, which LLVM sees as one: each of its own costs it some 20 microseconds.  `pure` instructions may be moved
and shared by LLVM; `convergent` ones may not be made dependent on more or fewer conditions.

The PTX machine executes the emitted text; a test holds this table to the opcodes that it knows.
Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row; exactly one of `intrinsic` and `text` is given.  `early`: the result is written before all operands are
    read."""

    name: str
    opcode: str
    section: str
    intrinsic: str | None = None
    text: str | None = None
    pure: bool = False
    convergent: bool = False
    early: bool = False


_ROWS = (
    Instruction("tid", "mov", "10.1 %tid", intrinsic="llvm.nvvm.read.ptx.sreg.tid.x", pure=True),
    *(Instruction(f"ctaid.{a}", "mov", "10.6 %ctaid", intrinsic=f"llvm.nvvm.read.ptx.sreg.ctaid.{a}", pure=True)
      for a in "xyz"),
    *(Instruction(f"nctaid.{a}", "mov", "10.7 %nctaid", intrinsic=f"llvm.nvvm.read.ptx.sreg.nctaid.{a}", pure=True)
      for a in "xyz"),
    Instruction("barrier", "bar.sync", "9.7.13.1 bar", intrinsic="llvm.nvvm.barrier.cta.sync.aligned.all",
                convergent=True),
    Instruction("warp_barrier", "bar.warp.sync", "9.7.13.2 bar.warp.sync", intrinsic="llvm.nvvm.bar.warp.sync",
                convergent=True),
    Instruction("barrier_and", "bar.red.and.pred", "9.7.13.1 bar",
                intrinsic="llvm.nvvm.barrier.cta.red.and.aligned.all", convergent=True),
    Instruction("shuffle_xor", "shfl.sync.bfly", "9.7.9.6 shfl.sync", intrinsic="llvm.nvvm.shfl.sync.bfly.i32",
                convergent=True),
    Instruction("shuffle_up", "shfl.sync.up", "9.7.9.6 shfl.sync", intrinsic="llvm.nvvm.shfl.sync.up.i32",
                convergent=True),
    Instruction("shuffle_down", "shfl.sync.down", "9.7.9.6 shfl.sync", intrinsic="llvm.nvvm.shfl.sync.down.i32",
                convergent=True),
    Instruction("shuffle_from", "shfl.sync.idx", "9.7.9.6 shfl.sync", intrinsic="llvm.nvvm.shfl.sync.idx.i32",
                convergent=True),
    Instruction("vote_all", "vote.sync.all.pred", "9.7.9.11 vote.sync", intrinsic="llvm.nvvm.vote.all.sync",
                convergent=True),
    Instruction("vprintf", "call", "9.7.12.5 call", intrinsic="vprintf"),
    Instruction("ld", "ld", "9.7.9.8 ld", text="ld{how}{space}{hints}{vector}.{kind} {out}, [{0}];"),
    Instruction("ld.nc", "ld.global.nc", "9.7.9.9 ld.global.nc",
                text="ld.global{hints}.nc{vector}.{kind} {out}, [{0}];", pure=True),
    Instruction("ld.nc.here", "ld.global.nc", "9.7.9.9 ld.global.nc",     # where it stands, not where it is needed
                text="ld.global{hints}.nc{vector}.{kind} {out}, [{0}];"),
    Instruction("st", "st", "9.7.9.11 st", text="st{space}{hints}{vector}.{kind} [{0}], {values};"),
    Instruction("mma", "mma.sync", "9.7.14.5.14 mma", text="mma.sync.aligned.{shape}.row.col.{d}.{a}.{a}.{d} {list0}, "
                "{group0}, {group1}, {group2};", pure=True, convergent=True),
    Instruction("wgmma", "wgmma.mma_async", "9.7.15.5 wgmma.mma_async", convergent=True, text=(
        "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{d}.{a}.{a} {0}, {1}, {2}, {3}, 1, 1{majors};")),
    Instruction("wgmma.fence", "wgmma.fence", "9.7.15.7.1 wgmma.fence", text="wgmma.fence.sync.aligned;",
                convergent=True),
    Instruction("wgmma.commit", "wgmma.commit_group", "9.7.15.7.2 wgmma.commit_group",
                text="wgmma.commit_group.sync.aligned;", convergent=True),
    Instruction("wgmma.wait", "wgmma.wait_group", "9.7.15.7.3 wgmma.wait_group",
                text="wgmma.wait_group.sync.aligned {count};", convergent=True),
    Instruction("descriptor.add", "add", "9.7.1.1 add", text="add.s64 {out}, {0}, {by};", pure=True),
    Instruction("flag.set", "setp", "9.7.6.2 setp", text="setp.{how}.b32 {out}, 0, 0;", pure=True),
    Instruction("cp.async", "cp.async", "9.7.9.25.3.1 cp.async",
                text="cp.async.{cache}.shared.global [{0}], [{1}], {size}, {2};"),
    Instruction("cp.async.commit", "cp.async.commit_group", "9.7.9.25.3.2 cp.async.commit_group",
                text="cp.async.commit_group;"),
    Instruction("cp.async.wait", "cp.async.wait_group", "9.7.9.25.3.3 cp.async.wait_group",
                text="cp.async.wait_group {count};"),
    Instruction("mbarrier.init", "mbarrier.init", "9.7.13.15.9 mbarrier.init",
                text="mbarrier.init.shared::cta.b64 [{0}], 1;"),
    Instruction("fence.mbarrier_init", "fence.mbarrier_init", "9.7.13.4 fence",
                text="fence.mbarrier_init.release.cluster;"),
    Instruction("mbarrier.expect", "mbarrier.expect_tx", "9.7.13.15.11 mbarrier.expect_tx",
                text="mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{0}], {1};"),
    Instruction("mbarrier.arrive", "mbarrier.arrive", "9.7.13.15.13 mbarrier.arrive",
                text="mbarrier.arrive.shared::cta.b64 _, [{0}];"),
    Instruction("mbarrier.wait", "mbarrier.try_wait", "9.7.13.15.16 mbarrier.try_wait",
                text="mbarrier.try_wait.parity.shared::cta.b64 {out}, [{0}], {1};", convergent=True),
    Instruction("tensor.load", "cp.async.bulk.tensor", "9.7.9.25.5.2 cp.async.bulk.tensor",
                text="cp.async.bulk.tensor.{rank}d.{space}.global.tile.mbarrier::complete_tx::bytes [{0}], "
                "[{1}, {group1}], [{2}];"),
    Instruction("tensor.store", "cp.async.bulk.tensor", "9.7.9.25.5.2 cp.async.bulk.tensor",
                text="cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [{0}, {group1}], [{1}];"),
    Instruction("bulk.commit", "cp.async.bulk.commit_group", "9.7.9.25.4.4 cp.async.bulk.commit_group",
                text="cp.async.bulk.commit_group;"),
    Instruction("bulk.wait", "cp.async.bulk.wait_group", "9.7.9.25.4.5 cp.async.bulk.wait_group",
                text="cp.async.bulk.wait_group{read} 0;"),
    Instruction("fence.proxy.async", "fence.proxy.async", "9.7.13.4 fence", text="fence.proxy.async{space};"),
    Instruction("opaque", "mov", "9.7.9.1 mov", text="mov.b32 {out}, {0};"),
    Instruction("shuffle_xor.bits", "shfl.sync.bfly", "9.7.9.6 shfl.sync",
                text="shfl.sync.bfly.b32 {out}, {0}, {lane}, 31, -1;", convergent=True),
    # what the lane so many places before has, combined with one's own, where there is such a lane
    *(Instruction(f"shuffle_{row}", "shfl.sync", "9.7.9.6 shfl.sync", convergent=True, early=True, text=(
        f"{{{{ .reg .pred p; shfl.sync.{{way}}.b32 {{out}}|p, {{0}}, {{lane}}, {{end}}, -1; "
        f"@p {what} {{out}}, {{out}}, {{0}}; }}}}"))
      for row, what in (("add_f", "add.rn.f32"), ("max_f", "max.f32"), ("min_f", "min.f32"),
                        ("max_nan_f", "max.NaN.f32"), ("min_nan_f", "min.NaN.f32"), ("add", "add.s32"))),
    Instruction("add_f", "add", "9.7.3.3 add", text="add.rn.f32 {out}, {0}, {1};", pure=True),
    Instruction("exp", "ex2.approx", "9.7.3.20 ex2", pure=True, text=(
        "{{ .reg .b32 n, f; fma.rn.sat.f32 n, {0}, {scale}, {half}; fma.rm.f32 n, n, {steps}, {counter}; "
        "sub.rn.f32 f, {origin}, n; shl.b32 n, n, 23; fma.rn.f32 f, {0}, {high}, f; fma.rn.f32 f, {0}, {low}, f; "
        "ex2.approx.ftz.f32 f, f; mul.rn.f32 {out}, f, n; }}")),
    Instruction("exp2", "ex2.approx", "9.7.3.20 ex2", pure=True, text="ex2.approx.ftz.f32 {out}, {0};"),
    Instruction("scaled", "mul", "9.7.3.5 mul", pure=True, early=True,
                text="mul.rn.f32 {out}, {0}, {1}; @{2} mul.rn.f32 {out}, {out}, {3};"),
    *(Instruction(name, "max" if name.startswith("max") else "min", "9.7.3.12 max", pure=True,
                  text=f"{name.removesuffix('_f').replace('_nan', '.NaN')}.f32 {{out}}, {{0}}, {{1}};")
      for name in ("max_f", "min_f", "max_nan_f", "min_nan_f")),
    *(Instruction(f"{row}_f.{kind}x2", what, "9.7.4.8 max", pure=True, text=f"{form}.{kind}x2 {{out}}, {{0}}, {{1}};")
      for row, what, form in (("max", "max", "max"), ("min", "min", "min"), ("max_nan", "max", "max.NaN"),
                              ("min_nan", "min", "min.NaN"))
      for kind in ("bf16", "f16")),
    *(Instruction(f"div.{kind}", "div", "9.7.1.8 div", text=f"div.{kind} {{out}}, {{0}}, {{1}};", pure=True)
      for kind in ("s32", "u32", "s64", "u64")),
    Instruction("div.full", "div.full", "9.7.3.8 div", text="div.full.f32 {out}, {0}, {1};", pure=True),
    Instruction("copysign", "copysign", "9.7.3.2 copysign", text="copysign.f32 {out}, {0}, {1};", pure=True),
    Instruction("rcp", "rcp.approx", "9.7.3.13 rcp", text="rcp.approx.ftz.f32 {out}, {0};", pure=True),
    Instruction("sqrt", "sqrt.approx", "9.7.3.15 sqrt", text="sqrt.approx.f32 {out}, {0};", pure=True),
    Instruction("rsqrt", "rsqrt.approx", "9.7.3.17 rsqrt", text="rsqrt.approx.f32 {out}, {0};", pure=True),
    *(Instruction(f"cvt.{name}", "cvt", "9.7.9.21 cvt", pure=True,
                  text=f"cvt.rn.satfinite.{kind}x2.f32 {{out}}, {{0}}, {{1}};")
      for name, kind in (("f8e4m3", "e4m3"), ("f8e5m2", "e5m2"))),
    *(Instruction(f"cvt.from.{name}", "cvt", "9.7.9.21 cvt", text=f"cvt.rn.f16x2.{kind}x2 {{out}}, {{0}};", pure=True)
      for name, kind in (("f8e4m3", "e4m3"), ("f8e5m2", "e5m2"))),
    Instruction("cvt.tf32", "cvt", "9.7.9.21 cvt", text="cvt.rna.tf32.f32 {out}, {0};", pure=True),
    *(Instruction(f"cvt.{name}x2", "cvt", "9.7.9.21 cvt", text=f"cvt.rn.{name}x2.f32 {{out}}, {{0}}, {{1}};", pure=True)
      for name in ("bf16", "f16")),
    Instruction("cvt.bf16", "cvt", "9.7.9.21 cvt", text="cvt.rn.bf16.f32 {out}, {0};", pure=True),
    Instruction("ldmatrix", "ldmatrix", "9.7.14.5.15 ldmatrix",
                text="ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {list0}, [{0}];", convergent=True),
    Instruction("stmatrix", "stmatrix", "9.7.14.5.16 stmatrix",
                text="stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [{0}], {list1};", convergent=True),
    Instruction("atom", "atom", "9.7.13.5 atom", text="atom{how}.global.{what}.{kind} {out}, [{0}], {1};"),
    Instruction("atom.cas", "atom", "9.7.13.5 atom", text="atom{how}.global.cas.{kind} {out}, [{0}], {1}, {2};"),
    Instruction("red.shared", "red", "9.7.13.6 red", text="red.shared.add.u32 [{0}], {1};"),
    Instruction("fence", "fence", "9.7.13.4 fence", text="fence{how};"),
)

INSTRUCTIONS: Mapping[str, Instruction] = {row.name: row for row in _ROWS}
