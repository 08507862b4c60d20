"""What an instruction set can do, as far as emitted text depends on it.

The same LLVM text runs everywhere; these flags choose between forms of which one would become a slow library call on
some machines.  `Isa()` is the least common denominator.  Tests: tests/targets/llvm/test_toolchain.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Isa:
    """`fma`: llvm.fma is an instruction.  `half`: half <-> float conversion is.  `avx512`: F, BW, DQ and VL.
    `round`: llvm.floor, trunc, roundeven are instructions.  `bf16` and `vnni`: AVX-512's
    instructions that sum products of 2 bf16 or 4 bytes in each lane.  `vbmi`: a permutation of bytes.  `narrows_bf16`:
    `fptrunc` to bfloat is an instruction that keeps denormals.  `number_extrema`: llvm.maximumnum and minimumnum are
    instructions.  `tiles`: AMX's products of tiles, of bf16 and of bytes.  `halved`: instructions on 512 bits are done
    in two halves, so that two on 256 bits take as long.  `word_lanes`: lanes of the instruction that sums the products
    of two 16-bit words in each 32-bit lane, where AVX-512 is not used; 0 for none.  `fetches_results`: it pays to ask
    for lines that will be written (measured, `targets/cpu/result_lines.py`).
    """

    fma: bool = False
    half: bool = False
    avx512: bool = False
    round: bool = False
    bf16: bool = False
    vnni: bool = False
    vbmi: bool = False
    narrows_bf16: bool = False
    number_extrema: bool = False
    tiles: bool = False
    halved: bool = False
    word_lanes: int = 0
    fetches_results: bool = False

    @staticmethod
    def of(triple: str, features: str, cpu: str = "") -> Isa:
        """The flags for LLVM's target triple, its feature text (`+avx2,-fma,...`) and its name of the processor."""
        if triple.startswith(("aarch64", "arm64", "nvptx")):
            return Isa(fma=True, half=True, round=True, narrows_bf16=triple.startswith("nvptx"), number_extrema=True)
        on = {f[1:] for f in features.split(",") if f.startswith("+")}
        avx512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= on
        return Isa(fma="fma" in on, half="f16c" in on, round="sse4.1" in on, avx512=avx512,
                   bf16=avx512 and "avx512bf16" in on, vnni=avx512 and "avx512vnni" in on,
                   vbmi=avx512 and "avx512vbmi" in on,
                   tiles=avx512 and {"amx-tile", "amx-bf16", "amx-int8"} <= on, halved=avx512 and cpu == "znver4",
                   word_lanes=0 if avx512 else 8 if "avx2" in on else 4 if triple.startswith("x86_64") else 0,
                   fetches_results=cpu.startswith("znver") and "prfchw" in on)
