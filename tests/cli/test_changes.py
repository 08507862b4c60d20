"""What `tilewright cache explain` says of two keys: words, and no hashes."""

from __future__ import annotations

import pytest

from tilewright.cli.changes import changes

COMPILER = "tilewright 0.1.0 " + "0a" * 32 + " cpython-311 llvmlite version_version = '0.47.0'"
CPU = "cpu-2 x86_64-unknown-linux-gnu znver4 +64bit,+adx,-amx,+zu llvm-22.1.0"
GPU = "nvidia-1 nvptx64-nvidia-cuda sm_90a +ptx80 llvm-22.1.0 ptxas 377 179"


@pytest.mark.parametrize("label, old, new, lines", [
    ("argument n", "i32", "i32 divisible by 16", ["argument n: was any i32, is a multiple of 16, as i32"]),
    ("argument x", "*fp32", "*kfp16 divisible by 16",
     ["argument x: was a pointer to fp32 at any address, is a pointer to kfp16 at a multiple of 16 bytes"]),
    ("argument N", "= 8", "= 16", ["argument N: was the compile-time value 8, is the compile-time value 16"]),
    ("argument t", "(i32) None", "(i64) None", ["argument t: was (i32) None, is (i64) None"]),
    ("option num_warps", "4", "8", ["option num_warps: was 4, is 8"]),
    ("SCALE in f", "2", "3", ["SCALE, which f reads: was 2, is 3"]),
    ("launch facts", "disjoint=True wide=False", "disjoint=False wide=True",
     ["at the launch: a tensor that is written overlaps another one",
      "at the launch: a tensor has 2**30 elements or more"]),
    ("launch facts", "disjoint=False wide=True", "disjoint=True wide=False",
     ["at the launch: no tensor that is written overlaps another one",
      "at the launch: all tensors have less than 2**30 elements"]),
    ("compiler", COMPILER, COMPILER.replace("0a0a", "0b0b"),
     ["Tilewright's own source files are others, of the same version 0.1.0"]),
    ("compiler", COMPILER, COMPILER.replace("0a0a", "0b0b").replace("0.1.0", "0.2.0").replace("311", "312"),
     ["version of Tilewright: was 0.1.0, is 0.2.0", "version of Python: was cpython-311, is cpython-312"]),
    ("compiler", "of before", COMPILER.replace("0a", "0b"), None),
    ("target", CPU, CPU.replace("znver4", "x86-64-v3"), ["processor: was znver4, is x86-64-v3"]),
    ("target", CPU, CPU.replace("+adx,-amx", "-adx,+amx"), ["instructions: no longer adx; now also amx"]),
    ("target", CPU, CPU.replace("22.1", "23.1"), ["LLVM: was llvm-22.1.0, is llvm-23.1.0"]),
    ("target", GPU, GPU.replace("377", "378"), ["the assembler for GPUs is another file, or has other options"]),
    ("target", GPU, GPU.replace("sm_90a", "sm_80"), ["processor: was sm_90a, is sm_80"]),
    ("inspection of stages", "0a" * 32, "0b" * 32, ["inspection of stages: is another"]),
    ("source", "def f(x):\n    y = 1\n", "def f(x):\n    y = 2\n", ["source:", "  -     y = 1", "  +     y = 2"]),
    ("K in f", None, "3", ["K, which f reads: is new: 3"]),
    ("K in f", "3", None, ["K, which f reads: was 3, and is no more"]),
])
def test_words(label, old, new, lines):
    before, after = ({} if text is None else {label: text} for text in (old, new))
    told = list(changes(before, after))
    if lines is not None:
        assert sorted(told) == sorted(lines)
    assert told and not any("0a0a" in line or "0b0b" in line for line in told)
    assert list(changes(after, after)) == []
