"""Kernels in LLVM text, which we and LLVM make PTX of; the PTX machine runs both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.targets.llvm.client import CHILDREN
from tilewright.targets.llvm.machine import ASSEMBLY, Machine, Request
from tilewright.targets.nvidia import ptx
from tilewright.targets.nvidia.target import TRIPLE, NvidiaTarget
from tilewright.targets.nvidia.translate.module import translated

CPU, FEATURES = "sm_90a", "+ptx80"
THREADS = 128
TYPES: Mapping[str, type] = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "float": np.float32,
                             "double": np.float64, "half": np.float16}
_LETTERS = {16: "h", 32: "r", 64: "l"}


def of_llvm(text: str) -> str:
    """LLVM's PTX."""
    machine = Machine(TRIPLE, CPU, FEATURES)
    return CHILDREN.compile(Request(text, machine, ASSEMBLY, *NvidiaTarget.LEVELS), "k").decode()


def bits_of(t: str) -> int:
    return np.dtype(TYPES[t]).itemsize * 8


def kernel(body: str, inputs: Sequence[str], results: Mapping[str, str], declared: str = "") -> str:
    """A kernel of 128 threads: `body` computes with %a, %b, ... of the types `inputs`, one element a thread, and each
    of `results`, a value and its type, is stored."""
    lines = ["  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()", "  %place = zext i32 %tid to i64"]
    for k, t in enumerate(inputs):
        name, bits = "abcdefgh"[k], bits_of(t)
        wide = max(bits, 16)
        lines += [f"  %p{name} = inttoptr i64 %p{k} to ptr",
                  f"  %q{name} = getelementptr i{bits}, ptr %p{name}, i64 %place",
                  f'  %w{name} = call i{wide} asm sideeffect "ld.global.b{bits} $0, [$1];", "={_LETTERS[wide]},l,'
                  f'~{{memory}}"(ptr %q{name}) nounwind']
        lines.append(f"  %{name} = trunc i16 %w{name} to i8" if bits == 8 else
                     f"  %{name} = bitcast i{wide} %w{name} to {t}" if t in ("float", "double", "half") else
                     f"  %{name} = add i{wide} %w{name}, 0")
    lines += [f"  {line}" if not line.endswith(":") else line for line in body.strip().split("\n")]
    for k, (value, t) in enumerate(results.items()):
        bits = 8 if t == "i1" else bits_of(t)
        wide = max(bits, 16)
        lines.append(f"  %o{k} = zext {t} {value} to i16" if bits == 8 else
                     f"  %o{k} = bitcast {t} {value} to i{wide}" if t in ("float", "double", "half") else
                     f"  %o{k} = add i{wide} {value}, 0")
        lines += [f"  %po{k} = inttoptr i64 %p{len(inputs) + k} to ptr",
                  f"  %qo{k} = getelementptr i{bits}, ptr %po{k}, i64 %place",
                  f'  call void asm sideeffect "st.global.b{bits} [$0], $1;", "l,{_LETTERS[wide]},~{{memory}}"'
                  f"(ptr %qo{k}, i{wide} %o{k}) nounwind"]
    parameters = ", ".join(f"i64 %p{k}" for k in range(len(inputs) + len(results)))
    return (f'define ptx_kernel void @k({parameters}) nounwind "nvvm.reqntid"="{THREADS}" "nvvm.minctasm"="1" {{\n'
            "entry:\n" + "\n".join(lines) + "\n  ret void\n}\n"
            f"declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n{declared}")


def outcome(text: str, given: Sequence[np.ndarray], results: Mapping[str, str]) -> list[np.ndarray]:
    """What a kernel's PTX gives for the arrays."""
    outs = [np.zeros(THREADS, np.uint8 if t == "i1" else TYPES[t]) for t in results.values()]
    ptx.run(text, "k", (1,), THREADS, [*(np.ascontiguousarray(g) for g in given), *outs])
    return outs


def both(body: str, given: Mapping[str, np.ndarray], results: Mapping[str, str],
         declared: str = "") -> list[np.ndarray]:
    """What our PTX gives, which is what LLVM's gives, bit by bit but for what a NaN says; `given` is type: array,
    the type with a number behind it where it is there twice."""
    types = [t.rstrip("'") for t in given]
    text = kernel(body, types, results, declared)
    ours = outcome(translated(text, CPU, FEATURES), list(given.values()), results)
    theirs = outcome(of_llvm(text), list(given.values()), results)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other, err_msg=body)
        if mine.dtype.kind == "f":
            assert np.array_equal(np.signbit(mine)[~np.isnan(mine)], np.signbit(other)[~np.isnan(other)]), body
    return ours


def edges(t: str, seed: int) -> np.ndarray:
    """Numbers that matter, in every order, and others."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(TYPES[t])
    if dtype.kind == "f":
        few = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 65504.0, 1e-7, 3.0], dtype)
        many = rng.standard_normal(THREADS).astype(dtype) * 100
    else:
        info = np.iinfo(dtype)
        few = np.array([0, 1, 2, 3, 7, -1, -2, info.min, info.max, info.min + 1, info.max // 3], dtype)
        many = rng.integers(info.min, info.max, THREADS, dtype, endpoint=True)
    return np.where(rng.random(THREADS) < 0.6, rng.choice(few, THREADS), many).astype(dtype)
