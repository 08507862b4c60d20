"""Ops that move elements without computing: between registers where layouts allow it, else through shared memory.

What only renames registers needs no code (`renaming`).  `exchange` is the way through shared memory: every owner writes
its elements at their row-major index, then every thread reads the ones it wants.  Conversions between layouts are
planned (`conversion`).
Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.ir.layout_rules import layout_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import Tile, element_of, shape_of
from tilewright.layout import Layout, views
from tilewright.layout.linear import REGISTER
from tilewright.targets.llvm.types import I32, constant
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import shared_address, shared_read, shared_write
from tilewright.targets.nvidia.lazy import registers_of
from tilewright.targets.nvidia.renaming import moved
from tilewright.targets.nvidia.state import Kernel, inside

Coordinates = Sequence[LlvmValue]


def coordinates(kernel: Kernel, layout: Layout, register: int) -> list[LlvmValue]:
    """The coordinates, as i32, of what `register` holds in this thread."""
    return [kernel.code.index(layout.coordinate(d), register) for d in range(len(layout.shape))]


def row_major(kernel: Kernel, shape: Sequence[int], place: Coordinates) -> LlvmValue:
    """The index of a place in a row-major tile of the logical `shape`."""
    code = kernel.code
    total = constant(I32, 0)
    for d, c in enumerate(place):
        step = math.prod(shape[d + 1:])
        total = code.op("add", total, code.op("mul", c, constant(I32, step)))
    return total


def index_in(kernel: Kernel, shape: Sequence[int], layout: Layout, register: int) -> LlvmValue:
    """The row-major index in the logical `shape`; that in the padded one where they agree."""
    if layout.shape == tuple(shape):
        return kernel.code.index(layout, register)
    return row_major(kernel, shape, coordinates(kernel, layout, register))


def write_owned(kernel: Kernel, value: Value, base: LlvmValue, place: Callable[[int], LlvmValue]) -> None:
    """Every element of a tile to scratch at `base`, once: its owner writes it at the index `place(register)`."""
    assert isinstance(value.type, Tile)
    layout, element = layout_of(value), value.type.element
    free = layout.free()
    owner = kernel.code.thread_flag(dict(free))
    for register, v in enumerate(kernel.registers(value)):
        flag = inside(kernel, value.type, layout, register)
        if register & free[REGISTER] or flag is False:
            continue
        guard = kernel.code.both(owner, None if flag is True else flag)
        shared_write(kernel, shared_address(kernel, base, place(register), element.bytes), [v], element, guard)


def exchange(kernel: Kernel, op: Op, parts: Sequence[tuple[Value, Callable[[int], LlvmValue]]],
             wanted: Callable[[int], LlvmValue]) -> None:
    """Tiles written to the scratch of `op`, each at its own places; its result reads at `wanted(register)`."""
    result = op.results[0]
    element = element_of(result.type)
    base = kernel.shared.begin(op).address
    for value, place in parts:
        write_owned(kernel, value, base, place)
    kernel.shared.meet()
    kernel.bind(result, [shared_read(kernel, shared_address(kernel, base, wanted(r), element.bytes), element)
                         for r in range(kernel.count(result))])


def by_renaming(kernel: Kernel, op: Op) -> bool:
    """Do `op` by renaming registers, if that is possible."""
    registers = moved(op, [kernel.registers(v) for v in op.operands])
    if registers is None:
        return False
    kernel.bind(op.results[0], registers)
    return True


def shape_op(kernel: Kernel, op: Op) -> None:
    """`splat`, `expand_dims`, `broadcast`, `permute`, `hint`: never moves data."""
    source = kernel.later(op.operands[0])
    if op.name == "permute" and source is not None:     # the same registers, still to come
        kernel.bind_later(op.result, lambda: kernel.registers(op.operands[0]), source)
        return
    done = by_renaming(kernel, op)
    assert done, f"{op.name} in layouts that its rule forbids"


def reshape(kernel: Kernel, op: Op) -> None:
    """Another shape; where padding moves elements, through their row-major index."""
    source, result = op.operands[0], op.results[0]
    if not isinstance(result.type, Tile) or not isinstance(source.type, Tile):
        _scalar_reshape(kernel, op)
    elif not by_renaming(kernel, op):
        have, want = layout_of(source), layout_of(result)
        size = math.prod(shape_of(source.type))
        exchange(kernel, op, [(source, lambda r: index_in(kernel, shape_of(source.type), have, r))],
                 lambda r: limited(kernel, index_in(kernel, shape_of(result.type), want, r), size))


def limited(kernel: Kernel, index: LlvmValue, size: int) -> LlvmValue:
    """An index that padding cannot take out of `size` elements."""
    return kernel.code.binary_intrinsic("umin", index, constant(I32, size - 1))


def _scalar_reshape(kernel: Kernel, op: Op) -> None:
    """A tile of one element becomes a scalar, or a scalar such a tile; every thread has it already."""
    first = kernel.registers(op.operands[0])[0]
    kernel.bind(op.results[0], [first] * kernel.count(op.results[0]))


def join(kernel: Kernel, op: Op) -> None:
    """a and b in alternating registers (`views.joined`)."""
    a, b = (kernel.registers(v) for v in op.operands)
    kernel.bind(op.result, [v for pair in zip(a, b, strict=True) for v in pair])


def split(kernel: Kernel, op: Op) -> None:
    """The registers with the split bit 0 and those with 1."""
    source = kernel.registers(op.operands[0])
    if not isinstance(op.results[0].type, Tile):
        bit = views.split_register(layout_of(op.operands[0]))
        assert bit is not None
        kernel.bind(op.results[0], [source[0]])
        kernel.bind(op.results[1], [source[1 << bit]])
        return
    bit = views.split_register(layout_of(op.operands[0]))
    assert bit is not None
    for half, result in enumerate(op.results):
        kernel.bind(result, [v for r, v in enumerate(source) if r >> bit & 1 == half])


def cat(kernel: Kernel, op: Op) -> None:
    """a, then b, along an axis."""
    axis, shape = op.attrs["axis"], shape_of(op.result.type)
    code = kernel.code

    def place(value: Value, start: int) -> Callable[[int], LlvmValue]:
        def at(register: int) -> LlvmValue:
            where = coordinates(kernel, layout_of(value), register)
            where[axis] = code.op("add", where[axis], constant(I32, start))
            return row_major(kernel, shape, where)

        return at

    a, b = op.operands
    _gathered(kernel, op, [(a, place(a, 0)), (b, place(b, shape_of(a.type)[axis]))], shape,
              lambda r: index_in(kernel, shape, layout_of(op.result), r))


def slice_(kernel: Kernel, op: Op) -> None:
    """Indices start, start + step, ... of one dimension."""
    source, axis = op.operands[0], op.attrs["axis"]
    shape = shape_of(source.type)
    code = kernel.code

    def wanted(register: int) -> LlvmValue:
        where = coordinates(kernel, layout_of(op.result), register)
        step = code.op("mul", where[axis], constant(I32, op.attrs["step"]))
        where[axis] = code.op("add", step, constant(I32, op.attrs["start"]))
        return row_major(kernel, shape, where)

    _gathered(kernel, op, [(source, lambda r: index_in(kernel, shape, layout_of(source), r))], shape, wanted)


def gather(kernel: Kernel, op: Op) -> None:
    """The element of the source at each index along an axis; zero for an index out of range."""
    source, index = op.operands
    axis, shape = op.attrs["axis"], shape_of(source.type)
    code = kernel.code
    given = kernel.registers(index)
    bound = constant(given[0].type, shape[axis])
    valid = [code.icmp("ult", v, bound) for v in given]

    def wanted(register: int) -> LlvmValue:
        where = coordinates(kernel, layout_of(op.result), register)
        where[axis] = code.cast("trunc", code.select(valid[register], given[register], constant(bound.type, 0)), I32)
        return row_major(kernel, shape, where)

    _gathered(kernel, op, [(source, lambda r: index_in(kernel, shape, layout_of(source), r))], shape, wanted)
    found = kernel.registers(op.result)
    kernel.bind(op.result, [code.select(ok, v, _nothing(v)) for ok, v in zip(valid, found, strict=True)])


def _nothing(value: LlvmValue) -> LlvmValue:
    return constant(value.type, 0)


def _gathered(kernel: Kernel, op: Op, parts: Sequence[tuple[Value, Callable[[int], LlvmValue]]], shape: Sequence[int],
              wanted: Callable[[int], LlvmValue]) -> None:
    """`exchange` through a row-major tile of `shape`; places of padding are kept inside it."""
    size = math.prod(shape)
    exchange(kernel, op, parts, lambda r: limited(kernel, wanted(r), size))


def iota(kernel: Kernel, op: Op) -> None:
    """start plus the index of each place."""
    code, layout, start = kernel.code, layout_of(op.result), op.attrs["start"]

    def place(register: int) -> LlvmValue:
        index = code.index(layout, register)
        return code.op("add", index, constant(I32, start)) if start else index

    kernel.bind(op.result, registers_of(code, layout.size(REGISTER), place))
