"""Conversions inside a thread and inside a warp: register moves and rounds of shuffles.

A round is one shuffle in which every lane sends one register (as much as 32 bits hold) and receives one.  In the space
of (destination register, lane) bits a round is a coset of a subspace K that contains each lane once and in which no
lane must send two different registers: a common complement of {lane = 0} and of {sent by lane 0}.  K inside {sender =
receiver} lets as many rounds as possible stay in the thread, which need no shuffle; the other choice takes fewer
selects; both are made and the cheaper one is taken.  With replicas there may be no such K; then receivers that want
different registers of one sender are sent to different copies of it.  Everything is data: xors of constants with images
of the thread's lane and warp bits.
Tests: tests/layout/test_shuffle.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.layout import f2
from tilewright.layout.access import SELECT, WORD_BYTES, packed_bits
from tilewright.layout.linear import BLOCK, LANE, REGISTER, WARP, Bases, Layout
from tilewright.layout.route import LiveRegisters, Reach, Source, live_registers, reach, source


@dataclass(frozen=True)
class Moves:
    """A conversion inside each thread: register r of the result is register `take[r]`, xored with the images of the
    thread's lane and warp bits (all 0: a renaming; else selects)."""

    take: tuple[int, ...]
    by_lane: Bases
    by_warp: Bases

    @property
    def cost(self) -> float:
        """In wavefronts: a select a register for each independent bit that the register number depends on."""
        return SELECT * f2.rank([*self.by_lane, *self.by_warp]) * len(self.take)


@dataclass(frozen=True)
class Round:
    """One round.  The elements that travel together are listed side by side in `take` and `put`."""

    take: tuple[int, ...]   # registers that a lane sends (xored with the images of the *sender's* bits)
    lane: int               # the lane that a lane receives from (xored with the images of its lane and warp bits)
    put: tuple[int, ...]    # registers of the result (xored with the images of the receiver's lane bits)
    moves: bool             # False: every lane receives from itself, so nothing is shuffled


@dataclass(frozen=True)
class Shuffles:
    """A conversion inside each warp."""

    rounds: tuple[Round, ...]
    take_by_lane: Bases
    take_by_warp: Bases
    from_by_lane: Bases
    from_by_warp: Bases
    put_by_lane: Bases
    copies: tuple[int, ...]     # for each register of the result the one that a round fills with the same
    words: int              # shuffle instructions in a round: 2 for 8-byte elements

    @property
    def butterfly(self) -> bool:
        """Whether each round exchanges with the lane whose number is xored with the constant `Round.lane`."""
        return not any(self.from_by_warp) and all(b == 1 << i for i, b in enumerate(self.from_by_lane))

    @property
    def instructions(self) -> int:
        return self.words * sum(r.moves for r in self.rounds)

    @property
    def cost(self) -> float:
        """In wavefronts: a shuffle takes as long as one; a register number that depends on the lane takes selects."""
        dynamic = f2.rank([*self.take_by_lane, *self.take_by_warp]) + f2.rank(self.put_by_lane)
        return self.instructions + SELECT * dynamic * self.words * len(self.rounds)


@lru_cache(maxsize=4096)
def register_moves(src: Layout, dst: Layout) -> Moves | None:
    """The conversion as moves inside each thread; None if an element has to leave its thread."""
    if reach(src, dst) > Reach.THREAD:
        return None
    images = _by_input(dst, source(src, dst).register)
    take = tuple(f2.apply(images[REGISTER], r) for r in range(dst.size(REGISTER)))
    if any(images.get(BLOCK, ())):
        return None     # which register depends on the block: not worth an instruction of its own, goes through memory
    return Moves(take, images[LANE], images[WARP])


def _by_input(layout: Layout, columns: Bases) -> dict[str, Bases]:
    """Columns over the flattened index of `layout`, by input."""
    out, at = {}, 0
    for name, bases in layout.inputs:
        out[name] = columns[at:at + len(bases)]
        at += len(bases)
    return out


@lru_cache(maxsize=4096)
def warp_shuffles(src: Layout, dst: Layout, item_bytes: int) -> Shuffles | None:
    """The conversion as rounds of shuffles; None if an element has to leave its warp, or (with replicas only) if no
    set of rounds has one register per sender."""
    if reach(src, dst) > Reach.WARP:
        return None
    live = live_registers(dst)
    path = source(src, live.layout)
    if any(_by_input(live.layout, path.register).get(BLOCK, ())):
        return None
    return _Rounds(src, live, path, item_bytes).plan()


def _copies_of_zero(src: Layout) -> list[tuple[int, int]]:
    """(register, lane) bits of places that hold what register 0 of lane 0 holds, one for each independent lane."""
    count = len(src.bases(REGISTER))
    zero = f2.kernel([*src.bases(REGISTER), *src.bases(LANE)])
    return [(v & (1 << count) - 1, v >> count) for v in zero if v >> count]


class _Rounds:
    """The search for K.  Vectors of the space have the destination's register bits that do not travel together low,
    the lane bits above."""

    def __init__(self, src: Layout, live: LiveRegisters, path: Source, item_bytes: int) -> None:
        self.live, self.item_bytes, self.lanes = live, item_bytes, len(src.bases(LANE))
        self.copies_of_zero = _copies_of_zero(src)
        self.take, self.sender = _by_input(live.layout, path.register), _by_input(live.layout, path.lane)
        # directions in which the sender stays the same: one 32-bit register carries those elements
        self.together = f2.kernel(self.sender[REGISTER])[:packed_bits(item_bytes)]
        units = [1 << i for i in range(len(live.layout.bases(REGISTER)))]
        self.cosets = f2.extend(self.together, units)       # the register directions that rounds go through
        self.k = len(self.cosets)
        self.taken = [*(f2.apply(self.take[REGISTER], v) for v in self.cosets), *self.take[LANE]]
        self.sent_by = [*(f2.apply(self.sender[REGISTER], v) for v in self.cosets), *self.sender[LANE]]

    def plan(self) -> Shuffles | None:
        """The cheaper of two ways to choose K; None if in both one sender would have to send two registers at once."""
        ways = [way for stay in (True, False) if (way := self._rounds(self._subspace(stay))) is not None]
        return min(ways, key=lambda way: way.cost, default=None)

    def _rounds(self, chosen: list[int]) -> Shuffles | None:
        graph = f2.Span(v >> self.k for v in chosen)
        # the element of K at each lane bit: which registers it twists, who sends, from which register
        at_lane = [f2.apply(chosen, graph.coordinates(1 << i)) for i in range(self.lanes)]
        sender = [f2.apply(self.sent_by, v) for v in at_lane]
        taken = [f2.apply(self.taken, v) for v in at_lane]
        sender, taken = self._apart(sender, taken)
        by_sender = f2.linear_map(sender, taken, self.lanes)
        if by_sender is None:
            return None
        return self._shuffles([v & (1 << self.k) - 1 for v in at_lane], sender, by_sender)

    def _apart(self, sender: list[int], taken: list[int]) -> tuple[list[int], list[int]]:
        """(sender, register) at each lane bit, with receivers that want different registers of one sender sent to
        different copies: a copy is an element of the kernel of `src`, added where the two receivers differ."""
        quarrel = [x for x in f2.kernel(sender) if f2.apply(taken, x)]
        wanted = f2.Span(f2.apply(taken, x) for x in quarrel)
        lanes = f2.Span(sender)
        copies = [c for c in self.copies_of_zero if lanes.add(c[1])][:len(wanted)]
        if len(copies) < len(wanted):
            return sender, taken
        for x, which in [(x, wanted.coordinates(f2.apply(taken, x))) for x in quarrel]:
            lead = x.bit_length() - 1       # `kernel` gives each of its vectors a leading bit that no other one has
            sender[lead] ^= f2.apply([lane for _, lane in copies], which)
            taken[lead] ^= f2.apply([register for register, _ in copies], which)
        return sender, taken

    def _subspace(self, prefer_staying: bool) -> list[int]:
        """K: if possible, no sender has two registers to send; first, as many vectors as can be stay in the thread.

        Staying saves shuffles, and may cost selects.
        """
        whole = [1 << i for i in range(self.k + self.lanes)]
        at_zero = whole[:self.k]
        # directions in which one source register feeds several places are a broadcast: harmless in a round
        same = f2.kernel([s << 32 | t for s, t in zip(self.sent_by, self.taken)])
        from_zero = f2.extend(same, f2.kernel(self.sent_by))
        received_by = [0] * self.k + [1 << i for i in range(self.lanes)]
        stay = f2.kernel([s ^ r for s, r in zip(self.sent_by, received_by)])
        inside = f2.intersect(at_zero, stay)        # in `stay`, lane 0 receives and sends the same
        chosen = f2.extend(inside, stay) if prefer_staying else []
        rest = f2.extend(chosen, whole)
        p = f2.intersect([*at_zero, *chosen], rest)
        q = f2.intersect([*from_zero, *chosen], rest)
        chosen += f2.common_complement(p, q, rest)
        chosen += f2.extend([*at_zero, *chosen], whole)     # whatever lanes are missing
        return f2.extend(at_zero, chosen)

    def _shuffles(self, twist: list[int], sender: list[int], by_sender: list[int]) -> Shuffles:
        by_warp = self.sender[WARP]
        stays = not any(by_warp) and all(s == 1 << i for i, s in enumerate(sender))
        take_by_warp = tuple(t ^ f2.apply(by_sender, s) for t, s in zip(self.take[WARP], by_warp))
        rounds = []
        for coset in range(1 << self.k):
            lane = f2.apply(self.sent_by, coset)
            # the receiver knows the register by its own bits, the sender must find it by the sender's
            first = f2.apply(self.taken, coset) ^ f2.apply(by_sender, lane)
            members = [f2.apply(self.together, m) for m in range(1 << len(self.together))]
            take = tuple(first ^ f2.apply(self.take[REGISTER], m) for m in members)
            put = tuple(self.live.numbers[f2.apply(self.cosets, coset) ^ m] for m in members)
            rounds.append(Round(take, lane, put, not (stays and lane == 0)))
        copies = tuple(self.live.numbers[i] for i in self.live.index)
        return Shuffles(tuple(rounds), tuple(by_sender), take_by_warp, tuple(sender), by_warp,
                        tuple(self.live.numbers[f2.apply(self.cosets, t)] for t in twist), copies,
                        max(1, self.item_bytes // WORD_BYTES))
