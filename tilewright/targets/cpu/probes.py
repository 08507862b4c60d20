"""One function that looks at every lane of an access, for all of a kernel's accesses of a common form.

The form: a tile of addresses that is affine in at most two indices, and a mask that is a conjunction of flags that the
whole tile shares and of comparisons of an int32 that counts along one dimension with one number (`offsets < n`).  The
function looks at an address after the other, as a nest of the access's own would, and fills the status record at the
first active one that lies outside.  It runs where a span test fails, which it hardly ever does; a nest for each access
costs LLVM 3 ms (a tiled product with three: 54.3 ms with nests, 47.3 with the function; Zen 5, 2026-12-01).  For one
row at a time a nest is as short as a call.
Before: what the access needs is bound.  Tests: tests/targets/cpu/test_probes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.ir.node import Op, Value
from tilewright.ir.types import I1, I32, I64, element_of, shape_of
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.code import COLD
from tilewright.targets.cpu.evaluate import Evaluator
from tilewright.targets.cpu.host.records import Status
from tilewright.targets.cpu.lanes import Lane
from tilewright.targets.cpu.nest import fixed
from tilewright.targets.cpu.state import Kernel, Virtual
from tilewright.targets.llvm.text import FunctionWriter, ModuleWriter
from tilewright.targets.llvm.types import I1 as LLVM_I1
from tilewright.targets.llvm.types import I32 as LLVM_I32
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import PTR, constant, zero
from tilewright.targets.llvm.types import Value as LlvmValue

FINDER = "find_outside"
_AXES = 2
_ALWAYS = 1 << 31                       # greater than every int32
_NEVER = -(1 << 31)
_ORDERS = {"cmp_lt_s": (0, 1, 0), "cmp_le_s": (0, 1, 1), "cmp_gt_s": (1, 0, 0), "cmp_ge_s": (1, 0, 1)}
_RING = ("add", "sub", "mul")
_MOVES = ("broadcast", "expand_dims", "permute", "hint")


@dataclass(frozen=True, slots=True)
class Report:
    """What the status record is told: its address, the access's number, the program, the argument, where its extent
    stands (the address of two words), and the bytes of an element."""

    status: LlvmValue
    number: LlvmValue
    program: LlvmValue
    pointer: LlvmValue
    words: LlvmValue
    size: int


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension: bytes from one address to the next (i64), indices, and what the mask says of index i:
    `first` + i, as an int32, is below `end` (i64)."""

    step: LlvmValue
    count: int
    first: LlvmValue
    end: LlvmValue


@dataclass(frozen=True, slots=True)
class Form:
    """An access of the common form."""

    address: LlvmValue
    axes: Sequence[_Axis]

    def probe(self, module: ModuleWriter, report: Report) -> str:
        """The text of a call that says (i1) whether it has found, and reported, a lane outside."""
        words: list[LlvmValue] = [report.status, report.number, report.program, report.pointer, report.words,
                                  constant(LLVM_I64, report.size), self.address]
        for axis in self.axes:
            words += [axis.step, constant(LLVM_I64, axis.count), axis.first, axis.end]
        return f"call i1 @{_finder(module)}({', '.join(map(str, words))})"


def form_of(kernel: Kernel, aliases: Aliases, op: Op) -> Form | None:
    """The form of an access, what it is made of written here; None if it is not the common one."""
    pointer, mask = op.operands[0], op.operand("mask")
    shape = shape_of(pointer.type)
    claims = _Claims(kernel, aliases, shape)
    if (aliases.steps(pointer) is None or sum(size > 1 for size in shape) > _AXES or not _is_exact(kernel, pointer)
            or not (mask is None or claims.add(mask, range(len(shape))))):
        return None
    code, e = kernel.code, Evaluator(kernel, 1, 0)

    def address(axis: int | None) -> LlvmValue:
        index = tuple(fixed(int(d == axis)) for d in range(len(shape)))
        return code.cast("ptrtoint", e.scalar(e.at(pointer, index)), LLVM_I64)

    def first(value: Value) -> LlvmValue:
        return e.scalar(e.at(value, (fixed(0),) * len(shape_of(value.type))))

    def along(axis: int) -> _Axis:
        step = code.op("sub", address(axis), address(None))
        if axis not in claims.bounds:
            return _Axis(step, shape[axis], zero(LLVM_I32), always)
        moving, bound, more = claims.bounds[axis]
        end = code.fold("add", code.cast("sext", first(bound), LLVM_I64), constant(LLVM_I64, more))
        return _Axis(step, shape[axis], first(moving), end)

    always = constant(LLVM_I64, _ALWAYS)
    axes = [_Axis(constant(LLVM_I64, 0), 1, zero(LLVM_I32), always)] * _AXES
    axes = [*axes, *(along(d) for d, size in enumerate(shape) if size > 1)][-_AXES:]
    for flag in claims.flags:
        axes[0] = replace(axes[0], end=code.select(e.scalar(flag), axes[0].end, constant(LLVM_I64, _NEVER)))
    return Form(address(None), axes)


# --- what a mask claims


class _Claims:
    """A mask as flags of the whole tile, and for each dimension what counts along it, the bound, and what is added to
    that."""

    def __init__(self, kernel: Kernel, aliases: Aliases, shape: Sequence[int]) -> None:
        self.kernel, self.aliases, self.shape = kernel, aliases, shape
        self.flags: list[Lane] = []
        self.bounds: dict[int, tuple[Value, Value, int]] = {}

    def add(self, mask: Value, at: Sequence[int]) -> bool:
        """What `mask` claims, whose dimensions are `at` of the tile; False if that is something else."""
        binding = self.kernel.bindings[mask]
        if isinstance(binding, Lane):
            self.flags.append(binding)
            return binding.is_uniform
        if not isinstance(binding, Virtual) or element_of(mask.type) != I1:
            return False
        op = binding.op
        if op.name == "expand_dims":
            at = (*at[:op.attrs["axis"]], *at[op.attrs["axis"] + 1:])
        elif op.name == "permute":
            at = [at[op.attrs["order"].index(d)] for d in range(len(at))]
        if op.name in ("and", "splat", *_MOVES):
            return all(self.add(v, at) for v in op.operands)
        return op.name in _ORDERS and self._compare(op, at)

    def _compare(self, op: Op, at: Sequence[int]) -> bool:
        """A comparison of what counts by one along one dimension with one number."""
        counts, limits, more = _ORDERS[op.name]
        moving, bound = op.operands[counts], op.operands[limits]
        steps, still, sizes = self.aliases.steps(moving), self.aliases.steps(bound), shape_of(moving.type)
        if element_of(moving.type) != I32 or steps is None or still is None or not all(
                _is_ring(self.kernel, v, None) for v in (moving, bound)):
            return False
        along = [d for d, size in enumerate(sizes) if size > 1 and steps[d] != 0]
        if len(along) != 1 or steps[along[0]] != 1 or at[along[0]] in self.bounds or any(still):
            return False
        self.bounds[at[along[0]]] = moving, bound, more
        return True


def _is_exact(kernel: Kernel, pointer: Value) -> bool:
    """Whether the addresses of an affine tile differ by their steps whatever the numbers are."""
    binding = kernel.bindings[pointer]
    if isinstance(binding, Lane):
        return binding.is_uniform
    if not isinstance(binding, Virtual):
        return False
    op = binding.op
    if op.name == "ptr_add":
        return _is_exact(kernel, op.operands[0]) and _is_ring(
            kernel, op.operands[1], kernel.offsets.through(op.operands[1]))
    return op.name in ("splat", *_MOVES) and _is_exact(kernel, op.operands[0])


def _is_ring(kernel: Kernel, value: Value, through: frozenset[Value] | None) -> bool:
    """Whether an affine integer tile is made by sums and products alone, all in the width of an address, to which
    int32 `through` do belong; with None in its own width."""
    binding = kernel.bindings[value]
    if isinstance(binding, Lane):
        return binding.is_uniform
    if not isinstance(binding, Virtual):
        return False
    op, element = binding.op, element_of(value.type)
    if op.name == "splat":
        return True
    if through is not None and element != I64 and value not in through:
        return False
    if op.name == "ext_s" and through is not None:
        return (op.operands[0] in through or _is_splat(kernel, op.operands[0])) and _is_ring(
            kernel, op.operands[0], through)
    return op.name == "iota" or (op.name in (*_RING, *_MOVES) and all(
        _is_ring(kernel, v, through) for v in op.operands))


def _is_splat(kernel: Kernel, value: Value) -> bool:
    binding = kernel.bindings[value]
    return isinstance(binding, Virtual) and binding.op.name == "splat"


# --- the function


def is_written(module: ModuleWriter) -> bool:
    """Whether an access has needed the function already."""
    return module.has_function(FINDER)


def _finder(module: ModuleWriter) -> str:
    """The name of the function that looks, a lane after the other, and says (i1) whether it has found one outside."""
    if is_written(module):
        return FINDER
    words = [("status", PTR), ("number", LLVM_I64), ("program", LLVM_I64), ("pointer", LLVM_I64), ("words", PTR),
             ("size", LLVM_I64), ("address", LLVM_I64)]
    for axis in ("row", "column"):
        words += [(f"{axis}_step", LLVM_I64), (f"{axis}s", LLVM_I64), (axis, LLVM_I32), (f"{axis}_end", LLVM_I64)]
    f = module.function(FINDER, words, LLVM_I1, attributes=COLD, linkage="internal")
    status, number, program, pointer, place, size, address, *_ = f.params
    zero_, one = constant(LLVM_I64, 0), constant(LLVM_I64, 1)
    low, high = (f.load(f.gep(place, k, LLVM_I64), LLVM_I64, 8) for k in range(2))
    count = f.binary_intrinsic("smax", f.op("add", f.op("sub", f.op("sub", high, low), size), one), zero_)
    row_step, rows, row, row_end, column_step, columns, column, column_end = f.params[7:]

    def is_on(first: LlvmValue, index: LlvmValue, end: LlvmValue) -> LlvmValue:
        here = f.op("add", first, f.cast("trunc", index, LLVM_I32))
        return f.icmp("slt", f.cast("sext", here, LLVM_I64), end)

    def look(indices: tuple[LlvmValue, ...]) -> Sequence[LlvmValue]:
        r, c = indices
        here = f.op("add", f.op("add", address, f.op("mul", r, row_step)), f.op("mul", c, column_step))
        outside = f.icmp("uge", f.op("sub", here, low), count)
        found = f.op("and", outside, f.op("and", is_on(row, r, row_end), is_on(column, c, column_end)))
        yes, no = f.label("found"), f.label("on")
        f.cond_br(found, yes, no)
        f.place(yes)
        write_report(f, status, number, program, here, pointer, place)
        f.ret(constant(LLVM_I1, 1))
        f.place(no)
        beyond = f.op("add", c, one)
        ends = f.icmp("eq", beyond, columns)
        return f.op("add", r, f.cast("zext", ends, LLVM_I64)), f.select(ends, zero_, beyond)

    f.while_loop((zero_, zero_), lambda indices: f.icmp("slt", indices[0], rows), look)
    f.ret(constant(LLVM_I1, 0))
    return FINDER


def write_report(f: FunctionWriter, status: LlvmValue, number: LlvmValue, program: LlvmValue, address: LlvmValue,
                 pointer: LlvmValue, words: LlvmValue) -> None:
    """Fill the status record, if nobody has."""
    old = f.emit(LLVM_I64, f"cmpxchg {status}, i64 0, {number} monotonic monotonic")
    won = f.emit(LLVM_I1, f"extractvalue {{ i64, i1 }} {old.name}, 1")

    def note() -> Sequence[LlvmValue]:
        low, high = (f.load(f.gep(words, k, LLVM_I64), LLVM_I64, 8) for k in range(2))
        for word, value in {Status.PROGRAM: program, Status.ADDRESS: address, Status.LOW: low, Status.HIGH: high,
                            Status.POINTER: pointer}.items():
            f.store(value, f.gep(status, word, LLVM_I64), 8)
        return ()

    f.branch(won, note)
