"""Accesses of single elements in a loop: short code, for what hardly ever runs.

A turn of the loop stands for some bits of a thread's register numbers: in the layouts of what it works on they are an
input of their own, `turn`, as lanes and warps are.  Pointers and masks are computed anew in each turn, as far as they
are arithmetic on indices; what is not, and values that are stored, lie in local memory meanwhile, and so do elements
that are loaded.  The access itself does not know of it: it gets an op on tiles with such layouts.
Before: an access of laid-out IR.  Tests: tests/targets/nvidia/test_access.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import Tile, element_of
from tilewright.layout import Layout
from tilewright.layout.linear import REGISTER, TURN
from tilewright.targets.llvm.convert import register_type
from tilewright.targets.llvm.types import I64, Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.passes.assignment import operand_layout
from tilewright.targets.nvidia.renaming import renamed
from tilewright.targets.nvidia.state import Kernel, Registers

_STORED = {"store": 1}      # the operand that is in registers already


def in_turns(kernel: Kernel, op: Op, held: Sequence[int], divide: bool, access: Callable[[Op], Sequence[LlvmValue]],
             ) -> Sequence[LlvmValue]:
    """The registers of the result of `op`, made by `access` of ops on parts of its tiles.

    A turn works on the registers whose numbers differ in the bits `held`, the lowest one first.  With `divide` it
    computes quotients as well: nobody else needs them then, if all other accesses are in runs.
    """
    return _Turns(kernel, layout_of(op.operands[0]), held, divide).run(op, access)


@dataclass(frozen=True, slots=True)
class _Array:
    """Local memory of each thread: an element for each of the places, `bases` says where a turn's begin."""

    address: LlvmValue
    type: Type
    bases: tuple[int, ...]


class _Turns:
    """One loop over the registers of tiles in `layout`."""

    def __init__(self, kernel: Kernel, layout: Layout, held: Sequence[int], divide: bool) -> None:
        self._kernel, self._held, self._divide = kernel, held, divide
        bases = layout.bases(REGISTER)
        self._turning = [p for p in range(len(bases)) if p not in held]
        turns = tuple(bases[p] for p in self._turning)
        others = tuple((name, bs) for name, bs in layout.inputs if name != REGISTER)
        self._layout = Layout(layout.shape, ((TURN, turns), (REGISTER, tuple(bases[p] for p in held)), *others))
        self._made: dict[tuple[Value, Layout], Value] = {}
        self._steps: list[Callable[[], None]] = []      # of a turn, in order

    def run(self, op: Op, access: Callable[[Op], Sequence[LlvmValue]]) -> Sequence[LlvmValue]:
        kernel = self._kernel
        stored = _STORED.get(op.name)
        operands = [self._kept(v, self._layout) if k == stored else self._value(v, self._layout)
                    for k, v in enumerate(op.operands)]
        part = Op(op.row, operands, [self._named(r, self._layout) for r in op.results], op.attrs, op.regions, op.loc)
        results = self._array(register_type(element_of(op.result.type)), self._all) if op.results else None

        def turn() -> None:
            for step in self._steps:
                step()
            found = access(part)
            if results is not None:
                self._write(results, found)

        kernel.code.repeat(1 << len(self._turning), turn)
        return [] if results is None else self._read_all(results)

    # -- tiles of a turn

    def _value(self, value: Value, layout: Layout) -> Value:
        """What stands for `value` in a turn."""
        if not isinstance(value.type, Tile):
            return value
        if (value, layout) not in self._made:
            op = self._kernel.ops.get(value)
            again = op is not None and self._kernel.may_repeat(op, self._divide)
            self._made[value, layout] = self._again(op, layout) if again and op is not None else self._kept(
                value, layout)
        return self._made[value, layout]

    def _again(self, op: Op, layout: Layout) -> Value:
        """The result of an op that is computed in each turn."""
        kernel = self._kernel
        operands = [self._value(v, operand_layout(op, k, layout)) if isinstance(v.type, Tile) else v
                    for k, v in enumerate(op.operands)]
        result = self._named(op.result, layout)
        again = Op(op.row, operands, [result], op.attrs, op.regions, op.loc)
        self._steps.append(lambda: kernel.lower(again))
        return result

    def _kept(self, value: Value, layout: Layout) -> Value:
        """A tile whose registers are put into local memory before the loop."""
        kernel, result = self._kernel, self._named(value, layout)
        registers = kernel.wide(value) if value in kernel.indices else kernel.registers(value)
        bits = layout.with_bases(register=(*layout.bases(TURN), *layout.bases(REGISTER)))
        listed = renamed(registers, layout_of(value), bits)
        assert listed is not None, f"{value.type} in {layout}"
        turns, count = 1 << len(layout.bases(TURN)), layout.size(REGISTER)
        rows = [[listed[t | k * turns] for k in range(count)] for t in range(turns)]
        if all(row == rows[0] for row in rows):
            self._steps.append(lambda: self._bind(value, result, tuple(rows[0])))
            return result
        array = self._array(registers[0].type, _places(layout))
        for t, row in enumerate(rows):
            if not any(t >> i & 1 and not b for i, b in enumerate(layout.bases(TURN))):
                for k, register in enumerate(row):
                    self._store(array, _place(array.bases, t) + k, register)
        self._steps.append(lambda: self._bind(value, result, self._read(array, count)))
        return result

    def _bind(self, value: Value, result: Value, registers: Registers) -> None:
        code = self._kernel.code
        if value in self._kernel.indices:
            self._kernel.bind_wide(result, registers)
            narrow = register_type(element_of(value.type))
            registers = tuple(r if r.type == narrow else code.cast("trunc", r, narrow) for r in registers)
        self._kernel.bind(result, registers)

    def _named(self, value: Value, layout: Layout) -> Value:
        """A new tile of which all is known that is known of `value`."""
        kernel, t = self._kernel, value.type
        assert isinstance(t, Tile)
        result = Value(replace(t, layout=layout), value.hint)
        kernel.axis.set_fact(result, kernel.axis.fact(value))
        kernel.alias.note_same(result, value)
        if value in kernel.indices:
            kernel.indices.add(result)
        return result

    # -- local memory

    @property
    def _all(self) -> tuple[int, ...]:
        """Where the elements of a turn begin in an array of all of them."""
        return tuple(1 << len(self._held) + i for i in range(len(self._turning)))

    def _array(self, element: Type, bases: tuple[int, ...]) -> _Array:
        count = (sum(bases) or 1) + (1 << len(self._held))
        return _Array(self._kernel.code.alloca(element, count, max(1, element.bits // 8)), element, bases)

    def _at(self, array: _Array, place: LlvmValue) -> LlvmValue:
        return self._kernel.code.gep(array.address, place, array.type)

    def _store(self, array: _Array, place: int, value: LlvmValue) -> None:
        self._kernel.code.store(value, self._at(array, constant(I64, place)), max(1, array.type.bits // 8))

    def _turn_place(self, array: _Array, more: int) -> LlvmValue:
        code = self._kernel.code
        start = code.cast("zext", code.of_turn(array.bases), I64)
        return code.op("add", start, constant(I64, more)) if more else start

    def _read(self, array: _Array, count: int) -> Registers:
        code = self._kernel.code
        return tuple(code.load(self._at(array, self._turn_place(array, k)), array.type, max(1, array.type.bits // 8))
                     for k in range(count))

    def _write(self, array: _Array, values: Sequence[LlvmValue]) -> None:
        for k, value in enumerate(values):
            self._kernel.code.store(value, self._at(array, self._turn_place(array, k)), max(1, array.type.bits // 8))

    def _read_all(self, array: _Array) -> list[LlvmValue]:
        """The elements of all registers, in their order."""
        code = self._kernel.code
        found = []
        for register in range(1 << len(self._held) + len(self._turning)):
            turn = sum((register >> p & 1) << i for i, p in enumerate(self._turning))
            place = _place(array.bases, turn) + sum((register >> p & 1) << i for i, p in enumerate(self._held))
            found.append(code.load(self._at(array, constant(I64, place)), array.type, max(1, array.type.bits // 8)))
        return found


def _places(layout: Layout) -> tuple[int, ...]:
    """Where the registers of a turn begin in an array that holds each element of a thread once."""
    places, following = [], layout.size(REGISTER)
    for base in layout.bases(TURN):
        places.append(following if base else 0)
        following <<= bool(base)
    return tuple(places)


def _place(bases: Sequence[int], turn: int) -> int:
    return sum(b for i, b in enumerate(bases) if turn >> i & 1)
