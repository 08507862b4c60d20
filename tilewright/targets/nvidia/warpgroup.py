"""The matrix product by warpgroups: descriptors of operands in shared memory, and wgmma, in one statement a dot.

An operand that `pipeline` copied ahead is taken where it lies; A is taken from registers if its threads can rearrange
it among themselves (the result of another dot); any other goes through scratch.  Products are asynchronous: their sums
may be looked at, and what they read may be written over, behind a wait.  A `dot` waits at once; a `warpgroup_dot` only
begins, and its sums go through the statement of a `warpgroup_wait`, which keeps LLVM from touching them before.
What threads wrote to shared memory is fenced for these reads, which belong to another proxy (PTX ISA 8.3), before a
barrier: here for scratch, at the head of the loop for copies.
Before: a `dot` whose accumulator has the layout that `wgmma` chose for it.
Tests: tests/targets/nvidia/test_warpgroup.py; the PTX machine finds a missing fence or wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import Scalar, element_of
from tilewright.layout.access import best_access
from tilewright.layout.linear import pack
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I32, I64, constant, float_value
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia import matrix
from tilewright.targets.nvidia.boxes import fence
from tilewright.targets.nvidia.conversion import converted, write_registers
from tilewright.targets.nvidia.emit.products import Statement
from tilewright.targets.nvidia.mma import Mma
from tilewright.targets.nvidia.scratch import way_of
from tilewright.targets.nvidia.state import Kernel
from tilewright.targets.nvidia.wgmma import ROWS, Placed, Wgmma, is_shared, of

_ADDRESS_BITS = 0x3FFF      # of a descriptor, in units of 16 bytes
_UNIT = 4                   # log2 of these


def dot(kernel: Kernel, op: Op) -> None:
    """a @ b + acc; by warpgroups, or by what `matrix` has."""
    product = of(op, kernel.capability, kernel.code.num_warps)
    if product is None:
        matrix.dot(kernel, op)
    else:
        _multiply(kernel, op, product, wait=True)


def warpgroup_dot(kernel: Kernel, op: Op) -> None:
    """A product that is begun."""
    product = of(op, kernel.capability, kernel.code.num_warps)
    assert product is not None
    _multiply(kernel, op, product, wait=False)


def warpgroup_wait(kernel: Kernel, op: Op) -> None:
    """The sums of products that are done; or, where they are still under way, the same sums."""
    if not op.attrs["done"]:
        kernel.code.machine("wgmma.wait", [], [], count=str(op.attrs["pending"]))
        kernel.bind(op.result, kernel.registers(op.operands[0]))
        return
    statement = Statement(kernel.code, kernel.registers(op.operands[0]))
    statement.wait(op.attrs["pending"])
    kernel.bind(op.result, statement.results())


@dataclass(frozen=True, slots=True)
class _Described:
    """An operand in shared memory: its descriptor for this warpgroup's first block."""

    placed: Placed
    start: LlvmValue

    def at(self, statement: Statement, row: int, k: int) -> str:
        return statement.advanced(statement.input(self.start), self.placed.offset(row, k) >> _UNIT)


def _multiply(kernel: Kernel, op: Op, product: Wgmma, wait: bool) -> None:
    code, element = kernel.code, element_of(op.result.type)
    assert isinstance(element, Scalar)
    left, right = _operands(kernel, op, product)
    wide = element.bits < 32
    sums = [convert.widen(code, v, element) if wide else v for v in kernel.registers(op.operands[2])]
    fresh = all(v.is_constant and float_value(v) == 0.0 for v in sums)
    statement = Statement(code, sums, fresh)
    layout = product.accumulator
    places = {index: r for r, index in enumerate(layout.held)}
    statement.fence()
    for row in range(0, product.rows, ROWS * product.groups[0]):
        for column in range(0, product.columns, product.width * product.groups[1]):
            own = [places[pack(layout.shape, (row + r, column + c + i))]
                   for c in range(0, product.width, 8) for r in (0, 8) for i in range(2)]
            for k in range(0, product.depth, product.step):
                a = left.at(statement, row, k) if isinstance(left, _Described) else statement.vector(
                    left.words((row, k))[0][0])
                b = right.at(statement, column, k)
                majors = [right.placed.turned] if not isinstance(left, _Described) else [
                    left.placed.turned, right.placed.turned]
                statement.multiply(own, a, b, adds=not fresh or k > 0, turned=majors, columns=product.width,
                                   depth=product.step, operand=str(product.element), result=product.result)
    statement.commit()
    if wait:
        statement.wait(0)
    results = statement.results()
    kernel.bind(op.result, [convert.narrow(code, v, element) if wide else v for v in results])


# --- operands


def _operands(kernel: Kernel, op: Op, product: Wgmma) -> tuple[_Described | matrix.Fragments, _Described]:
    a, b = op.operands[:2]
    left = _described(kernel, product, 0, a) if is_shared(layout_of(a)) else _in_registers(kernel, op, product, a)
    right = _described(kernel, product, 1, b) if is_shared(layout_of(b)) else None
    missing = [(which, v) for which, v, known in ((0, a, left), (1, b, right)) if known is None]
    found = _through_scratch(kernel, op, product, missing)
    left, right = left or found[0], right or found[1]
    assert isinstance(right, _Described)
    return left, right


def _described(kernel: Kernel, product: Wgmma, which: int, value: Value) -> _Described:
    return _at(kernel, product.placed_as(which, layout_of(value)), kernel.scalar(value))


def _at(kernel: Kernel, placed: Placed, address: LlvmValue) -> _Described:
    """The operand at an address: for this warpgroup's part of it."""
    code, product = kernel.code, placed.product
    along_m, along_n = product.groups
    group = code.warpgroup() if along_m * along_n > 1 else None
    if group is not None and placed.which == 0 and along_m > 1:
        mine = code.op("and", group, constant(I32, along_m - 1))
        address = code.op("add", address, code.op("mul", mine, constant(I32, placed.offset(ROWS, 0))))
    elif group is not None and placed.which == 1 and along_n > 1:
        mine = code.op("lshr", group, constant(I32, along_m.bit_length() - 1))
        address = code.op("add", address, code.op("mul", mine, constant(I32, placed.offset(product.width, 0))))
    units = code.op("and", code.op("lshr", address, constant(I32, _UNIT)), constant(I32, _ADDRESS_BITS))
    return _Described(placed, code.op("or", code.cast("zext", units, I64), constant(I64, placed.descriptor)))


def _in_registers(kernel: Kernel, op: Op, product: Wgmma, value: Value) -> matrix.Fragments | None:
    """A in the registers that a product takes, if no shared memory is needed to bring it there."""
    if not product.takes(layout_of(value), kernel.capability):
        return None
    way = way_of(kernel.capability, layout_of(value), product.left, product.element)
    mma = Mma("", str(product.element), product.result, product.element, 2, 2)
    fragments = matrix.Fragments(kernel, mma, "A", product.left, product.element)
    fragments.hold(converted(kernel, op, way, kernel.registers(value), product.element))
    return fragments


def _through_scratch(kernel: Kernel, op: Op, product: Wgmma,
                     values: Sequence[tuple[int, Value]]) -> dict[int, _Described]:
    """Tiles written to scratch, as products read them; by the number of the operand."""
    if not values:
        return {}
    scratch, found = kernel.shared.begin(op), {}
    for number, (which, value) in enumerate(values):
        way, start = product.in_scratch(which, layout_of(value)), scratch.array(number)
        access = best_access(layout_of(value), way.layout, product.element.bytes, store=True)
        write_registers(kernel, access, start, kernel.registers(value), product.element)
        found[which] = _at(kernel, way, start)
    fence(kernel, everywhere=False)
    kernel.shared.meet()
    return found
