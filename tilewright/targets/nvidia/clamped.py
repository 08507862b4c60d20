"""A 64-bit difference of 32-bit numbers, limited to 0 .. n: in 32 bits.

    before                                      after
    d = sub (ext_s a), (ext_s b) : i64          r = select a > b, min_u (a - b), n, 0 : i32
    r = trunc (min_s (max_s d, 0), n)

That is how far a block reaches into an array (`language.blocks`), in 64 bits since the difference may need 33; as it
counts only where it is positive, 32 without a sign hold it.  4 instructions instead of 10, for both ends of each
dimension of each block.  The 64-bit numbers are left out where nothing else needs them (`translate`).
Tests: tests/targets/nvidia/test_clamped.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.analysis.ranges import whole
from tilewright.ir.node import Op, Value
from tilewright.ir.types import I32 as INT
from tilewright.ir.types import I64 as LONG
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.state import Kernel


def clamped_difference(kernel: Kernel, op: Op) -> LlvmValue | None:
    """The result of a scalar `trunc` that is a limited difference; None if it is none."""
    if op.name != "trunc" or op.result.type != INT or op.operands[0].type != LONG:
        return None
    limited = _with_constant(kernel.ops, op.operands[0], "min_s", lambda n: 0 <= n <= whole(INT).high)
    positive = None if limited is None else _with_constant(kernel.ops, limited[0], "max_s", lambda n: n == 0)
    difference = None if positive is None else kernel.ops.get(positive[0])
    if limited is None or difference is None or difference.name != "sub":
        return None
    if not all(kernel.axis.ranges.fact(v).within(whole(INT)) for v in difference.operands):
        return None
    code = kernel.code
    a, b = (code.cast("trunc", kernel.scalar(v), I32) for v in difference.operands)
    least = code.binary_intrinsic("umin", code.op("sub", a, b), constant(I32, limited[1]))
    return code.select(code.icmp("sgt", a, b), least, constant(I32, 0))


def _with_constant(ops: Mapping[Value, Op], value: Value, name: str, fits: Callable[[int], bool],
                   ) -> tuple[Value, int] | None:
    """The other operand of the op `name` that gives `value`, and its constant, if that is one that `fits`."""
    op = ops.get(value)
    if op is None or op.name != name:
        return None
    for one, other in (op.operands, reversed(op.operands)):
        number = ops.get(other)
        if number is not None and number.name == "constant" and fits(number.attrs["value"]):
            return one, number.attrs["value"]
    return None
