"""One side of a trip through shared memory: the instructions, their addresses, and exactly how long they take.

An `Access` is data that code generation prints and a machine can execute; tests do the latter.  All offsets count
elements and are combined by xor: an instruction's address is `step.offset`, xored with the images of the thread's lane
and warp bits.

What is used about the machine, all of it: 32 banks of 4 bytes, so a wavefront carries 128 bytes; lanes that want the
same word are served together; a request of 8 or 16 bytes a lane is served by half or quarter warps in lane order; a
matrix of ldmatrix or stmatrix is one wavefront of eight rows of 16 bytes.  Lanes are sent by a linear map to
2^rank(words) words in 2^rank(banks) banks, evenly, so the number of wavefronts is a power of two known from two ranks.
Tests: tests/layout/test_access.py.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.layout import f2
from tilewright.layout.linear import LANE, OFFSET, REGISTER, WARP, Bases, Layout, log2
from tilewright.layout.route import LiveRegisters, live_registers

VECTOR_BYTES = 16       # the widest access of a lane, and a row of a matrix
WORD_BYTES = 4
BANKS = 32
LANE_BITS = 5
MATRIX_ROWS = 8
SELECT = 0.5            # cost of one register select or instruction issue, in wavefronts


class Form(enum.Enum):
    """How the instructions of an access name their elements."""

    VECTOR = "vector"                   # consecutive elements of each lane: ld.shared.v4 and its kin
    MATRIX = "matrix"                   # ldmatrix, stmatrix
    TRANSPOSED = "matrix.trans"         # ldmatrix.trans, stmatrix.trans: 16-bit elements only


@dataclass(frozen=True)
class Step:
    """One instruction: the registers that it moves, in its order, and its offset where all thread bits are 0.

    In a matrix form the registers come matrix by matrix, those packed into one 32-bit register side by side.
    """

    registers: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Access:
    """How a value in a distributed layout is written to or read from a layout of shared memory."""

    form: Form
    store: bool
    width: int          # VECTOR: consecutive elements; else: matrices in an instruction, 1, 2 or 4
    steps: tuple[Step, ...]
    by_lane: Bases      # VECTOR: a lane's offset.  Else that of the row whose address the lane gives: row lane mod 8
    by_warp: Bases      # of matrix lane / 8; lanes past the last matrix are ignored
    idle_lanes: int     # a store is made by the threads whose bits under these masks are 0: the others hold copies
    idle_warps: int
    copies: tuple[int, ...]     # a load: for each register the one that a step fills with the same (often itself)
    wavefronts: int     # of a warp, over all steps
    issued: int         # the same if no lanes met in a bank
    ideal: int          # the fewest wavefronts that could carry the bytes, with any instructions

    @property
    def conflict_free(self) -> bool:
        """Whether no wavefront is repeated because lanes meet in a bank."""
        return self.wavefronts == self.issued

    @property
    def cost(self) -> float:
        return self.wavefronts + SELECT * len(self.steps)


def access(layout: Layout, shared: Layout, item_bytes: int, form: Form = Form.VECTOR, *,
           store: bool = False) -> Access | None:
    """The instructions that move a value of `layout` to or from `shared`; None if the form does not fit.

    VECTOR always fits, with the cheapest width of vectors, which mostly is the widest that the offsets allow.
    """
    return _access(layout, shared, item_bytes, form, store)


def best_access(layout: Layout, shared: Layout, item_bytes: int, *, store: bool = False,
                forms: Sequence[Form] = tuple(Form)) -> Access:
    """The cheapest access for a layout of shared memory that is fixed already (a copy engine or wgmma chose it)."""
    found = [a for form in dict.fromkeys([Form.VECTOR, *forms])
             if (a := access(layout, shared, item_bytes, form, store=store)) is not None]
    return min(found, key=lambda a: a.cost)


def access_cost(layout: Layout, shared: Layout, item_bytes: int, form: Form = Form.VECTOR, *,
                store: bool = False) -> float | None:
    """`access(...).cost`, without writing the instructions down."""
    best = _side(layout, shared, item_bytes, store).best(form)
    return None if best is None else best.cost


@lru_cache(maxsize=4096)
def _access(layout: Layout, shared: Layout, item_bytes: int, form: Form, store: bool) -> Access | None:
    side = _side(layout, shared, item_bytes, store)
    best = side.best(form)
    return None if best is None else side.written(best)


def _side(layout: Layout, shared: Layout, item_bytes: int, store: bool) -> _Side:
    if shared.shape != layout.shape or len(shared.bases(OFFSET)) != shared.bits:
        raise ValueError(f"{shared} does not hold a tile of {layout}")
    live = live_registers(layout)
    inverse = shared.inverse().columns
    free = layout.free() if store else {}
    return _Side(live, item_bytes, store, free.get(LANE, 0), free.get(WARP, 0),
                 *(tuple(f2.apply(inverse, b) for b in live.layout.bases(n)) for n in (REGISTER, LANE, WARP)))


def conflict(offsets: Sequence[int], item_bytes: int) -> int:
    """Into how many wavefronts lanes at sums of these offsets fall, 1 if no two of them meet in a bank."""
    words = [o * item_bytes // WORD_BYTES for o in offsets]
    return 1 << f2.rank(words) - f2.rank(w & BANKS - 1 for w in words)


def _without(offsets: Bases, idle: int) -> list[int]:
    """The offsets of lanes or warps; a bit of those that store nothing moves nothing."""
    return [0 if idle >> i & 1 else o for i, o in enumerate(offsets)]


@dataclass(frozen=True)
class _Quote:
    """A way to make an access: what it costs, and what is needed to write it down."""

    form: Form
    width: int
    instructions: int
    wavefronts: int
    issued: int
    packed: tuple[int, ...] = ()    # matrices: the packed register bits, those that number the matrices of an
    chosen: tuple[int, ...] = ()    # instruction, and the offsets of the rows of one
    down: tuple[int, ...] = ()

    @property
    def cost(self) -> float:
        return self.wavefronts + SELECT * self.instructions


@dataclass(frozen=True)
class _Side:
    """The offsets of one register file in shared memory, bit by bit."""

    live: LiveRegisters
    item_bytes: int
    store: bool
    idle_lanes: int
    idle_warps: int
    registers: Bases
    lanes: Bases
    warps: Bases

    def best(self, form: Form) -> _Quote | None:
        """The cheapest way in a form; of equals the widest vector, the first packed register."""
        quotes = list(reversed(self._vectors())) if form is Form.VECTOR else self._matrices(form)
        return min(quotes, key=lambda q: q.cost, default=None)

    def _vectors(self) -> list[_Quote]:
        """Vectors as wide as the registers' offsets and the alignment of the other threads' allow, and narrower."""
        lanes = _without(self.lanes, self.idle_lanes)
        span, others = f2.Span(self.registers), [*lanes, *_without(self.warps, self.idle_warps)]
        out, v = [self._vector(0, lanes)], 0
        while self.item_bytes << v + 1 <= VECTOR_BYTES and 1 << v in span and not any(o & (2 << v) - 1 for o in others):
            v += 1
            out.append(self._vector(v, lanes))
        return out

    def _vector(self, v: int, lanes: list[int]) -> _Quote:
        """Vectors of 2**v elements."""
        count = 1 << len(self.registers) - v
        halvings = max(0, log2(self.item_bytes << v) - log2(2 * WORD_BYTES) + 1)
        together = max(0, LANE_BITS - halvings)
        # a half or quarter of a warp in which no lane stores takes no wavefront
        passes = 1 << sum(not self.idle_lanes >> i & 1 for i in range(together, len(lanes)))
        issued = count * passes
        return _Quote(Form.VECTOR, 1 << v, count, issued * conflict(lanes[:together], self.item_bytes), issued)

    def _matrices(self, form: Form) -> list[_Quote]:
        """ldmatrix or stmatrix, four, two or one matrices at a time."""
        if self.store and self.idle_lanes:
            return []
        first = [self.registers.index(1 << i) for i in range(packed_bits(self.item_bytes)) if 1 << i in self.registers]
        heads = [first] if form is Form.MATRIX else [[i] for i in range(len(self.registers))]
        offsets, out = [*self.registers, *self.lanes, *_without(self.warps, self.idle_warps)], []
        for packed, row, down in matrix_rows(self.registers, self.lanes, self.item_bytes, form, heads):
            inside = (1 << len(row)) - 1
            if row == [1 << i for i in range(len(row))] and sum(o & inside != 0 for o in offsets) == len(row):
                rest = [i for i in range(len(self.registers)) if i not in packed]
                issued = 1 << len(rest)
                chosen = tuple(rest[:2])
                out.append(_Quote(form, 1 << len(chosen), issued >> len(chosen),
                                  issued * conflict(down, self.item_bytes), issued, tuple(packed), chosen, tuple(down)))
        return out

    def written(self, q: _Quote) -> Access:
        """The instructions of a quote."""
        if q.form is Form.VECTOR:
            by_lane = self.lanes
            at = sorted((f2.apply(self.registers, i), self.live.numbers[i]) for i in range(1 << len(self.registers)))
            steps = [Step(tuple(r for _, r in at[i:i + q.width]), at[i][0]) for i in range(0, len(at), q.width)]
        else:
            by_lane = (*q.down, *(self.registers[i] for i in q.chosen), 0, 0)[:LANE_BITS]
            order = [*q.packed, *q.chosen]
            others = [i for i in range(len(self.registers)) if i not in order]
            steps = [Step(tuple(self.live.numbers[first | f2.scatter(j, order)] for j in range(1 << len(order))),
                          f2.apply(self.registers, first))
                     for first in (f2.scatter(k, others) for k in range(1 << len(others)))]
        copies = () if self.store else tuple(self.live.numbers[i] for i in self.live.index)
        active = len(self.lanes) - self.idle_lanes.bit_count()
        ideal = max(1, ((self.item_bytes << len(self.registers)) << active) // (BANKS * WORD_BYTES))
        return Access(q.form, self.store, q.width, tuple(steps), by_lane, self.warps, self.idle_lanes, self.idle_warps,
                      copies, q.wavefronts, q.issued, ideal)


def packed_bits(item_bytes: int) -> int:
    """How many register bits number the elements in a 32-bit register."""
    return max(0, log2(WORD_BYTES) - log2(item_bytes))


def matrix_rows(registers: Sequence[int], lanes: Sequence[int], item_bytes: int, form: Form,
                heads: Sequence[list[int]]) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """The ways in which a register file is made of matrix rows: (packed register bits, row, rows).

    `heads` are the register bits to try as the packed ones.  `row` lists the images, in order, of the bits that must
    be 16 consecutive bytes, `rows` those of the three bits that number the eight rows.  PTX ISA, ldmatrix: thread
    4 r + c holds the c-th 32 bits of row r; with .trans, elements 2 c and 2 c + 1 of column r.
    """
    if len(lanes) != LANE_BITS or item_bytes > WORD_BYTES or (form is Form.TRANSPOSED and item_bytes != 2):
        return
    for head in heads:
        images = [registers[i] for i in head]
        if len(head) == packed_bits(item_bytes):
            if form is Form.MATRIX:
                yield head, [*images, *lanes[:2]], list(lanes[2:])
            else:
                yield head, list(lanes[2:]), [*images, *lanes[:2]]
