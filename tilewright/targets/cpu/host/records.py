"""The records that the host's Python and native code share: byte offsets of their fields.

*Frame*: one per launch, in the caller's memory.  Its first 16 words are the context that kernels get (the contract is
in `portable`), with three of the reserved ones in use: the poll function, a countdown to its next call and the frame
itself.  Behind them are the status record, the cancel word and what the host keeps for the launch.
*Kernel*: one per loaded kernel.  *Pool*: one per host, with the descriptor of the launch that is being shared and, a
cache line each, the ranges of program ids that its participants own.
"""

from __future__ import annotations

WORD = 8


class Frame:
    """Offsets in a frame; 0..127 is the context."""

    GRID, SCRATCH, STATUS_AT, PRINT, CANCEL_AT, POLL, COUNTDOWN, SELF = 0, 24, 32, 40, 48, 56, 64, 72
    BLOCK = 80              # a worker's own scratch block
    STATUS = 128            # see `Status`
    CANCEL = 192            # one of `Cancel`
    DEADLINE, NEXT_CHECK, THREAD = 200, 208, 216
    SIZE = 256


class Status:
    """Words of the status record, which a kernel fills.

    The first is 0, or the number of a failed assertion + 1, or FIRST_ACCESS + the number of an access out of bounds;
    then its program; the number of the loop that was stopped + 1 and its program; of an access the address, and the
    argument's lowest byte, the byte after its highest, and its pointer.
    """

    FAILED, PROGRAM, LOOP, LOOP_PROGRAM, ADDRESS, LOW, HIGH, POINTER = range(8)
    FIRST_ACCESS = 1 << 32


class Cancel:
    """Why a launch was ended: values of the cancel word."""

    INTERRUPTED, TIMEOUT, NO_MEMORY = 1, 2, 3


class Flags:
    """Bits of a kernel's flags."""

    POLLS, CALLS_PYTHON, FENCE = 1, 2, 4


class Kernel:
    """Offsets in a kernel's record; `COST` is the measured time of 1024 programs in ns, 0 if unknown."""

    ENTRY, SCRATCH, FLAGS, COST, CALLS, POOL, PRINT = 0, 8, 16, 24, 32, 40, 48
    SIZE = 64


class Pool:
    """Offsets in a pool's record."""

    LOCK, STOP, STARTED, TIDS = 0, 4, 8, 12                     # i32: taken, end the threads, threads made, announced
    THREADS, WORTH, SLICE, TIMEOUT, SPIN = 16, 24, 32, 40, 48   # i64, set by the host
    STEERED = 56                                                # i64: CPU and threads of the last steering
    GENERATION, SLEEPERS = 64, 68                               # i32; workers sleep on the first
    DONE, WAITING = 128, 132                                    # i32; a caller sleeps on the first
    JOINED, FIRST_GENERATION = 192, 196                         # i32
    KERNEL, SLOTS, BEGIN, END, CHUNK, RANGES, OWNER = 256, 264, 272, 280, 288, 296, 304     # the shared launch
    BLOCK = 384                                                 # the callers' scratch block, when nobody uses it
    TID = 512                                                   # i32 each
    MASK, WORK_MASK, MASK_BYTES = 1536, 1664, 128
    RANGE, RANGE_STRIDE = 2048, 64                              # generation << 32 | head << 16 | tail, in chunks
    MOST_THREADS = 256
    SIZE = 2048 + 64 * 256
