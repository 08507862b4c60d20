"""How often a counted loop runs, for the code generators of all targets.

Loops count iterations from 0, so that no bound or step makes the index wrap into another one (`ir.ops.control`).
Bounds are i64 here, numbers or vectors of a number for each lane.  Tests: tests/conform/test_control.py,
tests/lang/test_values_control_flow.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import I32, I64, Value, constant, integer_value, zero

Divide = Callable[[Value, Value], Value]


def loop_bound(code: FunctionWriter, bound: Value, unsigned: bool) -> Value:
    """A bound, i32 or i64 or narrower, as i64."""
    wide = bound.type.of("i64")
    if bound.type == wide:
        return bound
    known = integer_value(bound)
    if known is not None:
        return constant(wide, known % (1 << bound.type.bits) if unsigned else known)
    return code.cast("zext" if unsigned else "sext", bound, wide)


def trip_count(code: FunctionWriter, lower: Value, upper: Value, step: Value, *, narrow: bool = False,
               divide: Divide | None = None) -> Value:
    """How many iterations: ceil((upper - lower) / step), 0 if that is negative or the step is 0.

    `narrow` says that all three are numbers of 32 bits, so that no division of 64 bits is needed; `divide` is the
    unsigned division of vectors, for those.
    """
    none, one = zero(lower.type), constant(lower.type, 1)
    known, ends = integer_value(step), (integer_value(lower), integer_value(upper))
    if known == 0:
        return none
    if known is not None and ends[0] is not None and ends[1] is not None:
        return constant(lower.type, len(range(ends[0], ends[1], known)))
    divide = divide or (lambda a, b: code.op("udiv", a, b))
    if known is not None:
        low, high = (lower, upper) if known > 0 else (upper, lower)
        last, size, runs = code.op("sub", code.op("sub", high, low), one), abs(known), code.icmp("slt", low, high)
        return code.select(runs, code.op("add", divide(last, constant(lower.type, size)), one), none)
    forward = code.icmp("sgt", step, none)
    distance = code.select(forward, code.op("sub", upper, lower), code.op("sub", lower, upper))
    size_of = code.select(forward, step, code.op("sub", none, step))
    runs = code.select(forward, code.icmp("slt", lower, upper), code.icmp("sgt", lower, upper))
    runs = code.op("and", runs, code.icmp("ne", step, none))
    divisor = code.select(code.icmp("eq", size_of, none), one, size_of)
    last = code.op("sub", distance, one)
    if narrow:      # both are below 2**32 where it runs
        quotient = code.cast("zext", code.op("udiv", code.cast("trunc", last, I32), code.cast("trunc", divisor, I32)),
                             I64)
    else:
        quotient = divide(last, divisor)
    return code.select(runs, code.op("add", quotient, one), none)
