"""What each op takes of shared memory while it runs, known without writing its code: one place for all of them.

An op whose threads exchange data takes arrays of scratch, once or several times in turn; `NEEDS` has a function for
each such row, beside the rule of `generate.HANDLERS`.  Buffers, which stay taken, are in `BUFFERS`.  Rules get what is
counted here and no more (`shared.SharedMemory`).
Before: laid-out IR.  Tests: tests/targets/nvidia/test_scratch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from tilewright.analysis.alias import Alias, written_bases
from tilewright.computed import computed
from tilewright.ir.layout_rules import layout_of, moves_nothing
from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import I1, I32, Element, Tile, element_of, shape_of
from tilewright.ir.walk import ops_in, use_counts
from tilewright.layout import Layout, views
from tilewright.layout.families import WARP_SIZE
from tilewright.layout.linear import LANE, REGISTER, WARP
from tilewright.layout.plan import Kind, Plan, plan
from tilewright.targets.llvm.identities import identity_of
from tilewright.targets.nvidia import mma, wgmma
from tilewright.targets.nvidia.capability import Capability
from tilewright.targets.nvidia.passes.special import owners_of
from tilewright.targets.nvidia.passes.staging import buffer_bytes
from tilewright.targets.nvidia.shared import Need, alignment
from tilewright.targets.nvidia.tensor_maps import box_bytes

MBARRIER_BYTES = 8
_VECTOR = 16            # bytes that a thread reads at once
_MATRICES = 128         # what swizzled matrices are aligned to, in bytes


class Program:
    """A module for a GPU and a number of warps, and what of it decides which ops exchange data."""

    def __init__(self, module: Module, capability: Capability, num_warps: int) -> None:
        self.module, self.capability, self.num_warps = module, capability, num_warps

    @property
    def threads(self) -> int:
        return WARP_SIZE * self.num_warps

    @computed
    def branches(self) -> bool:
        return any(op.name in ("for", "while", "if") for op in ops_in(self.module.entry.body))

    @computed
    def _used(self) -> Mapping[Value, int]:
        return use_counts(self.module.entry.body)

    @computed
    def _alias(self) -> Alias:
        return Alias(self.module)

    @computed
    def _written(self) -> frozenset[Value]:
        return written_bases(self.module, self._alias)

    def is_used(self, value: Value) -> bool:
        """Whether anything takes `value` as an operand."""
        return value in self._used

    def reads_only(self, op: Op) -> bool:
        """Whether nothing that the kernel does changes what `op` reads."""
        return self._alias.reads_only(op, self._written)


def _array(value: Value, count: int | None = None) -> Need:
    """`count` elements of a tile, or all of its logical shape."""
    return Need(((prod(shape_of(value.type)) if count is None else count) * element_of(value.type).bytes,))


# --- from one thread, or from the owners of elements, to all


def _load(program: Program, op: Op) -> Iterator[Need]:
    """A scalar that another program may change meanwhile, on which control flow may depend: one thread reads for all.
    If threads read different values they would go different ways, and wait for one another for ever."""
    if not isinstance(op.result.type, Tile) and program.branches and not program.reads_only(op):
        yield _array(op.result)


def _atomic(program: Program, op: Op) -> Iterator[Need]:
    """What the threads that did it found, for the others."""
    if program.is_used(op.result):
        free = layout_of(op.result).free() if isinstance(op.result.type, Tile) else None
        if free is None or free[LANE] or free[WARP] or free[REGISTER]:
            yield _array(op.result)


def _histogram(program: Program, op: Op) -> Iterator[Need]:
    yield Need((op.attrs["bins"] * I32.bytes,))


# --- tiles


def way_of(capability: Capability, source: Layout, result: Layout, element: Element) -> Plan:
    """The plan of a conversion."""
    return plan(source, result, element.bytes, stores=capability.stmatrix, scratch_limit=capability.shared_bytes)


def _trips(way: Plan) -> Iterator[Need]:
    """One for each piece of a conversion."""
    return (Need((way.scratch_bytes,)) for _ in way.pieces)


def _convert(program: Program, op: Op) -> Iterator[Need]:
    source = op.operands[0]
    return _trips(way_of(program.capability, layout_of(source), layout_of(op.result), element_of(source.type)))


def _reshape(program: Program, op: Op) -> Iterator[Need]:
    source = op.operands[0]
    if isinstance(source.type, Tile) and isinstance(op.result.type, Tile) and not moves_nothing(op):
        yield _array(source)


def _cat(program: Program, op: Op) -> Iterator[Need]:
    yield _array(op.result)


def _picked(program: Program, op: Op) -> Iterator[Need]:
    """The whole tile of which elements are taken."""
    yield _array(op.operands[0])


def _box_store(program: Program, op: Op) -> Iterator[Need]:
    yield Need((box_bytes(op.attrs["memory"]),), align=alignment(op.attrs["swizzle"]))


# --- along an axis


def of_warps(elements: Sequence[Element], beside: Layout, warps: int) -> Need:
    """Partial results of `warps` warps along an axis: for each operand an array [warp, index beside the axis]."""
    return Need(tuple(warps * prod(beside.shape) * element.bytes for element in elements), unit=_VECTOR)


def rows_of(layout: Layout, axis: int) -> list[list[int]]:
    """For each register of a reduction's result those of the operand that a thread combines for it."""
    kept, result = views.sliced(layout, axis, keep_registers=True), views.sliced(layout, axis)
    rows: dict[int, list[int]] = {}
    for register in range(layout.size(REGISTER)):
        rows.setdefault(kept(register=register), []).append(register)
    return [rows[result(register=r)] for r in range(result.size(REGISTER))]


def _may_lack_elements(op: Op, layout: Layout) -> bool:
    """Whether a thread may have nothing but padding to combine, for which no number stands."""
    axis = op.attrs["axis"]
    bounds = [b for b in layout.padding(shape_of(op.operands[0].type)) if b.dim == axis]
    if not bounds or identity_of(op) is not None:
        return False
    flags = [[bounds[-1].test(register) for register in row] for row in rows_of(layout, axis)]
    return any(True not in row and None in row for row in flags)


def _reduce(program: Program, op: Op) -> Iterator[Need]:
    layout, axis = layout_of(op.operands[0]), op.attrs["axis"]
    bits = sum(b != 0 for b in layout.coordinate(axis).bases(WARP))
    if bits:
        flags = [I1] if _may_lack_elements(op, layout) else []
        elements = [*(element_of(v.type) for v in op.operands), *flags]
        yield of_warps(elements, views.sliced(layout, axis), 1 << bits)


def scan_may_lack_elements(op: Op) -> bool:
    """Whether a thread of a `scan` may begin with nothing but padding, for which no number stands."""
    shape, axis = shape_of(op.operands[0].type), op.attrs["axis"]
    padded = any(b.dim == axis for b in layout_of(op.operands[0]).padding(shape))
    return bool(op.attrs["reverse"]) and padded and identity_of(op) is None


def _scan(program: Program, op: Op) -> Iterator[Need]:
    """Of each warp what it has in each round of registers that come after lanes and warps."""
    layout, axis = layout_of(op.operands[0]), op.attrs["axis"]
    names = [name for name, _ in owners_of(layout, axis) or ()]
    run = next((k for k, name in enumerate(names) if name != REGISTER), len(names))
    if WARP in names:
        flags = [I1] if scan_may_lack_elements(op) else []
        elements = [*(element_of(v.type) for v in op.operands), *flags]
        entries = names.count(WARP) + names[run:].count(REGISTER)
        yield of_warps(elements, views.sliced(layout, axis), 1 << entries)


def _sort(program: Program, op: Op) -> Iterator[Need]:
    """For each step between warps all elements."""
    layout = layout_of(op.result)
    owners = owners_of(layout, len(layout.shape) - 1) or ()
    need = _array(op.result, program.threads * layout.size(REGISTER))
    for stage in range(1, len(owners) + 1):
        yield from [need] * sum(name == WARP for name, _ in owners[:stage])


# --- products


def _dot(program: Program, op: Op) -> Iterator[Need]:
    product = wgmma.of(op, program.capability, program.num_warps)
    if product is not None:
        return _by_warpgroups(program, op, product)
    chosen = mma.of(op, program.capability, program.num_warps)
    return _by_multiply_adds(op) if chosen is None else _by_warps(program, op, *chosen)


def _by_multiply_adds(op: Op) -> Iterator[Need]:
    yield Need(tuple(prod(shape_of(v.type)) * element_of(v.type).bytes for v in op.operands[:2]), unit=_VECTOR)


def _by_warps(program: Program, op: Op, instruction: mma.Mma, warps: tuple[int, int]) -> Iterator[Need]:
    """Operands that come in pieces, one after the other; then those that come in one, together."""
    whole = []
    for which, value in zip("AB", op.operands, strict=False):
        layout = mma.operand_layout(which, op, instruction, warps)
        way = way_of(program.capability, layout_of(value), layout, element_of(value.type))
        if is_whole_trip(way):
            whole.append(way.scratch_bytes)
        else:
            yield from _trips(way)
    if whole:
        yield Need(tuple(whole), unit=_MATRICES)


def is_whole_trip(way: Plan) -> bool:
    """Whether all of a tile goes through shared memory at once."""
    return way.kind is Kind.SHARED and len(way.pieces) == 1


def _by_warpgroups(program: Program, op: Op, product: wgmma.Wgmma) -> Iterator[Need]:
    sizes = []
    for which, value in enumerate(op.operands[:2]):
        layout = layout_of(value)
        if not wgmma.is_shared(layout) and (which or not product.takes(layout, program.capability)):
            sizes.append(product.in_scratch(which, layout).bytes)
    if sizes:
        yield Need(tuple(sizes), unit=wgmma.ALIGNMENT, align=wgmma.ALIGNMENT)


Needs = Callable[[Program, Op], Iterator[Need]]

NEEDS: Mapping[str, Needs] = {
    "load": _load, "atomic_rmw": _atomic, "atomic_cas": _atomic, "histogram": _histogram,
    "convert": _convert, "reshape": _reshape, "cat": _cat, "slice": _picked, "gather": _picked,
    "box_store": _box_store, "reduce": _reduce, "scan": _scan, "sort": _sort, "dot": _dot, "warpgroup_dot": _dot}

# What stays taken behind the op.
BUFFERS: Mapping[str, Callable[[Op], Need]] = {
    "shared_alloc": lambda op: Need((buffer_bytes(op),), align=op.attrs["align"]),
    "mbarrier_alloc": lambda op: Need((MBARRIER_BYTES * op.attrs["count"],))}
