"""What kernels become, for every architecture: widths, machine instructions, nothing in local memory.

The counts are of PTX; where there is an assembler, its report counts as well: no spill, no advisory C75xx.
"""

import re
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

import tilewright as triton
import tilewright.language as tl
from benchmarks.gpu_cases import kernels_for
from tilewright.compiler import ASTSource, GPUTarget, compile
from tilewright.targets.nvidia.assemble import find_assembler

ARCHITECTURES = (80, 90, 100, 120)
F32, BF16, F16, INT, COUNT = "*fp32", "*bf16", "*fp16", "i32", "i32 by 16"


@triton.jit
def total_of_rows(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(out + i, tl.load(x + tl.program_id(0) * N + i))


@triton.jit
def taken(counter, out):
    tl.store(out + tl.program_id(0), tl.atomic_add(counter, 1))


@triton.jit
def cast(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.float8e4nv))


class Golden(NamedTuple):
    """A kernel for arguments of these types; `must` has least counts of instructions that begin so, `never` none;
    `archs` are those that it is for."""

    kernel: str
    types: tuple
    constants: dict
    must: dict
    never: tuple = ()
    options: dict = {}
    archs: tuple = ARCHITECTURES


PRODUCT = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP": 8}
PLACES = (COUNT, COUNT, COUNT, COUNT, 1, COUNT, 1, COUNT, 1)      # M, N, K and the strides
TABLE = [
    Golden("add", (F32, F32, F32, COUNT), {"BLOCK": 1024}, {"ld.global.nc.v4.b32": 4, "st.global.v4.b32": 2},
           ("bar.sync", "ld.shared", "ld.global.nc.b32")),
    Golden("add", (F32, F32, F32, INT), {"BLOCK": 1024}, {"st.global": 2}, ("bar.sync",)),
    Golden("affine_relu", (F32, F32, F32, F32, COUNT, COUNT), {"BLOCK": 1024},
           {"ld.global.nc.v4.b32": 6, "st.global.v4.b32": 2}, ("bar.sync",)),
    Golden("softmax", (F32, F32, COUNT, COUNT, COUNT), {"BLOCK": 4096},
           {"ld.global.nc.v4.b32": 4, "st.global.v4.b32": 4, "shfl.sync.bfly": 10, "ex2.approx": 16, "bar.sync": 1},
           ("ld.global.nc.b32",), {"num_warps": 8}),
    Golden("softmax", (BF16, BF16, COUNT, COUNT, COUNT), {"BLOCK": 8192}, {"ld.global.nc.v4.b32": 4,
           "st.global.v4.b32": 4, "cvt.rn.bf16x2.f32": 16}, (), {"num_warps": 8}),
    Golden("layer_norm", (F32, F32, F32, F32, COUNT, COUNT, "fp32"), {"BLOCK": 4096},
           {"ld.global.nc.v4.b32": 12, "st.global.v4.b32": 4, "shfl.sync.bfly": 10}, (), {"num_warps": 8}),
    Golden("matmul", (BF16, BF16, BF16, *PLACES), PRODUCT,
           {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": 64, "ldmatrix.sync.aligned.m8n8.x4.shared": 8,
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared": 8, "cp.async.cg.shared.global": 8, "cp.async.commit_group": 2,
            "cp.async.wait_group": 1, "st.global.v4.b32": 16}, ("fma.rn.f32", "wgmma"), {}, (80, 100, 120)),
    Golden("matmul", (BF16, BF16, BF16, *PLACES), PRODUCT,
           {"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16": 4, "wgmma.commit_group": 1, "wgmma.wait_group": 1,
            "fence.proxy.async": 1, "cp.async.cg.shared.global": 8, "cp.async.commit_group": 2,
            "cp.async.wait_group": 1, "st.global.v4.b32": 16}, ("fma.rn.f32", "mma.sync", "ldmatrix"), {}, (90,)),
    Golden("matmul", (F32, F32, F32, *PLACES), {**PRODUCT, "BLOCK_M": 64, "BLOCK_N": 64},
           {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": 16, "cp.async.cg.shared.global": 8},
           ("fma.rn.f32",)),
    Golden("total_of_rows", (F32, F32), {"N": 512},
           {"atom.acq_rel.gpu.global.add.f32": 4, "ld.global.nc.v4.b32": 1}, ("atom.global.cas",)),
    Golden("taken", ("*i32", "*i32"), {}, {"atom.": 1, "bar.sync": 1}, ()),
    Golden("cast", (F32, "*fp8e4nv"), {"N": 1024}, {"cvt.rn.satfinite.e4m3x2.f32": 4, "ld.global.nc.v4.b32": 2}, (), {},
           (90, 100, 120)),
]
OWN = {kernel.__name__: kernel for kernel in (total_of_rows, taken, cast)}
@cache
def kernels():
    return kernels_for("tilewright")


def source(golden):
    fn = OWN.get(golden.kernel) or getattr(kernels(), golden.kernel)
    runtime = [name for name in fn.arg_names if name not in golden.constants]
    given = dict(zip(runtime, golden.types, strict=True))
    by_16 = [["tt.divisibility", 16]]
    return ASTSource(fn, {name: t.partition(" ")[0] for name, t in given.items() if isinstance(t, str)},
                     {**golden.constants, **{name: t for name, t in given.items() if not isinstance(t, str)}},
                     {(fn.arg_names.index(name),): by_16 for name, t in given.items()
                      if isinstance(t, str) and (t.startswith("*") or t == COUNT)})


def instructions(ptx):
    """How often each instruction stands in the text, predicates left out; several may be in braces in one line."""
    ptx = re.sub(r"(?<=[;{]) +", "\n", ptx)
    return Counter(m[1] for m in re.finditer(r"^\s*(?:@!?%?\w+\s+)?([a-z][\w.:]*)[\s;]", ptx, re.MULTILINE))


def blocks_with_local_memory(ptx):
    """The basic blocks that use local memory: but for loops over registers, and the blocks right before and behind."""
    blocks = re.split(r"^\$L__\w+:.*$|\sbra[.\w]*\s.*;$", ptx, flags=re.MULTILINE)
    loops = [k for k, block in enumerate(blocks) if 'pragma "nounroll"' in block]
    return [block for k, block in enumerate(blocks)
            if re.search(r"\b(ld|st)\.local", block) and not any(abs(k - at) <= 1 for at in loops)]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("golden", TABLE, ids=lambda g: f"{g.kernel}-{g.types[0][1:]}-{g.types[-1]}")
def test_instructions(golden, arch):
    if arch not in golden.archs:
        pytest.skip(f"for {golden.archs}")
    kernel = compile(source(golden), GPUTarget("cuda", arch, 32), golden.options)
    found = instructions(kernel.asm["ptx"])
    for name, least in golden.must.items():
        assert sum(n for text, n in found.items() if text.startswith(name)) >= least, (name, found)
    for name in golden.never:
        assert not [text for text in found if text.startswith(name)], name
    assert not blocks_with_local_memory(kernel.asm["ptx"])
    if find_assembler() is not None:
        assert kernel.asm["cubin"].startswith(b"\x7fELF")
        facts = [code.metadata for code in kernel.codes[:1]]
        assert all(f["advisories"] == [] for f in facts)
        assert all(f["spill_bytes"] == 0 for f in facts), facts


def test_local_memory_is_found_outside_of_loops_over_registers():
    loop = '$L__1:\n\t.pragma "nounroll";\n\tst.local.b32 [%r1], %r2;\n\t@%p1 bra \t$L__1;\n'
    behind = "\tld.local.b32 %r1, [%r2];\n"
    assert not blocks_with_local_memory(loop + behind)
    assert blocks_with_local_memory(loop + "$L__2:\n\tret;\n$L__3:\n" + behind) == ["\n" + behind]


def test_the_counter():
    text = ("\t@%p1 ld.global.v4.b32 {%r1};\n  // begin inline asm\n\tmov.b32 \t%r1, 0;\n$L__1:\n\tret;\n"
            " @!p bra.uni $L__1;")
    assert instructions(text) == {"ld.global.v4.b32": 1, "mov.b32": 1, "ret": 1, "bra.uni": 1}
    assert instructions("\t{ .reg .b32 t; neg.f32 t, %r1; @%p1 neg.f32 t, t; ret; }\n") == {"neg.f32": 2, "ret": 1}
