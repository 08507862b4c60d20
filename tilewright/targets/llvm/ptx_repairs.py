"""Instructions of PTX that assemblers get wrong, written in another way.

ptxas and nvJitLink of CUDA 13.0 take `neg.s16` and `abs.s16` for operations that cannot overflow: of -32768 they give
+32768 in a register of 32 bits, and what follows (a comparison, a shift, a conversion) sees that; nvJitLink 13.5 does
not (SASS of both, and three of 2,000 random kernels on an H200, 2026-11-30).  In 32 bits, cut to 16, all are right.
Before: PTX from LLVM.  After: PTX of the same meaning.  Tests: tests/targets/llvm/test_ptx_repairs.py.
"""

from __future__ import annotations

import re

_OVERFLOWS = re.compile(r"\b(neg|abs)\.s16\s+(%\w+), (%\w+);")
_IN_32_BITS = r"{ .reg .b32 wide; cvt.s32.s16 wide, \3; \1.s32 wide, wide; cvt.u16.u32 \2, wide; }"


def repaired(ptx: str) -> str:
    """The text to assemble, and to show."""
    return _OVERFLOWS.sub(_IN_32_BITS, ptx)
