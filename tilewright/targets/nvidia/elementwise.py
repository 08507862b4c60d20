"""Elementwise rows on registers: the row's rule (`targets.llvm.elementwise`), once for each register.

Registers that hold the same value (of a `splat`) are computed once.  A few rows have rules of their own in
`special`.
Tests: tests/targets/nvidia/, tests/conform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilewright.analysis.axis_info import power_of_two_in
from tilewright.analysis.ranges import whole
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.ops.rules import scalar_element
from tilewright.ir.types import F32, F64, I32, Pointer, Scalar, Tile, element_of
from tilewright.layout.linear import REGISTER, padded_shape, unpack
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.convert import memory_type
from tilewright.targets.llvm.elementwise import rule_of
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia import division, special
from tilewright.targets.nvidia.clamped import clamped_difference
from tilewright.targets.nvidia.emit.code import Code
from tilewright.targets.nvidia.lazy import registers_of
from tilewright.targets.nvidia.pressure import widens
from tilewright.targets.nvidia.remainder import remainders
from tilewright.targets.nvidia.renaming import moved
from tilewright.targets.nvidia.state import Kernel, Registers

_RING = frozenset({"add", "sub", "mul"})
# rows of integers and pointers that addresses and masks are made of; none is more than straight code
_STRAIGHT = _RING | {
    "ptr_add", "ext_s", "ext_u", "trunc", "and", "or", "xor", "select", "div_s", "div_u", "rem_s", "rem_u", "cmp_eq",
    "cmp_ne", "cmp_lt_s", "cmp_le_s", "cmp_gt_s", "cmp_ge_s", "cmp_lt_u", "cmp_le_u", "cmp_gt_u", "cmp_ge_u"}


def apply(code: Code, op: Op, args: Sequence[LlvmValue]) -> LlvmValue:
    """One element of an elementwise op."""
    return (special.RULES.get(op.name) or rule_of(op))(code, op, args)


def each(operands: Sequence[Registers], function: Callable[..., LlvmValue]) -> list[LlvmValue]:
    """`function` of the operands' registers, register by register, equal ones once."""
    known: dict[tuple[LlvmValue, ...], LlvmValue] = {}
    results = []
    for args in zip(*operands, strict=True):
        if args not in known:
            known[args] = function(*args)
        results.append(known[args])
    return results


def some(code: Code, op: Op, operands: Sequence[Registers], function: Callable[..., LlvmValue],
         alike: int = 0) -> Registers:
    """The same, those of integers and pointers when they are needed; registers whose numbers differ in the bits `alike`
    hold one value."""
    if op.name not in _STRAIGHT:
        return each(operands, function)
    known: dict[tuple[LlvmValue, ...], LlvmValue] = {}

    def make(register: int) -> LlvmValue:
        args = tuple(o[register & ~alike] for o in operands)
        if args not in known:
            known[args] = function(*args)
        return known[args]

    return registers_of(code, len(operands[0]), make)


def elementwise(kernel: Kernel, op: Op) -> None:
    """An elementwise op on scalars or tiles."""
    if op.name == "ptr_add":
        _pointer_sum(kernel, op)
        return
    if widens(op) and op.result not in kernel.indices:
        kernel.bind_again(op.result, lambda: tuple(each([kernel.registers(op.operands[0])],
                                                        lambda x: apply(kernel.code, op, (x,)))))
        return
    limited = clamped_difference(kernel, op)
    if limited is not None:
        kernel.bind(op.result, (limited,))
        return
    operands = [kernel.registers(v) for v in op.operands]
    if op.name == "rem_f" and element_of(op.result.type) != F64:
        kernel.bind(op.result, _remainders(kernel.code, scalar_element(op.result.type), *operands))
        return
    if op.name == "div_f" and element_of(op.result.type) == F32:
        kernel.bind(op.result, _quotients(kernel, op, *operands))
        return
    divided = division.divide(kernel, op)
    if divided is not None:
        kernel.bind(op.result, divided)
        return
    alike = _alike(kernel, op.result) if op.name.startswith("cmp_") else 0
    function = partial(division.short_division, kernel) if division.fits(kernel, op) else partial(apply, kernel.code)
    kernel.bind(op.result, some(kernel.code, op, operands, lambda *args: function(op, args), alike))


def _alike(kernel: Kernel, value: Value) -> int:
    """The bits of register numbers that make no difference: a mask of columns, whose number is a multiple of 16, is one
    flag for neighbours."""
    t, fact = value.type, kernel.axis.fact(value)
    if not isinstance(t, Tile) or t.shape != padded_shape(t.shape) or all(k == 1 for k in fact.constancy):
        return 0
    runs = [power_of_two_in(k) or size for k, size in zip(fact.constancy, t.shape, strict=True)]
    bases = layout_of(value).bases(REGISTER)
    return sum(1 << k for k, b in enumerate(bases)
               if all(c < run for c, run in zip(unpack(t.shape, b), runs, strict=True)))


def _quotients(kernel: Kernel, op: Op, dividends: Registers, divisors: Registers) -> list[LlvmValue]:
    """Quotients, those with one divisor together."""
    dividends_of: dict[LlvmValue, dict[LlvmValue, None]] = {}
    for x, y in zip(dividends, divisors, strict=True):
        dividends_of.setdefault(y, {})[x] = None
    found: dict[tuple[LlvmValue, LlvmValue], LlvmValue] = {}
    for y, xs in dividends_of.items():
        if len(xs) >= special.SHARED:
            made = special.quotients(kernel.code, list(xs), y)
        else:
            made = [apply(kernel.code, op, (x, y)) for x in xs]
        found.update({(x, y): q for x, q in zip(xs, made, strict=True)})
    return [found[pair] for pair in zip(dividends, divisors, strict=True)]


def _remainders(code: Code, element: Scalar, dividends: Registers, divisors: Registers) -> list[LlvmValue]:
    """Remainders of floats of up to 32 bits, equal ones once."""
    pairs = list(dict.fromkeys(zip(dividends, divisors, strict=True)))
    wide = [(convert.widen(code, x, element), convert.widen(code, y, element)) for x, y in pairs]
    found = dict(zip(pairs, remainders(code, wide), strict=True))
    return [convert.narrow(code, found[pair], element) for pair in zip(dividends, divisors, strict=True)]


def _pointer_sum(kernel: Kernel, op: Op) -> None:
    """pointer + offset elements, in 64 bits."""
    pointer, offset = op.operands
    element = element_of(pointer.type)
    assert isinstance(element, Pointer)
    unit = memory_type(element.element)
    kernel.bind(op.result, some(kernel.code, op, [kernel.registers(pointer), kernel.wide(offset)],
                                lambda p, i: kernel.code.gep(p, i, unit)))


# --- index arithmetic, a second time in 64 bits (`analysis.offsets`)


def bind_wide(kernel: Kernel, op: Op) -> None:
    """The 64-bit twins of the results of `op`, where addresses need them."""
    for value in op.results:
        if value in kernel.indices:
            kernel.bind_wide(value, _wide_twin(kernel, op, value))


def _wide_twin(kernel: Kernel, op: Op, value: Value) -> Sequence[LlvmValue]:
    code = kernel.code
    if op.name in _RING:
        narrow = op.name == "mul" and all(kernel.axis.fact(v).constant is None for v in op.operands)
        return some(code, op, [(_factor if narrow else Kernel.wide)(kernel, v) for v in op.operands],
                    lambda a, b: code.op(op.name, a, b))
    if op.name == "ext_s" and element_of(op.operands[0].type) == I32:
        return kernel.wide(op.operands[0])
    if op.name == "constant":
        return kernel.extended_constant(value)
    twins = moved(op, [kernel.wide(op.operands[0])]) if op.operands and op.operands[0] in kernel.indices else None
    if twins is not None:
        return twins
    return kernel.extended(value)


def _factor(kernel: Kernel, value: Value) -> Registers:
    """A factor in 64 bits: where it is known not to wrap its 32 bits extended, since such products take one instruction
    instead of four."""
    if element_of(value.type) != I32 or kernel.axis.ranges.fact(value) == whole(value.type):
        return kernel.wide(value)
    return kernel.extended(value)
