"""The left operand of a matrix product, read where it lies.

That is so if it is of the type that the scheme wants and an affine, unmasked load whose rows are neighbours in memory.
What is not known when code is made (a mask, a wrap) is tested when it runs, and there is a packed copy otherwise.
Before: see `fuse`.  After: a matrix in memory.  Tests: tests/targets/cpu/test_dot.py, test_tiles.py.
"""

from __future__ import annotations

from tilewright.ir.node import Op, Value
from tilewright.ir.types import element_of, shape_of
from tilewright.targets.cpu.bounds import assume, is_certain
from tilewright.targets.cpu.code import Code
from tilewright.targets.cpu.evaluate import Evaluator, Facts
from tilewright.targets.cpu.fuse import Walker
from tilewright.targets.cpu.nest import LINE, fixed
from tilewright.targets.cpu.packing import pack
from tilewright.targets.cpu.product import Matrix
from tilewright.targets.cpu.schemes import Scheme
from tilewright.targets.cpu.state import Buffer, Virtual
from tilewright.targets.llvm.amx import Shape
from tilewright.targets.llvm.types import I64, constant
from tilewright.targets.llvm.types import Value as LlvmValue


def is_in_place(walker: Walker, a: Value, scheme: Scheme) -> bool:
    """Whether the left operand may be read where it lies: an affine load of the right type, rows of neighbours."""
    binding = walker.kernel.bindings[a]
    if isinstance(binding, Buffer) or element_of(a.type) != scheme.left or scheme.bias or len(shape_of(a.type)) != 2:
        return False
    assert isinstance(binding, Virtual)
    if binding.op.name != "load":
        return False
    steps = walker.aliases.steps(binding.op.operands[0], remainders=True)
    return steps is not None and steps[1] == 1


def rows_in_place(walker: Walker, op: Op, scheme: Scheme, copy: Buffer) -> Matrix:
    """The left operand of `op` where it lies, or packed into `copy` when a run-time test finds a mask or a wrap.

    A packed copy also where rows of tiles would lie across lines of the cache: loading such a tile takes six times as
    long (19 ns instead of 3; Emerald Rapids, 2026-11-30).
    """
    kernel, code, a = walker.kernel, walker.code, op.operands[0]
    binding = kernel.bindings[a]
    assert isinstance(binding, Virtual)
    pointer, mask = binding.op.operands[0], binding.op.operand("mask")
    ops = walker.virtual_ops([a])
    walker.test(ops)

    def packed() -> tuple[LlvmValue, ...]:
        if scheme.tiles is None:
            walker.keep([a], [copy], versions=not simple)
        else:
            pack(walker, a, scheme.left, target=copy)
        return kernel.start_of(copy), constant(I64, copy.shape[-1] * copy.element.bytes), nowhere

    def in_place() -> tuple[LlvmValue, ...]:
        where = *first_and_stride(walker, pointer, facts), ahead or nowhere
        if scheme.tiles is None:
            return where
        return code.branch(_is_aligned(code, *where[:2], scheme.tiles), lambda: where, packed)

    nowhere = constant(I64, 0)
    ahead = walker.ahead.distance(pointer, op)
    with code.scope():
        facts, condition = assume(kernel, ops)
        simple = (mask is None or is_certain(kernel, mask, facts)) and all(
            op.results[0] in facts.quotients for op in ops if op.name in ("rem_s", "rem_u", "div_s", "div_u"))
        if not simple:
            first, stride, distance = packed()
        elif condition is None:
            first, stride, distance = in_place()
        else:
            first, stride, distance = code.branch(condition, in_place, packed)
    return Matrix(code.export(first), code.export(stride), code.export(distance) if ahead and simple else None)


def _is_aligned(code: Code, first: LlvmValue, stride: LlvmValue, tiles: Shape) -> LlvmValue:
    """Whether no row of a tile lies across two lines of the cache (i1)."""
    whole = LINE if LINE % tiles.bytes else tiles.bytes
    either = code.op("or", code.cast("ptrtoint", first, I64), stride)
    return code.icmp("eq", code.op("and", either, constant(I64, whole - 1)), constant(I64, 0))


def first_and_stride(walker: Walker, pointer: Value, facts: Facts) -> tuple[LlvmValue, LlvmValue]:
    """Address of element (0, 0), and the bytes between rows."""
    code = walker.code
    with code.scope() as floor:
        e = Evaluator(walker.kernel, 1, floor, facts)
        first = e.scalar(e.at(pointer, (fixed(0), fixed(0))))
        if shape_of(pointer.type)[0] == 1:
            return code.export(first), constant(I64, 0)
        second = e.scalar(e.at(pointer, (fixed(1), fixed(0))))
        stride = code.op("sub", code.cast("ptrtoint", second, I64), code.cast("ptrtoint", first, I64))
    return code.export(first), code.export(stride)
