"""Instructions of PTX that assemblers get wrong, written in another way.

ptxas and nvJitLink of CUDA 13.0 take `neg.s16` and `abs.s16` for operations that cannot overflow: of -32768 they give
+32768 in a register of 32 bits, and what follows (a comparison, a shift, a conversion) sees that; nvJitLink 13.5 does
not (SASS of both, and three of 2,000 random kernels on an H200, 2026-11-30).  In 32 bits, cut to 16, all are right.
ptxas and nvJitLink of CUDA 13.0 also lose the place of a high half that `mov.b32 {_, %h}, %r` takes out of a register
and `selp.b16` chooses: the low half is chosen (one of 2,000 random kernels, same day; its SASS selects the register
itself).  A shift takes the half out in two instructions, so only halves that are chosen are taken out that way.
ptxas 13.0 does the same to the high word that `mov.b64 {_, %r}, %rd` takes out of a product in a loop: where it moves
what does not change out of the loop, it multiplies by the factor that is left as if the low word were meant
(`umulhi(pid, x) * 3`; one of 600 random kernels on an H200, 2026-12-01).  With a shift its code is right, and as long.
Before: PTX, LLVM's or ours.  After: PTX of the same meaning.  Tests: tests/targets/llvm/test_ptx_repairs.py.
"""

from __future__ import annotations

import re

_OVERFLOWS = re.compile(r"\b(neg|abs)\.s16\s+(%\w+), (%\w+);")
_IN_32_BITS = r"{ .reg .b32 wide; cvt.s32.s16 wide, \3; \1.s32 wide, wide; cvt.u16.u32 \2, wide; }"

_HIGH_WORD = re.compile(r"\bmov\.b64\s+\{_, (%\w+)\}, (%\w+);")
_SHIFTED = r"{ .reg .b64 high; shr.u64 high, \2, 32; cvt.u32.u64 \1, high; }"

_HIGH_HALF = re.compile(r"\bmov\.b32\s+\{_, (%\w+)\}, (%\w+);")
_CHOSEN = re.compile(r"\bselp\.b16\s+%\w+, (%\w+), (%\w+),")


def repaired(ptx: str) -> str:
    """The text to assemble, and to show."""
    if "neg.s16" in ptx or "abs.s16" in ptx:        # looking for a word takes a hundredth of what a pattern does
        ptx = _OVERFLOWS.sub(_IN_32_BITS, ptx)
    if "{_, " not in ptx:
        return ptx
    ptx = _HIGH_WORD.sub(_SHIFTED, ptx)
    if "selp.b16" not in ptx:
        return ptx
    chosen = {register for pair in _CHOSEN.findall(ptx) for register in pair}

    def taken_out(found: re.Match[str]) -> str:
        half, word = found.groups()
        if half not in chosen:
            return found[0]
        return f"{{ .reg .b32 high; shr.u32 high, {word}, 16; cvt.u16.u32 {half}, high; }}"

    return _HIGH_HALF.sub(taken_out, ptx)
