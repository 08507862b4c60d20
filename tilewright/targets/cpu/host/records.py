"""The records that the host's Python and native code share: byte offsets of their fields.

*Frame*: one per launch, in the caller's memory.  Its first 16 words are the context that kernels get (the contract is
in `portable`), with three of the reserved ones in use: the poll function, a countdown to its next call and the frame
itself.  Behind them are the status record, the cancel word and what the host keeps for the launch.
*Kernel*: one per loaded kernel.  *Pool*: one per host, with the descriptor of the launch that is being shared and, a
cache line each, the ranges of program ids that its participants own.
"""

from __future__ import annotations

WORD = 8
OB_TYPE = 8     # where an object's type is: CPython with its lock, the stable ABI


class Frame:
    """Offsets in a frame; 0..127 is the context."""

    GRID, SCRATCH, STATUS_AT, PRINT, CANCEL_AT, POLL, COUNTDOWN, SELF = 0, 24, 32, 40, 48, 56, 64, 72
    BLOCK = 80              # a worker's own scratch block
    PROGRAM = 88            # the program that this thread runs, or ran last
    ALONE = 96              # not 0: nobody else works on atomically (`lone_code`)
    ENTERED = 104           # 0 when a thread enters a launch
    GENERATION = 112        # of the launch that a worker helped last
    STATUS = 128            # see `Status`
    CANCEL = 192            # one of `Cancel`
    DEADLINE, NEXT_CHECK, THREAD = 200, 208, 216
    HELD = 224              # one of `Held`
    LAP = 232               # when the programs that run now began, in ns
    SHARED = 240            # the pool that was to help with much work; who reads it writes 0 before the launch
    SIZE = 256


class Status:
    """Words of the status record, which a kernel fills.

    The first is 0, or the number of a failed assertion + 1, or FIRST_ACCESS + the number of an access out of bounds;
    then its program; the number of the loop that was stopped + 1 and its program; of an access the address, and the
    argument's lowest byte, the byte after its highest, and its pointer.  Of a memory fault (`FAULT`) the last four are
    the address, the signal's number, and where the launch's slots are.
    """

    FAILED, PROGRAM, LOOP, LOOP_PROGRAM, ADDRESS, LOW, HIGH, POINTER = range(8)
    SIGNAL, SLOTS = LOW, HIGH
    FIRST_ACCESS, FAULT = 1 << 32, 1 << 40


class Cancel:
    """Why a launch was ended: values of the cancel word."""

    INTERRUPTED, TIMEOUT, NO_MEMORY = 1, 2, 3


class Flags:
    """Bits of a kernel's flags."""

    POLLS, CALLS_PYTHON, FENCE, ATOMICS, TILES = 1, 2, 4, 8, 16


class Held:
    """What a launch with atomic operations has to give back (`lone_code`)."""

    NOTHING, ALONE, WITH_OTHERS = 0, 1, 2


class Kernel:
    """Offsets in a kernel's record; `COST` is the measured time of 1024 programs in ns, 0 if unknown.

    The first word is the address of what launches it, as in the records of all targets (`LoadedKernel.record`).
    """

    LAUNCH, ENTRY, SCRATCH, FLAGS, COST, CALLS, POOL, PRINT = 0, 8, 16, 24, 32, 40, 48, 56
    CODE, CODE_SIZE = 64, 72        # the bytes that its code takes
    RATIO, TRIAL, ALONE = 80, 88, 96    # what locks cost, launches until that is tried again, the cost without
    SIZE = 104


class Guard:
    """Offsets in a thread's guard: how to leave the kernel that it is in (`KERNEL`, 0 if none), and the last fault."""

    STACK, RESUME, KERNEL, ADDRESS, SIGNAL = 0, 8, 16, 24, 32
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
    LONE_AT = 312                                               # address of the process's word (`lone_code`)
    ROUSE = 328                                                 # address of the function that wakes helpers early
    RECENT = 320                                                # when helpers were last wanted for little work, in ns
    BLOCK = 384                                                 # the callers' scratch block, when nobody uses it
    TID = 512                                                   # i32 each
    MASK, WORK_MASK, MASK_BYTES = 1536, 1664, 128
    RANGE, RANGE_STRIDE = 2048, 64                              # generation << 32 | head << 16 | tail, in chunks
    MOST_THREADS = 256
    SIZE = 2048 + 64 * 256


class Launcher:
    """Offsets in the state of one kernel's native launcher; words that name Python objects are borrowed.

    `NAMES` points to a word a parameter, its name, `TYPES` to a `Types` record, `RULES` to a word of `Rule` bits a
    parameter, `SHAPES`, `SPECS` and `GRIDS` to the first record of a list, `FREE` to a bound launcher that nobody uses.
    """

    SLOW, FAIL, VARIABLE, NOTHING, NAMES = 0, 8, 16, 24, 32
    PARAMS, RULES, TYPES, SHAPES, SPECS, FREE, BOUND_TYPE = 40, 48, 56, 64, 72, 80, 88
    META, META_VALUES = 96, 104     # a dict for grids that are functions, and the addresses of what it holds
    GRIDS, ASKS = 112, 120          # what is known of grid functions; whether unknown ones go the slow way
    HELPERS = 128                   # the pool that was to help with much work in the last launch, or 0
    SIZE = 136
    MOST_VALUES = 64        # parameters and options of a launch
    ANSWERED = -2           # in place of a key's address: the grid is what the grid function has returned
    MOST_INDEX = 4096       # a source word below this is an index, else an object's address


class Types:
    """Classes whose objects native code reads, or 0: NumPy's array, torch's Tensor and Parameter.

    `DESCRIBE` is torch's function that describes a tensor (`DLPackExchangeAPI.dltensor_from_py_object_no_sync`),
    `IS_NEG` the text "is_neg", interned.  `TENSOR_AT` is where in its Python object a tensor's handle stands, `KEYS_AT`
    where its dispatch keys stand behind the address that is the handle, `NEGATIVE` the bit among them; 0 where that is
    not known.  `PLAIN` and `INFERRED` are the keys of ordinary tensors, which the `GET_` functions describe,
    `CUDA_PLAIN` and `CUDA_INFERRED` those of such tensors on a GPU; -1 where they are not known.  `ELEMENTS` are
    DLPack's words for torch's numbers of dtypes, 32 bits each.
    `KINDS` are further classes, `KNOWN_KINDS` of them, each with one of the words below it: subclasses of torch's
    Tensor that are read as it is, and classes of objects that `TELL`, a Python function, is asked about.
    """

    ARRAY, TENSOR, PARAMETER, DESCRIBE, IS_NEG = 0, 8, 16, 24, 32
    TENSOR_AT, KEYS_AT, NEGATIVE, PLAIN, INFERRED = 40, 48, 56, 64, 72
    GET_DATA, GET_SHAPE, GET_STRIDES, GET_DTYPE, GET_DIM = 80, 88, 96, 104, 112
    CUDA_PLAIN, CUDA_INFERRED, GET_GPU = 120, 128, 136
    TELL, KNOWN_KINDS = 144, 152
    ELEMENTS, MOST_ELEMENTS = 160, 64
    KINDS, KIND, MOST_KINDS = ELEMENTS + 4 * MOST_ELEMENTS, 16, 16
    SIZE = KINDS + KIND * MOST_KINDS
    LIKE_TENSORS, TOLD = 1, 2


class Array:
    """Offsets in NumPy's PyArrayObject and, behind `DESCR`, PyArray_Descr (`ndarraytypes.h`), and bits of the flags."""

    DATA, NDIM, SHAPE, STRIDES, DESCR, FLAGS = 16, 24, 32, 40, 56, 64
    ORDER, NUMBER = 26, 28      # a letter, an i32
    ALIGNED, WRITEABLE, WARN_ON_WRITE = 0x100, 0x400, 1 << 31


class Rule:
    """Bits of a parameter's rule.

    Of one whose annotation fixes its type: a tensor, whatever its elements are (`POINTER`), or a number of float32,
    float64 or, with its bits from `WIDTH` on, an integer.
    """

    CONSTEXPR, BY_VALUE, BY_ALIGNMENT, SLOW = 1, 2, 4, 8
    POINTER, FLOAT32, FLOAT64, INTEGER, SIGNED, WIDTH = 16, 32, 64, 128, 256, 16
    NUMBER = FLOAT32 | FLOAT64 | INTEGER


class Shape:
    """A way to call: how many arguments by position, which names, and where each value comes from."""

    NEXT, NAMES, POSITIONAL, NAMED, OPTIONS, VALUES, SOURCES = 0, 8, 16, 24, 32, 40, 48


class GridReads:
    """The code of a grid function, and what it reads of the dict of arguments.

    `COUNT` items (the parameter's number, the address of what `META` holds for it), or -1 if it may see the whole dict.
    `META` is a kept dict, or null; `TAKEN` is not 0 while a call has it.
    """

    NEXT, CODE, META, TAKEN, COUNT, ITEMS = 0, 8, 16, 24, 32, 40
    ITEM = 16


class Spec:
    """A specialisation: its key (two words a value), what guards it, and its kernels by launch facts.

    `GUARDS` points to: count, (dict, name, value) each, count, (cell, content) each.  `KERNELS` are four pairs
    (record, compiled kernel), the pair's number being disjoint + 2 * wide.  `WRITTEN` has a bit a tensor, in order.
    """

    NEXT, OPTIONS, GUARDS, ANYTHING, WRITTEN, KERNELS, KEY = 0, 8, 16, 24, 32, 40, 104


class Bound:
    """Offsets in a bound launcher, the object that `kernel[grid]` gives; the first two words are Python's.

    `SIZES` are the sizes of `GRID` if `KNOWN` is not 0; such a grid is a tuple of ints, which stays with a bound
    launcher that is kept for the next use.
    """

    VECTORCALL, STATE, GRID, KERNEL = 16, 24, 32, 40
    KNOWN, SIZES = 48, 56
    SIZE = 80


class Reaches:
    """What is known of the tensors of a launch beside their slots: 2 if one of them is wide, else 0; a bit for each
    that is read-only; from `PAIRS` on the lowest byte of each and the one after its highest."""

    WIDE, READ_ONLY, PAIRS = 0, 8, 16
    PAIR = 16


class Tag:
    """First words of a value's key.  A tensor's has its element type (DLPack's 4 bytes) from bit 16 on."""

    EXACT_INT, EXACT_FLOAT, EXACT_OBJECT = 1, 2, 3      # compile-time values; the second word is the value
    ONE, INT32, INT64, FLOAT, BOOL, NONE, FIXED, TENSOR = 16, 17, 18, 19, 20, 21, 22, 32
    DIVISIBLE = 256


def element_word(code: int, bits: int) -> int:
    """DLPack's four bytes for an element type."""
    return code | bits << 8 | 1 << 16
