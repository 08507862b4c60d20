"""What code generation knows while it walks a kernel.

Every value in scope is bound to LLVM values: a scalar to one, the same in all threads; a tile to one for each register
of its layout.  Integers that end in addresses are bound a second time, in 64 bits (`analysis.offsets`).
Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tilewright.analysis.alias import Alias
from tilewright.analysis.axis import Axis
from tilewright.computed import computed
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.types import Tile
from tilewright.ir.walk import defining_ops, ops_in
from tilewright.layout import Layout
from tilewright.layout.linear import REGISTER
from tilewright.targets.llvm.lines import LineTable
from tilewright.targets.llvm.types import I32, I64, constant, integer_value
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.emit.code import Code
from tilewright.targets.nvidia.lazy import Lazy, Picked, registers_of
from tilewright.targets.nvidia.shared import Allocation, SharedMemory
from tilewright.targets.nvidia.unobserved import unobserved

if TYPE_CHECKING:
    from tilewright.targets.nvidia.capability import Capability

Registers = Sequence[LlvmValue]
_Key = TypeVar("_Key")
_Made = TypeVar("_Made")


@dataclass(slots=True)
class Messages:
    """What the host shows when an assertion fails or the kernel prints."""

    asserts: list[Mapping[str, Any]] = field(default_factory=list)
    prints: list[Mapping[str, Any]] = field(default_factory=list)


# ops of some 25 instructions each: a second time they would cost more than the register in which the first result waits
_COSTLY = frozenset({"div_s", "div_u", "rem_s", "rem_u"})
# ops of which more is known if what they take is not negative
_SIGN_MATTERS = frozenset({"div_s", "div_u", "rem_s", "rem_u", "shr_u", "ext_u", "min_u", "max_u"})
# ops on tiles that only name registers, or make them of nothing
_FRESH = frozenset({"iota", "splat", "expand_dims", "broadcast", "permute", "hint"})


class Kernel:
    """The state of one kernel's code generation."""

    def __init__(self, module: Module, code: Code, capability: Capability, indices: set[Value],
                 allocation: Allocation) -> None:
        self.module = module
        self.code = code
        self.capability = capability
        self.axis = Axis(module)
        self.alias = Alias(module)
        self.indices = indices
        self.divides = any(op.name in _SIGN_MATTERS for op in ops_in(module.entry.body))
        self.written: frozenset[Value] = frozenset()
        self.ahead = _loaded_ahead(module.entry.body)
        self.unobserved = unobserved(module.entry.body)
        self.messages = Messages()
        self.shared = SharedMemory(code, allocation)
        self.lines: LineTable | None = None     # of the user's source
        self.whole_words = False        # some access takes the aligned word of 32 bits around its element
        self.run_block: Callable[[Block], None]
        self.lower: Callable[[Op], None]
        self.ops = defining_ops(module.entry.body)
        self.loops = {value: op for op in ops_in(module.entry.body) if op.name == "for"     # of what goes round one
                      for value in (*op.regions[0].args, *op.results)}
        self.formats: dict[str, int] = {}      # of `device_print`
        self.hidden_parameters: list[str] = []
        self.tensor_maps: list[Mapping[str, Any]] = []      # parameters behind those, as `tensor_maps` describes them
        self.quotients: dict[tuple[str, tuple[tuple[LlvmValue, LlvmValue], ...]], Registers] = {}
        self._values: dict[Value, Registers] = {}
        self._wide: dict[Value, Registers] = {}
        self._later: dict[Value, tuple[Callable[[], Registers], object]] = {}
        self._again: dict[Value, Callable[[], Registers]] = {}
        self._made: list[Value] = []        # of those, what the op at hand has asked for
        self._in_region: list[tuple[dict[Any, Any], object]] = []      # what `keep` keeps, in the regions at hand

    @computed
    def likely_axis(self) -> Axis:
        """What is so if nothing that is divided is negative."""
        return Axis.likely(self.module, self.axis)

    # -- values

    def bind(self, value: Value, registers: Sequence[LlvmValue]) -> None:
        self._values[value] = registers if isinstance(registers, (Lazy, Picked)) else tuple(registers)

    def registers(self, value: Value) -> Registers:
        """One LLVM value for each register of a tile; of a scalar the one that it is."""
        known = self._values.get(value)
        if known is None:
            if value in self._again:
                self._made.append(value)
                known = self._again[value]()
                self._values[value] = known
            else:
                known = self.keep(self._values, value, self._later[value][0]())
        return known

    def bind_later(self, value: Value, make: Callable[[], Registers], source: object) -> None:
        """`make` gives the registers of `value` when somebody needs them all; `source` is what `later` tells."""
        self._later[value] = make, source
        self._values.pop(value, None)

    def later(self, value: Value) -> object:
        """Where a value's registers come from, if they are still to be made; else None."""
        return None if value in self._values or value not in self._later else self._later[value][1]

    def bind_again(self, value: Value, make: Callable[[], Registers]) -> None:
        """`make` gives the registers of `value` to each op that takes them, so that none holds them in between."""
        self._again[value] = make
        self._values.pop(value, None)

    def begin_op(self, operands: Sequence[Value]) -> int:
        """An op on `operands` is about to be lowered: what is made for it is there in all of its blocks, and gone with
        `end_op`, which takes the number that this gives."""
        before = len(self._made)
        if self._again:
            for value in operands:
                if value in self._again:
                    self.registers(value)
        return before

    def end_op(self, before: int) -> None:
        if len(self._made) > before:
            for value in self._made[before:]:
                self._values.pop(value, None)
            del self._made[before:]

    def keep(self, kept: dict[_Key, _Made], key: _Key, made: _Made) -> _Made:
        """`made`, which is also in `kept` until the region at hand ends."""
        kept[key] = made
        self._in_region.append((kept, key))
        return made

    @contextmanager
    def region(self) -> Iterator[None]:
        """Inside, a region is lowered: what is made there of what lies outside is not there behind it, nor on the other
        way of a branch."""
        before, known = self.begin_op(()), len(self._in_region)
        try:
            yield
        finally:
            self.end_op(before)
            for kept, key in self._in_region[known:]:
                kept.pop(key, None)
            del self._in_region[known:]

    def scalar(self, value: Value) -> LlvmValue:
        (only,) = self._values[value]
        return only

    def bind_wide(self, value: Value, registers: Sequence[LlvmValue]) -> None:
        self._wide[value] = registers if isinstance(registers, (Lazy, Picked)) else tuple(registers)

    def wide(self, value: Value) -> Registers:
        """An integer in 64 bits: computed so if it is an index, else extended."""
        known = self._wide.get(value)
        return self.extended(value) if known is None else known

    def extended(self, value: Value) -> Registers:
        """The registers of an integer, in 64 bits."""
        narrow = self.registers(value)
        return registers_of(self.code, len(narrow),
                            lambda r: self.code.to_i64(narrow[r]) if narrow[r].type.bits < 64 else narrow[r])

    def extended_constant(self, value: Value) -> Registers:
        """A 32-bit integer constant as one of 64 bits."""
        known = integer_value(self.scalar(value))
        assert known is not None
        return (constant(I64, known),)

    def count(self, value: Value) -> int:
        """How many registers of each thread hold `value`."""
        return layout_of(value).size(REGISTER) if isinstance(value.type, Tile) else 1

    def hidden(self, name: str) -> LlvmValue:
        """The parameter `name` behind the user's, an i64; it exists once somebody has asked."""
        if name not in self.hidden_parameters:
            self.hidden_parameters.append(name)
        return LlvmValue(I64, f"%{name}")

    @contextmanager
    def afresh(self, values: Sequence[Value]) -> Iterator[None]:
        """Inside, the tiles of indices and constants that `values` are made of are computed again, in this block.

        For code that seldom runs: what it needs is then not kept in registers up to it.
        """
        chain = self._chain(values)
        kept = {r: (self._values.get(r), self._wide.get(r)) for op in chain for r in op.results}
        with self.code.unrelated():
            for op in chain:
                self.lower(op)
            try:
                yield
            finally:
                for value, (narrow, wide) in kept.items():
                    _restore(self._values, value, narrow)
                    _restore(self._wide, value, wide)

    def _chain(self, values: Sequence[Value]) -> list[Op]:
        """The pure ops on tiles above `values`, in order; not those that move data between threads."""
        found: dict[Op, None] = {}

        def visit(value: Value) -> None:
            op = self.ops.get(value)
            if op is None or op in found or not isinstance(value.type, Tile) or not self.may_repeat(op):
                return
            for operand in op.operands:
                visit(operand)
            found[op] = None

        for value in values:
            visit(value)
        return list(found)

    @staticmethod
    def may_repeat(op: Op, costly: bool = False) -> bool:
        """Whether a tile may be computed a second time: by an op that moves nothing between threads, and is cheap (or
        `costly`)."""
        return op.name in _FRESH or (op.row.elementwise and op.row.is_pure and (costly or op.name not in _COSTLY))

    # -- regions on elements

    def combine(self, region: Block, args: Sequence[LlvmValue]) -> list[LlvmValue]:
        """What a region on elements yields for one set of arguments."""
        for arg, value in zip(region.args, args, strict=True):
            self.bind(arg, (value,))
        self.run_block(region)
        return [self.scalar(v) for v in region.terminator.operands]


def inside(kernel: Kernel, t: Tile, layout: Layout, register: int) -> LlvmValue | bool:
    """Whether `register` holds an element of the tile, not padding: True, False, or a flag for each thread."""
    code = kernel.code
    flag: LlvmValue | None = None
    for bound in layout.padding(t.shape):
        known = bound.test(register)
        if known is False:
            return False
        if known is None:
            place = code.index(bound.coordinate, register)
            flag = code.both(flag, code.icmp("ult", place, constant(I32, bound.limit)))
    return True if flag is None else flag


def _loaded_ahead(body: Block) -> frozenset[Op]:
    """The loads of what the next iteration of a loop needs: they are made early for a reason."""
    ends = [op.regions[0].terminator for op in ops_in(body) if op.name == "for"]
    ops = defining_ops(body) if ends else {}
    found: set[Op] = set()
    work = [v for end in ends for v in end.operands]
    while work:
        op = ops.get(work.pop())
        if op is not None and op.name == "if":
            work += op.regions[0].terminator.operands
        elif op is not None and op.name == "load":
            found.add(op)
    return frozenset(found)


def _restore(bindings: dict[Value, Registers], value: Value, registers: Registers | None) -> None:
    if registers is None:
        bindings.pop(value, None)
    else:
        bindings[value] = registers
