"""Instructions of PTX that assemblers get wrong, written in another way.

ptxas and nvJitLink of CUDA 13.0 take `neg.s16` and `abs.s16` for operations that cannot overflow: of -32768 they give
+32768 in a register of 32 bits, and what follows (a comparison, a shift, a conversion) sees that; nvJitLink 13.5 does
not (SASS of both, and three of 2,000 random kernels on an H200, 2026-11-30).  In 32 bits, cut to 16, all are right.
ptxas and nvJitLink of CUDA 13.0 also lose the place of a high half that `mov.b32 {_, %h}, %r` takes out of a register
and `selp.b16` chooses: the low half is chosen (one of 2,000 random kernels, same day; its SASS selects the register
itself), and where `cvt.u32.u16` made the register: the number that was widened comes back, not zero (SASS of two lines
of PTX, for 8.0 to 12.0, 2026-12-01).  A shift takes the half out in two instructions, so only such halves are taken out
that way.
ptxas 13.0 does the same to the high word that `mov.b64 {_, %r}, %rd` takes out of a product in a loop: where it moves
what does not change out of the loop, it multiplies by the factor that is left as if the low word were meant
(`umulhi(pid, x) * 3`; one of 600 random kernels on an H200, 2026-12-01).  With a shift its code is right, and as long.
ptxas 13.0 also joins `max.s32` (or min) of a `max.s32` into one VIMNMX3, on 9.0 and 10.0, and forgets that the second
number of the inner one was negated: `max(a, max(b, -c))` is max(a, b, c) (one of 2,000 random kernels on an H200,
2026-12-01; its SASS, and that of three lines of PTX).  However a negation is written (neg, 0 - c, c * -1), ptxas sees
one; `not` and an addition it leaves as they are, and joins the addition with the maximum.
ptxas 13.0 loses `and.b16` with a constant where both are so: the number comes from a conversion of float32, which it
makes of two at a time (F2FP), and goes into the low half of `mov.b32 {%l, %h}`: abs of two float16 numbers clears the
sign of the second alone (one of 500 random kernels on an H200, 2026-12-01; SASS of four lines of PTX for 9.0).
`cvt.u16.u8` and `cvt.u32.u8`, which are such an `and`, and `cvt.u32.u16` before one are lost in the same way; of
numbers of other origin none is.  What is widened with its sign first is masked.
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
_WIDENED = re.compile(r"\bcvt\.u32\.u16\s+(%\w+),")

_NEGATED = re.compile(r"(@!?%\w+\s+)?\b(?:neg\.s32\s+(%\w+), (%\w+)|sub\.[su]32\s+(%\w+), 0, (%\w+)"
                      r"|mul\.lo\.[su]32\s+(%\w+), (%\w+), -1);")

# Conversions of float32 whose results share a register; what copies them; and what masks them.
_PACKED = re.compile(r"\bcvt\.[\w.]*\.(?:b?f16|e4m3x2|e5m2x2)\.f32\s+(%\w+),")
_COPIED = re.compile(r"\bmov\.b16\s+(%\w+), (%\w+);")
_MASKED = re.compile(r"\band\.b16\s+(%\w+), (%\w+), (-?\d+);|\bcvt\.[us]16\.u8\s+(%\w+), (%\w+);"
                     r"|\bcvt\.([us]32\.u8|u32\.u16)\s+(%\w+), (%\w+);")
_MASKS = ("and.b16", "16.u8", "32.u8", "cvt.u32.u16")      # words in whatever that finds


def _masks_of_packed(ptx: str) -> str:
    """`ptx` with masks of what was packed written in another way."""
    packed = set(_PACKED.findall(ptx))
    copies = _COPIED.findall(ptx)
    while more := {to for to, source in copies if source in packed} - packed:
        packed |= more

    def masked(found: re.Match[str]) -> str:
        half, of_half, number, byte, of_byte, types, word, of_word = found.groups()
        if not {of_half, of_byte, of_word} & packed:
            return found[0]
        if word:
            return f"cvt.s32.s16 {word}, {of_word}; and.b32 {word}, {word}, {255 if types.endswith('8') else 65535};"
        return (f"{{ .reg .b32 wide; cvt.s32.s16 wide, {of_half or of_byte}; and.b32 wide, wide, {number or 255}; "
                f"cvt.u16.u32 {half or byte}, wide; }}")

    return _MASKED.sub(masked, ptx)


def _inverted(found: re.Match[str]) -> str:
    """~c + 1."""
    predicate, *pairs = found.groups()
    to, source = filter(None, pairs)
    predicate = predicate or ""
    return f"{predicate}not.b32 {to}, {source}; {predicate}add.s32 {to}, {to}, 1;"


def _high_parts(ptx: str) -> str:
    """`ptx` with high words, and high halves that are chosen or of what was widened, shifted out."""
    ptx = _HIGH_WORD.sub(_SHIFTED, ptx)
    chosen = {register for pair in _CHOSEN.findall(ptx) for register in pair} if "selp.b16" in ptx else set()
    widened = set(_WIDENED.findall(ptx)) if "cvt.u32.u16" in ptx else set()
    if not chosen and not widened:
        return ptx

    def taken_out(found: re.Match[str]) -> str:
        half, word = found.groups()
        if half not in chosen and word not in widened:
            return found[0]
        return f"{{ .reg .b32 high; shr.u32 high, {word}, 16; cvt.u16.u32 {half}, high; }}"

    return _HIGH_HALF.sub(taken_out, ptx)


def repaired(ptx: str) -> str:
    """The text to assemble, and to show."""
    if "neg.s16" in ptx or "abs.s16" in ptx:        # looking for a word takes a hundredth of what a pattern does
        ptx = _OVERFLOWS.sub(_IN_32_BITS, ptx)
    if "max.s32" in ptx or "min.s32" in ptx:
        ptx = _NEGATED.sub(_inverted, ptx)
    if "{_, " in ptx:
        ptx = _high_parts(ptx)
    if "{%" in ptx and any(word in ptx for word in _MASKS):
        ptx = _masks_of_packed(ptx)     # behind the others: it takes away what they look for
    return ptx
