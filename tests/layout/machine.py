"""A small machine that executes conversion plans: registers, lanes, warps, the bytes of shared memory.

It reads the data of a plan only (instructions, registers, addresses), knows the instructions from the PTX ISA and
counts wavefronts bank by bank.  It refuses addresses out of range or misaligned, bytes that were never written, two
threads that write one byte, and a read before the barrier.  Values are [registers, threads] arrays of ints.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.layout.access import Access, Form
from tilewright.layout.shuffle import Moves, Shuffles

BYTES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Fault(Exception):
    """The plan did something that a GPU would not do, or that it would do wrongly."""


def by_bits(columns: Sequence[int], values: np.ndarray) -> np.ndarray:
    """The images of an array of bit strings under a matrix."""
    out = np.zeros_like(values)
    for i, c in enumerate(columns):
        out ^= (values >> i & 1) * c
    return out


class Machine:
    """One block.  `wavefronts` and `shuffles` count what warp 0 took."""

    def __init__(self, warps: int, scratch_bytes: int, item_bytes: int) -> None:
        self.threads = np.arange(32 * warps)
        self.lane, self.warp = self.threads % 32, self.threads // 32
        self.memory = np.zeros(scratch_bytes, np.uint8)
        self.written = np.zeros(scratch_bytes, bool)
        self.visible = np.zeros(scratch_bytes, bool)
        self.item = item_bytes
        self.wavefronts = self.shuffles = 0

    def barrier(self) -> None:
        self.visible = self.written.copy()

    # ---- registers and shuffles

    def _pick(self, x: np.ndarray, register: np.ndarray) -> np.ndarray:
        """Each thread's register of that number."""
        if register.min() < 0 or register.max() >= len(x):
            raise Fault("no such register")
        return x[register, self.threads]

    def move(self, x: np.ndarray, moves: Moves) -> np.ndarray:
        by_thread = by_bits(moves.by_lane, self.lane) ^ by_bits(moves.by_warp, self.warp)
        return np.stack([self._pick(x, t ^ by_thread) for t in moves.take])

    def shuffle(self, x: np.ndarray, s: Shuffles, registers: int) -> np.ndarray:
        """shfl.sync.idx: a lane names the lane that it reads from, each lane gives one register a round."""
        out, filled = np.zeros((registers, len(self.threads)), x.dtype), np.zeros((registers, len(self.threads)), bool)
        given = by_bits(s.take_by_lane, self.lane) ^ by_bits(s.take_by_warp, self.warp)
        put = by_bits(s.put_by_lane, self.lane)
        for r in s.rounds:
            peer = r.lane ^ by_bits(s.from_by_lane, self.lane) ^ by_bits(s.from_by_warp, self.warp)
            if peer.max() >= 32:
                raise Fault("no such lane")
            peer = self.warp * 32 + peer
            if s.butterfly and ((peer ^ self.threads) != r.lane).any():
                raise Fault("no butterfly")
            if not r.moves and (peer != self.threads).any():
                raise Fault("a round that stays in the thread has another source")
            if len(r.take) * self.item > max(4, self.item):
                raise Fault("more than 32 bits in one shuffle")
            self.shuffles += s.words if r.moves else 0
            for take, to in zip(r.take, r.put, strict=True):
                sent = self._pick(x, take ^ given)
                if (to ^ put).max() >= registers:
                    raise Fault("no such register")
                out[to ^ put, self.threads] = sent[peer]
                filled[to ^ put, self.threads] = True
        if not filled[list(s.copies)].all():
            raise Fault("a register of the result was never filled")
        return out[list(s.copies)]

    # ---- shared memory

    def _touch(self, at: np.ndarray, size: int, where: np.ndarray) -> np.ndarray:
        """Byte numbers [threads that act, size] of an access; checks alignment and range."""
        at = at[where]
        if (at % size).any():
            raise Fault(f"an access of {size} bytes at a multiple of {int(np.gcd.reduce(at))}")
        if at.size and (at.min() < 0 or at.max() + size > len(self.memory)):
            raise Fault("out of range")
        return at[:, None] + np.arange(size)

    def _count(self, at: np.ndarray, size: int, where: np.ndarray) -> None:
        """Wavefronts of warp 0: by half or quarter warps for wide requests, a bank's distinct words one by one."""
        part = 32 * 4 // max(size, 4)
        for first in range(0, 32, part):
            lanes = [t for t in range(first, first + part) if where[t]]
            words = {int(a) // 4 + k for t in lanes for a in [at[t]] for k in range(max(1, size // 4))}
            if words:
                self.wavefronts += int(np.bincount([w % 32 for w in words]).max())

    def _write(self, places: np.ndarray, values: np.ndarray) -> None:
        flat = places.reshape(-1)
        if len(np.unique(flat)) != flat.size or self.written[flat].any():
            raise Fault("two threads write one byte")
        self.memory[flat] = values.reshape(-1)
        self.written[flat] = True

    def _read(self, places: np.ndarray) -> np.ndarray:
        if not self.visible[places].all():
            raise Fault("reads bytes that were not written before the barrier")
        return self.memory[places]

    def store(self, x: np.ndarray, a: Access) -> None:
        act = (self.lane & a.idle_lanes | self.warp & a.idle_warps) == 0
        for step in a.steps:
            if a.form is Form.VECTOR:
                at = (step.offset ^ by_bits(a.by_lane, self.lane) ^ by_bits(a.by_warp, self.warp)) * self.item
                size = a.width * self.item
                self._count(at, size, act)
                data = np.ascontiguousarray(x[list(step.registers)].T).view(np.uint8)
                self._write(self._touch(at, size, act), data[act])
            else:
                rows, places = self._rows(step.offset, a)
                parts = self._parts(x[list(step.registers)], a)         # [matrices, threads, 4 bytes]
                for m in range(a.width):
                    for w in np.flatnonzero((np.arange(len(self.threads) // 32) & a.idle_warps) == 0):
                        self._write(places[m, w], self._matrix(parts[m, 32 * w:32 * w + 32], a.form))
                self._count_rows(rows, a)

    def load(self, a: Access, registers: int) -> np.ndarray:
        out = np.zeros((registers, len(self.threads)), BYTES[self.item])
        every = np.ones(len(self.threads), bool)
        for step in a.steps:
            if a.form is Form.VECTOR:
                at = (step.offset ^ by_bits(a.by_lane, self.lane) ^ by_bits(a.by_warp, self.warp)) * self.item
                size = a.width * self.item
                self._count(at, size, every)
                data = np.ascontiguousarray(self._read(self._touch(at, size, every)))
                out[list(step.registers)] = data.view(BYTES[self.item]).T
            else:
                rows, places = self._rows(step.offset, a)
                self._count_rows(rows, a)
                for m in range(a.width):
                    for w in range(len(self.threads) // 32):
                        words = self._fragment(self._read(places[m, w]), a.form)        # [32 lanes, 4 bytes]
                        e = 4 // self.item
                        data = np.ascontiguousarray(words).view(BYTES[self.item]).T
                        out[list(step.registers[m * e:m * e + e]), 32 * w:32 * w + 32] = data
        return out[list(a.copies)]

    def _rows(self, offset: int, a: Access) -> tuple[np.ndarray, np.ndarray]:
        """(row addresses [matrices, warps, 8], byte numbers [matrices, warps, 8, 16])."""
        at = (offset ^ by_bits(a.by_lane, self.lane) ^ by_bits(a.by_warp, self.warp)) * self.item
        act = (self.lane < 8 * a.width) & ((self.warp & a.idle_warps) == 0 if a.store else True)
        self._touch(at, 16, act)
        rows = at.reshape(-1, 4, 8)[:, :a.width].transpose(1, 0, 2)
        return rows, rows[..., None] + np.arange(16)

    def _count_rows(self, rows: np.ndarray, a: Access) -> None:
        for m in range(a.width):
            words = {int(r) // 4 + k for r in rows[m, 0] for k in range(4)}
            self.wavefronts += int(np.bincount([w % 32 for w in words]).max())

    def _fragment(self, rows: np.ndarray, form: Form) -> np.ndarray:
        """[8, 16] bytes of a matrix -> [32 lanes, 4 bytes], PTX ISA ldmatrix."""
        if form is Form.TRANSPOSED:
            rows = np.ascontiguousarray(rows.reshape(8, 8, 2).transpose(1, 0, 2)).reshape(8, 16)
        return rows.reshape(8, 4, 4).reshape(32, 4)

    def _matrix(self, words: np.ndarray, form: Form) -> np.ndarray:
        """[32 lanes, 4 bytes] -> [8, 16] bytes of a matrix, PTX ISA stmatrix."""
        rows = words.reshape(8, 16)
        if form is Form.TRANSPOSED:
            rows = np.ascontiguousarray(rows.reshape(8, 8, 2).transpose(1, 0, 2)).reshape(8, 16)
        return rows

    def _parts(self, x: np.ndarray, a: Access) -> np.ndarray:
        """The 32-bit registers of a matrix store: [matrices, threads, 4 bytes]."""
        e = 4 // self.item
        return np.stack([np.ascontiguousarray(x[m * e:m * e + e].T).view(np.uint8) for m in range(a.width)])
