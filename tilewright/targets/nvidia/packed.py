"""The extremum of bf16 or f16 numbers that were widened to f32: taken of the narrow ones, two in an instruction.

Widening is exact and keeps the order, so the extremum is the same number; a NaN stays one.
Before: a `reduce` whose region is one extremum.  Tests: tests/targets/nvidia/test_special.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Op
from tilewright.ir.types import BF16, F16, F32, Scalar, element_of
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import FLOAT, I16, I32, Value, constant
from tilewright.targets.nvidia.state import Kernel, Registers

_EXTREMA = frozenset({"max_f", "min_f", "max_nan_f", "min_nan_f"})


class Narrow:
    """The narrow numbers behind the operand of a `reduce`."""

    def __init__(self, kernel: Kernel, extremum: str, element: Scalar, registers: Registers) -> None:
        self._kernel, self._extremum, self._element, self._registers = kernel, extremum, element, registers

    @classmethod
    def of(cls, kernel: Kernel, op: Op) -> Narrow | None:
        """None if `op` is no extremum of numbers that were bf16 or f16."""
        if len(op.operands) != 1 or len(op.regions[0].ops) != 2:
            return None
        source, (inner, end) = kernel.ops.get(op.operands[0]), op.regions[0].ops
        if (inner.name not in _EXTREMA or set(inner.operands) != set(op.regions[0].args)
                or end.operands != inner.results or source is None or source.name != "fp_ext"
                or element_of(op.operands[0].type) != F32):
            return None
        element = element_of(source.operands[0].type)
        if element not in (BF16, F16) or not isinstance(element, Scalar):
            return None
        return cls(kernel, inner.name, element, kernel.registers(source.operands[0]))

    def extremum(self, numbers: Sequence[int]) -> Value:
        """That of these registers, as f32."""
        code = self._kernel.code
        given = [self._registers[n] for n in numbers]
        if len(given) % 2:
            given.append(given[-1])
        words = [self._packed(a, b) for a, b in zip(given[::2], given[1::2], strict=True)]
        while len(words) > 1:
            pairs = [code.machine(f"{self._extremum}.{self._element}x2", [I32], [a, b])[0]
                     for a, b in zip(words[::2], words[1::2], strict=False)]
            words = pairs + words[len(pairs) * 2:]
        return code.machine(self._extremum, [FLOAT], self._unpacked(words[0]))[0]

    def _packed(self, low: Value, high: Value) -> Value:
        code, known = self._kernel.code, self._kernel.code.whole((low, high))
        if known is not None:
            return known
        moved = code.op("shl", code.cast("zext", code.bitcast(high, I16), I32), constant(I32, 16))
        return code.op("or", code.cast("zext", code.bitcast(low, I16), I32), moved)

    def _unpacked(self, word: Value) -> list[Value]:
        code, register = self._kernel.code, convert.register_type(self._element)
        halves = code.cast("trunc", word, I16), code.cast("trunc", code.op("lshr", word, constant(I32, 16)), I16)
        return [convert.widen(code, code.bitcast(h, register), self._element) for h in halves]
