"""The overflow check of `+ - *` on integers, under the options `debug` and `sanitize_overflow` (semantics §2).

The operation is repeated in int64 and the result compared with the type's limits by a device assert.  64-bit
operands are not checked, as in triton.  Tests: tests/lang/test_debug.py.
"""

from __future__ import annotations

from tilewright.language.builder import Builder
from tilewright.language.casting import cast
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, int1, int64
from tilewright.language.values import emit, full_of, shape, with_dtype


def check_overflow(builder: Builder, op: str, a: tensor, b: tensor) -> None:
    """Assert that `a op b` (add, sub, mul of one integer type) fits the type."""
    element = a.dtype
    assert isinstance(element, dtype)
    if element.int_bitwidth >= 64 or element == int1:
        return
    wide = emit(builder, op, (cast(builder, a, int64), cast(builder, b, int64)), with_dtype(a, int64))
    flag = with_dtype(a, int1)
    # two uint32 multiply to at most 2**64: seen as signed, an overflow of int64 is negative, so below the minimum
    low = full_of(builder, element.get_int_min_value(), int64, shape(a))
    high = full_of(builder, element.get_int_max_value(), int64, shape(a))
    inside = emit(builder, "and", (emit(builder, "cmp_ge_s", (wide, low), flag),
                                   emit(builder, "cmp_le_s", (wide, high), flag)), flag)
    builder.emit("device_assert", [inside.handle], {"message": f"{element} overflow detected for operation {op}"})
