"""The matrix product on tensor cores: operands through shared memory or from registers, then mma.sync.

An operand that its threads can rearrange among registers or lanes (the result of another dot) is taken as it is; any
other goes through shared memory, and each load of a fragment is written right before the first instruction that needs
it, so that few fragments live at a time.
Before: a `dot` whose accumulator has the layout that `mma` chose for it.  Tests: tests/targets/nvidia/test_matrix.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import F8E4M3, F8E5M2, F16, F32, Scalar, Tile, element_of
from tilewright.layout.linear import Layout, pack
from tilewright.layout.plan import Plan
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import FLOAT, I16, I32, Type, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia import dot as multiply_adds
from tilewright.targets.nvidia.access import Words
from tilewright.targets.nvidia.conversion import Loads, converted, stored
from tilewright.targets.nvidia.copies import loads_of
from tilewright.targets.nvidia.mma import COLUMNS, ROWS, Mma, of, operand_layout
from tilewright.targets.nvidia.scratch import is_whole_trip, way_of
from tilewright.targets.nvidia.state import Kernel

_WORD_BITS = 32
_EXPONENT = 0x7F800000
# [part][instruction] -> the words, of 32 bits (64 for f64), of one operand
FragmentWords = list[list[list[LlvmValue]]]
_RESULTS = {"f32": FLOAT, "s32": I32, "f64": Type("double")}


def dot(kernel: Kernel, op: Op) -> None:
    """a @ b + acc; on tensor cores, or by multiply-adds."""
    chosen = of(op, kernel.capability, kernel.code.num_warps)
    if chosen is None:
        multiply_adds.dot(kernel, op)
    else:
        _on_tensor_cores(kernel, op, *chosen)


def _on_tensor_cores(kernel: Kernel, op: Op, mma: Mma, warps: tuple[int, int]) -> None:
    code = kernel.code
    left, right = _operands(kernel, op, mma, warps)
    layout, element = layout_of(op.result), element_of(op.result.type)
    assert isinstance(element, Scalar)
    wide = element.is_float and element.bits < 32
    sums = [convert.widen(code, v, element) if wide else v for v in kernel.registers(op.operands[2])]
    places = _places(layout)
    shape = layout.shape
    blocks, depth = list(_blocks(layout)), layout_of(op.operands[0]).shape[-1]
    for k in range(0, depth, mma.span):
        for batch, row, column in blocks:
            a, b = left.words((*batch, row, k)), right.words((*batch, k, column))
            at = [pack(shape, (*batch, row + r, column + c)) for r in range(0, ROWS, 8) for c in range(2)]
            _multiply(kernel, mma, a, b, sums, [places[i] for i in at])
    kernel.bind(op.result, [convert.narrow(code, v, element) if wide else v for v in _copied(layout, sums)])


def _places(layout: Layout) -> dict[int, int]:
    """The register of the first thread that holds each index; the lowest of several."""
    return {index: r for r, index in reversed(list(enumerate(layout.held)))}


def _copied(layout: Layout, sums: Sequence[LlvmValue]) -> list[LlvmValue]:
    """Registers that replicate others hold what those do."""
    places = _places(layout)
    return [sums[places[index]] for index in layout.held]


def _blocks(layout: Layout) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """(batch, row, column) of each fragment of the accumulator in the first thread, rows fastest."""
    *batches, rows, columns = layout.shape
    held = set(layout.held)
    for index in range(layout.numel // (rows * columns)):
        batch = _unpacked(batches, index)
        for column in range(0, columns, COLUMNS):
            for row in range(0, rows, ROWS):
                if pack(layout.shape, (*batch, row, column)) in held:
                    yield batch, row, column


def _unpacked(shape: Sequence[int], index: int) -> tuple[int, ...]:
    found: list[int] = []
    for size in reversed(shape):
        found.append(index % size)
        index //= size
    return tuple(reversed(found))


def _multiply(kernel: Kernel, mma: Mma, a: FragmentWords, b: FragmentWords,
              sums: list[LlvmValue], places: Sequence[int]) -> None:
    """One fragment of A by one of B, added to the registers `places` of `sums`.

    """
    result = _RESULTS[mma.result]
    for i, j in mma.products:
        for left, right in zip(a[i], b[j], strict=True):
            for half in range(ROWS // mma.rows):
                rows = left if mma.rows == ROWS else left[half::2]
                mine = places if mma.rows == ROWS else places[2 * half:2 * half + 2]
                steps = [(rows, right)] if mma.rows == ROWS else [([r], [s]) for r, s in zip(rows, right, strict=True)]
                for x, y in steps:
                    made = kernel.code.machine(
                        "mma", [result] * len(mine), [*x, *y, *(sums[p] for p in mine)],
                        groups=(len(x), len(y), len(mine)), shape=mma.shape, d=mma.result, a=mma.operand)
                    for p, v in zip(mine, made, strict=True):
                        sums[p] = v


# --- operands


class Fragments:
    """An operand's elements in fragments; those that lie in shared memory are loaded when they are asked for."""

    def __init__(self, kernel: Kernel, mma: Mma, which: str, layout: Layout, element: Scalar) -> None:
        self._kernel, self._mma, self._which, self._layout, self._element = kernel, mma, which, layout, element
        self._places = _places(layout)
        self._values: dict[int, LlvmValue] = {}
        self._loads: Loads | None = None
        self._words: dict[tuple[int, ...], FragmentWords] = {}

    def hold(self, registers: Sequence[LlvmValue]) -> None:
        """All elements are in registers already."""
        self._values = dict(enumerate(registers))

    def load_from(self, loads: Loads) -> None:
        self._loads = loads

    def words(self, start: tuple[int, ...]) -> FragmentWords:
        """[part][instruction] -> the words of the fragment that begins at `start`."""
        known = self._words.get(start)
        if known is None:
            known = self._words[start] = self._make(start)
        return known

    def _make(self, start: tuple[int, ...]) -> FragmentWords:
        mma = self._mma
        # (row, step along k) of the fragment's registers, in PTX's order
        rows = (0, 8) if self._which == "A" else (0,)
        places = [self._run(start, row, step) for step in (0, 4 * mma.width) for row in rows]
        loaded = [self._loaded(run) for run in places]
        if not all(loaded):
            loaded = [self._widened(run) for run in places]
        if all(loaded):
            return [[[words[i] for words in loaded] for i in range(len(loaded[0]))]]
        runs = [[self._element_at(r) for r in run] for run in places]
        split = [[self._split(v) for v in run] for run in runs]
        return [[[self._word([v[part] for v in run[i:i + mma.per_word]]) for run in split]
                 for i in range(0, mma.width, mma.per_word)] for part in range(len(split[0][0]))]

    def _run(self, start: tuple[int, ...], row: int, step: int) -> list[int]:
        """The registers of the neighbours along k at one place."""
        *batch, m, k = start if self._which == "A" else (*start[:-2], start[-1], start[-2])
        found = []
        for i in range(self._mma.width):
            at = (m + row, k + step + i)
            index = pack(self._layout.shape, (*batch, *(at if self._which == "A" else at[::-1])))
            found.append(self._places[index])
        return found

    def _loaded(self, run: Sequence[int]) -> list[LlvmValue]:
        """The words of a run as the instruction takes them, where just these are loaded; else none."""
        mma, per_word = self._mma, self._mma.per_word
        as_they_are = mma.element == self._element != F32 and mma.element.bits * per_word == _WORD_BITS
        if self._loads is None or not as_they_are:
            return []
        words = [self._loads.word(run[i:i + per_word]) for i in range(0, mma.width, per_word)]
        return [w for w in words if w is not None] if None not in words else []

    def _widened(self, run: list[int]) -> list[LlvmValue]:
        """The words of a run of eight bits each as f16, of which one instruction converts two; else none."""
        code = self._kernel.code
        if not code.has_fp8 or self._element not in (F8E4M3, F8E5M2) or self._mma.element != F16:
            return []
        return [code.machine(f"cvt.from.{self._element}", [I32], [pair])[0] for pair in self._pairs(run)]

    def _pairs(self, run: list[int]) -> list[LlvmValue]:
        """The bytes of a run, two in 16 bits: parts of the word that was loaded, where just these are."""
        code = self._kernel.code
        word = self._loads.word(run) if self._loads is not None else None
        if word is not None and word.type == I32 and len(run) == 4:
            return [code.cast("trunc", word, I16), code.cast("trunc", code.op("lshr", word, constant(I32, 16)), I16)]
        bytes_ = [code.cast("zext", self._unconverted(r), I16) for r in run]
        return [code.op("or", low, code.op("shl", high, constant(I16, 8)))
                for low, high in zip(bytes_[::2], bytes_[1::2], strict=True)]

    def _element_at(self, register: int) -> LlvmValue:
        """An element, converted to what the instruction takes."""
        value = self._unconverted(register)
        if self._mma.element == self._element:
            return value
        return convert.convert_float(self._kernel.code, value, self._element, self._mma.element)

    def _unconverted(self, register: int) -> LlvmValue:
        if register not in self._values:
            assert self._loads is not None
            self._values.update(self._loads.with_register(register))
        return self._values[register]

    def _split(self, value: LlvmValue) -> list[LlvmValue]:
        """A value as the terms that are multiplied, in the form in which they are packed."""
        code, mma = self._kernel.code, self._mma
        if mma.element != F32:
            return [value]
        term, exact = _rounded(self._kernel, value, mma.operand)
        if mma.parts == 1:
            return [term]
        bits = code.op("and", code.bitcast(value, I32), constant(I32, _EXPONENT))
        finite = code.icmp("ne", bits, constant(I32, _EXPONENT))
        terms, rest = [term], code.select(finite, code.op("fsub", value, exact), constant(FLOAT, 0.0))
        for _ in range(1, mma.parts):
            low, exact = _rounded(self._kernel, rest, mma.operand)
            terms.append(low)
            rest = code.op("fsub", rest, exact)
        return [*terms, code.select(finite, term, constant(term.type, 0))]

    def _word(self, values: Sequence[LlvmValue]) -> LlvmValue:
        if values[0].type.bits >= 32:
            (value,) = values
            return value
        element = self._mma.element
        if element == F32:      # halves of two bf16
            code = self._kernel.code
            low, high = (code.cast("zext", v, I32) for v in values)
            return code.op("or", low, code.op("shl", high, constant(I32, 16)))
        (word,) = Words(element, len(values)).pack(self._kernel, values)
        return word


def _rounded(kernel: Kernel, value: LlvmValue, to: str) -> tuple[LlvmValue, LlvmValue]:
    """An f32 rounded to tf32 or bf16: as the instruction takes it, and as an f32."""
    code = kernel.code
    if to == "tf32":
        (word,) = code.machine("cvt.tf32", [I32], [value])
        return word, code.bitcast(word, FLOAT)
    (half,) = code.machine("cvt.bf16", [I16], [value])
    whole = code.op("shl", code.cast("zext", half, I32), constant(I32, 16))
    return half, code.bitcast(whole, FLOAT)


def _operands(kernel: Kernel, op: Op, mma: Mma, warps: tuple[int, int]) -> tuple[Fragments, Fragments]:
    """The fragments of both operands; what goes through shared memory is stored there now."""
    made: list[Fragments] = []
    trips: list[tuple[Fragments, Plan, Value]] = []
    for which, value in zip("AB", op.operands, strict=False):
        layout = operand_layout(which, op, mma, warps)
        element = _scalar(value)
        fragments = Fragments(kernel, mma, which, layout, element)
        made.append(fragments)
        loads = loads_of(kernel, value)
        if loads is not None and layout_of(value) == layout:
            fragments.load_from(loads)
            continue
        way = way_of(kernel.capability, layout_of(value), layout, element)
        if is_whole_trip(way):
            trips.append((fragments, way, value))
        else:
            fragments.hold(converted(kernel, op, way, kernel.registers(value), element))
    if trips:
        _through_shared(kernel, op, trips)
    return made[0], made[1]


def _through_shared(kernel: Kernel, op: Op, trips: Sequence[tuple[Fragments, Plan, Value]]) -> None:
    scratch = kernel.shared.begin(op)
    places = [scratch.array(k) for k in range(len(trips))]
    for (_, way, value), place in zip(trips, places, strict=True):
        stored(kernel, way, place, kernel.registers(value), _scalar(value))
    kernel.shared.meet()
    for (fragments, way, value), place in zip(trips, places, strict=True):
        assert way.trip is not None
        fragments.load_from(Loads(kernel, way.trip.load, place, _scalar(value)))


def _scalar(value: Value) -> Scalar:
    assert isinstance(value.type, Tile) and isinstance(value.type.element, Scalar)
    return value.type.element
