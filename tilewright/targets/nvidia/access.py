"""Loads and stores of global memory.

A thread's registers that hold neighbours in memory are one access of up to 16 bytes, if the facts of the axis analysis
say that their addresses follow one another, that the first is aligned, and that one mask bit decides for all (`runs`).
A mask is the instruction's predicate; padding is masked as well.  Of places that replicate an element only the owner
stores.  What no argument writes is read through the read-only path (`ld.global.nc`) when the launch is `disjoint`.
Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.computed import computed
from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op
from tilewright.ir.ops.attributes import Cache, Eviction
from tilewright.ir.types import BF16, F16, F32, F64, I1, Element, Pointer, Tile, element_of, shape_of
from tilewright.layout import Layout
from tilewright.layout.linear import REGISTER
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I16, I32, I64, Type, constant, integer_value, zero
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.emit.code import known_flag
from tilewright.targets.nvidia.passes.coalesce import VECTOR_BYTES
from tilewright.targets.nvidia.runs import in_runs
from tilewright.targets.nvidia.state import Kernel, inside

_LEVELS = {Eviction.NORMAL: "", Eviction.FIRST: ".L1::evict_first", Eviction.LAST: ".L1::evict_last"}
_LOADS = {Cache.CA: ".ca", Cache.CG: ".cg", Cache.CS: ".cs", Cache.CV: ".cv"}
_STORES = {Cache.CG: ".cg", Cache.CS: ".cs", Cache.WB: ".wb", Cache.WT: ".wt"}


@dataclass(frozen=True)
class Words:
    """How `count` elements of `element` travel: `number` words of type `word`, PTX type `kind`.

    A float that fills a word is one; all else travels as integers.
    """

    element: Element
    count: int

    @property
    def bytes(self) -> int:
        return self.element.bytes * self.count

    @computed
    def word_bytes(self) -> int:
        return self.element.bytes if self.element.bytes == 8 else min(4, self.bytes)

    @computed
    def number(self) -> int:
        return self.bytes // self.word_bytes

    @computed
    def word(self) -> Type:
        if self.is_float:
            return convert.register_type(self.element)
        return {1: I16, 2: I16, 4: I32, 8: I64}[self.word_bytes]    # PTX has no registers of 8 bits

    @property
    def is_float(self) -> bool:
        return self.element in (F32, F64)

    @property
    def kind(self) -> str:
        return f"b{8 * self.word_bytes}"

    @property
    def vector(self) -> str:
        return f".v{self.number}" if self.number > 1 else ""

    def pack(self, kernel: Kernel, values: Sequence[LlvmValue]) -> list[LlvmValue]:
        """Elements as words; the words that they were taken from, where they are whole."""
        if self.is_float:
            return list(values)
        code = kernel.code
        per_word = max(1, self.word_bytes // self.element.bytes)
        known = [code.whole(values[i:i + per_word]) for i in range(0, len(values), per_word)]
        if known and all(w is not None and w.type == self.word for w in known):
            return [w for w in known if w is not None]
        wide = code.rounded(values) if self.element in (BF16, F16) and per_word > 1 else None
        if wide is not None:        # two in one instruction, the second into the upper half
            name = f"cvt.{self.element}x2"
            return [code.machine(name, [I32], [b, a])[0] for a, b in zip(wide[::2], wide[1::2], strict=True)]
        memory = convert.memory_type(self.element)
        bits = [as_bits(kernel, v, memory) for v in values]
        if self.element.bytes == self.word_bytes:
            return [code.cast("zext", b, self.word) for b in bits]
        words = []
        for k in range(self.number):
            constants = [integer_value(b) for b in bits[k * per_word:(k + 1) * per_word]]
            if None not in constants:
                words.append(constant(self.word, _joined(constants, 8 * self.element.bytes)))
                continue
            lanes = Type(bits[0].type.element, per_word)
            vector = LlvmValue(lanes, "poison")
            for i in range(per_word):
                vector = code.insert(vector, bits[k * per_word + i], i)
            whole = code.bitcast(vector, Type(f"i{8 * self.word_bytes}"))
            words.append(code.cast("zext", whole, self.word))
        return words

    def unpack(self, kernel: Kernel, words: Sequence[LlvmValue]) -> list[LlvmValue]:
        """Words as elements."""
        if self.is_float:
            return list(words)
        code = kernel.code
        bits = Type(f"i{8 * self.element.bytes}")
        if self.element.bytes == self.word_bytes:
            return [from_bits(kernel, code.cast("trunc", w, bits), self.element) for w in words]
        per_word = self.word_bytes // self.element.bytes
        found = []
        for w in words:
            pieces = self._pieces(kernel, w, bits, per_word)
            if self.element != I1:      # of which any byte but 0 is a true one
                code.note_whole(pieces, w)
            found += pieces
        return found

    def _pieces(self, kernel: Kernel, word: LlvmValue, bits: Type, count: int) -> list[LlvmValue]:
        """The `count` elements of a word.

        Shifts, since LLVM joins them with what widens an element; halves stay a vector: ptxas reads its parts in place.
        """
        code, register = kernel.code, convert.register_type(self.element)
        whole = code.deferred(Type(f"i{8 * self.word_bytes}"),
                              lambda: code.cast("trunc", word, Type(f"i{8 * self.word_bytes}")))
        if register.element == "half":
            pair = Type(bits.element, count)
            vector = code.deferred(pair, lambda: code.bitcast(whole, pair))

            def piece(index: int) -> LlvmValue:
                return from_bits(kernel, code.extract(vector, index), self.element)
        else:
            def piece(index: int) -> LlvmValue:
                moved = code.op("lshr", whole, constant(whole.type, bits.bits * index)) if index else whole
                return from_bits(kernel, code.cast("trunc", moved, bits), self.element)

        return [code.deferred(register, partial(piece, i)) for i in range(count)]


def _joined(pieces: Sequence[int | None], bits: int) -> int:
    """The word of `pieces`, the lowest first, of `bits` bits each."""
    mask = (1 << bits) - 1
    return sum(((piece or 0) & mask) << bits * k for k, piece in enumerate(pieces))


def as_bits(kernel: Kernel, value: LlvmValue, memory: Type) -> LlvmValue:
    """A register value as an integer of the width that it has in memory."""
    code = kernel.code
    if value.type.element == "i1":
        return code.cast("zext", value, memory)
    if value.type.element == "ptr":
        return code.cast("ptrtoint", value, I64)
    return code.bitcast(value, value.type.as_int)


def from_bits(kernel: Kernel, bits: LlvmValue, element: Element) -> LlvmValue:
    """The opposite of `as_bits`; a byte that is not 0 is a true i1."""
    code = kernel.code
    if element == I1:
        return code.icmp("ne", bits, zero(bits.type))
    if isinstance(element, Pointer):
        return code.cast("inttoptr", bits, Type("ptr"))
    return code.bitcast(bits, convert.register_type(element))


# --- loads


def _scalar(kernel: Kernel, op: Op) -> LlvmValue:
    """A scalar, the same in all threads; where it has scratch one thread reads for all."""
    mask, other = op.operand("mask"), op.operand("other")
    guard = None if mask is None else kernel.scalar(mask)
    for_all = kernel.shared.serves(op)
    if for_all:
        guard = kernel.code.both(kernel.code.is_first_thread(), guard)
    (found,) = _read(kernel, op, kernel.scalar(op.operands[0]), guard,
                     None if other is None else [kernel.scalar(other)], 1)
    return from_first_thread(kernel, op, found, element_of(op.result.type)) if for_all else found


def from_first_thread(kernel: Kernel, op: Op, value: LlvmValue, element: Element) -> LlvmValue:
    """What the first thread holds, in all threads, through the scratch of `op`."""
    base = kernel.shared.begin(op).address
    shared_write(kernel, base, [value], element, kernel.code.is_first_thread())
    kernel.shared.meet()
    return shared_read(kernel, base, element)


def load(kernel: Kernel, op: Op) -> None:
    """A `load` of a tile or a scalar."""
    if not isinstance(op.result.type, Tile):
        kernel.bind(op.result, (_scalar(kernel, op),))
        return

    def read(op: Op, by: Sequence[tuple[int, ...]]) -> list[LlvmValue]:
        tile, layout, mask, other = op.result.type, layout_of(op.result), op.operand("mask"), op.operand("other")
        assert isinstance(tile, Tile)
        pointers = kernel.registers(op.operands[0])
        registers: list[LlvmValue] = [zero(convert.register_type(element_of(op.result.type)))] * layout.size(REGISTER)
        for group in by:
            flag = inside(kernel, tile, layout, group[0])
            if flag is False:
                continue
            guard = None if flag is True else flag
            if mask is not None:
                guard = kernel.code.both(guard, kernel.registers(mask)[group[0]])
            elsewhere = None if other is None else [kernel.registers(other)[r] for r in group]
            found = _read(kernel, op, pointers[group[0]], guard, elsewhere, len(group))
            for r, value in zip(group, found, strict=True):
                registers[r] = value
        return registers

    kernel.bind(op.result, in_runs(kernel, op, read))


def _read(kernel: Kernel, op: Op, pointer: LlvmValue, guard: LlvmValue | None, other: Sequence[LlvmValue] | None,
          count: int) -> list[LlvmValue]:
    """`count` elements at `pointer` where `guard`, else `other`, else zero."""
    return read_elements(kernel, op, element_of(op.result.type), pointer, guard, count, other)


def read_elements(kernel: Kernel, op: Op, element: Element, pointer: LlvmValue, guard: LlvmValue | None, count: int,
                  other: Sequence[LlvmValue] | None = None) -> list[LlvmValue]:
    """`count` neighbours of type `element` as `op` reads them; anything where they are masked off and nobody looks."""
    words = Words(element, count)
    default = [zero(convert.register_type(element))] * count if other is None else other
    if guard is not None and known_flag(guard) is not None:
        if not known_flag(guard):
            return list(default)
        guard = None
    initial = words.pack(kernel, default) if guard is not None and op not in kernel.unobserved else ()
    outputs = [words.word] * words.number
    cache, eviction = op.attrs.get("cache", Cache.NONE), op.attrs.get("eviction", Eviction.NORMAL)
    hints = _LOADS.get(cache, "") or _LEVELS[eviction]
    if op.attrs.get("volatile") or cache is Cache.CV:
        name, how, hints = "ld", ".volatile", ""
    else:
        name, how = ("ld" if not reads_only(kernel, op) else "ld.nc.here" if op in kernel.ahead else "ld.nc"), ""
    found = kernel.code.machine(name, outputs, [pointer], guard=guard, initial=initial, how=how, space=".global",
                                hints=hints, vector=words.vector, kind=words.kind)
    return words.unpack(kernel, found)


def reads_only(kernel: Kernel, op: Op) -> bool:
    """Whether nothing that the kernel does changes what `op` reads."""
    return kernel.alias.reads_only(op, kernel.written)


# --- stores


def store(kernel: Kernel, op: Op) -> None:
    """A `store` of a tile or a scalar."""
    pointer, value, mask = op.operands[0], op.operands[1], op.operand("mask")
    if not isinstance(pointer.type, Tile):
        guard = kernel.code.both(kernel.code.is_first_thread(), None if mask is None else kernel.scalar(mask))
        _write(kernel, op, kernel.scalar(pointer), [kernel.scalar(value)], guard)
        return

    def write(op: Op, by: Sequence[tuple[int, ...]]) -> list[LlvmValue]:
        pointer, value, mask = op.operands[0], op.operands[1], op.operand("mask")
        tile, layout = pointer.type, layout_of(pointer)
        assert isinstance(tile, Tile)
        owner = kernel.code.thread_flag(dict(layout.free()))
        for group in by:
            if group[0] & layout.free()[REGISTER]:
                continue
            flag = inside(kernel, tile, layout, group[0])
            if flag is False:
                continue
            guard = kernel.code.both(owner, None if flag is True else flag)
            guard = kernel.code.both(guard, _last_of_equals(kernel, op, layout, group[0]))
            if mask is not None:
                guard = kernel.code.both(guard, kernel.registers(mask)[group[0]])
            _write(kernel, op, kernel.registers(pointer)[group[0]], [kernel.registers(value)[r] for r in group], guard)
        return []

    in_runs(kernel, op, write)


def _last_of_equals(kernel: Kernel, op: Op, layout: Layout, register: int) -> LlvmValue | None:
    """Whether this is the last of a run of elements that are known to have one address: only that one is stored.

    Runs in which the mask differs, and addresses that turn out to be equal, are left to chance.
    """
    code, pointer, mask = kernel.code, op.operands[0], op.operand("mask")
    fact, shape = kernel.axis.fact(pointer), shape_of(pointer.type)
    flag: LlvmValue | None = None
    for d, (run, size) in enumerate(zip(fact.constancy, shape, strict=True)):
        if run == 1 or size == 1 or (mask is not None and kernel.axis.fact(mask).constancy[d] % min(run, size)):
            continue
        place = code.index(layout.coordinate(d), register)
        is_end = code.icmp("eq", place, constant(I32, size - 1))
        if run < size:
            ends_run = code.icmp("eq", code.op("urem", place, constant(I32, run)), constant(I32, run - 1))
            is_end = code.op("or", is_end, ends_run)
        flag = code.both(flag, is_end)
    return flag


def _write(kernel: Kernel, op: Op, pointer: LlvmValue, values: Sequence[LlvmValue], guard: LlvmValue | None) -> None:
    if guard is not None and known_flag(guard) is not None:
        if not known_flag(guard):
            return
        guard = None
    words = Words(element_of(op.operands[1].type), len(values))
    hints = _STORES.get(op.attrs["cache"], "") or _LEVELS[op.attrs["eviction"]]
    kernel.code.machine("st", [], [pointer, *words.pack(kernel, values)], guard=guard, space=".global", hints=hints,
                        vector=words.vector, kind=words.kind)


# --- shared memory, an element at a time


def shared_read(kernel: Kernel, address: LlvmValue, element: Element) -> LlvmValue:
    """The element at `address` (i32) of shared memory."""
    return shared_run(kernel, address, element, 1)[0]


def shared_run(kernel: Kernel, address: LlvmValue, element: Element, count: int) -> list[LlvmValue]:
    """The `count` elements (a power of two) at an `address` that is a multiple of 16 bytes, or of them all."""
    at_once = min(count, VECTOR_BYTES // element.bytes)
    words, code = Words(element, at_once), kernel.code
    found: list[LlvmValue] = []
    for first in range(0, count, at_once):
        place = code.op("add", address, constant(I32, first * element.bytes)) if first else address
        found += words.unpack(kernel, code.machine("ld", [words.word] * words.number, [place], how="", space=".shared",
                                                   hints="", vector=words.vector, kind=words.kind))
    return found


def shared_write(kernel: Kernel, address: LlvmValue, values: Sequence[LlvmValue], element: Element,
                 guard: LlvmValue | None = None) -> None:
    """Store elements side by side; the address is a multiple of their size."""
    words = Words(element, len(values))
    kernel.code.machine("st", [], [address, *words.pack(kernel, values)], guard=guard, space=".shared", hints="",
                        vector=words.vector, kind=words.kind)


def shared_address(kernel: Kernel, base: LlvmValue, index: LlvmValue, element_bytes: int) -> LlvmValue:
    """base + index * element_bytes, as i32."""
    code = kernel.code
    return code.op("add", base, code.op("mul", index, constant(I32, element_bytes)))
