"""Telling where a memory fault of a compiled kernel came from: the access, its argument and its line.

The host knows the address and the program (`targets.cpu.host.fault_code`); the program is interpreted again for the
rest (`interpret.replay`).  Tests: tests/runtime/test_faults.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.diagnostics import Location, MemoryFaultError, recorded_location
from tilewright.interpret.memory import Extent
from tilewright.interpret.replay import find_access
from tilewright.ir.ops import Effect
from tilewright.ir.parse import parse_module
from tilewright.ir.types import Pointer, element_of
from tilewright.ir.walk import ops_in
from tilewright.runtime.checked import number
from tilewright.targets.base import CodeObject


def explained(error: MemoryFaultError, code: CodeObject, grid: tuple[int, int, int]) -> MemoryFaultError:
    """`error` with the access that it came from, if that can be found out; `error.slots` are those of the launch."""
    module = parse_module(code.texts["tile"], check=False)
    entry = module.entry
    extents, args = [], []
    words = iter(error.slots[len(entry.params):])
    for param, name, slot in zip(entry.params, entry.param_names, error.slots, strict=False):
        args.append(number(slot, param.type))
        if isinstance(param.type, Pointer):
            low, high = next(words), next(words)
            extents.append(Extent(name, low, high - low, True, slot))
    x, y, z = error.program
    found = find_access(module, grid, x + grid[0] * (y + grid[1] * z), args, extents, error.address,
                        _places(module.entry.body, code.metadata.get("places", ())))
    if found is None:
        return error
    return MemoryFaultError(error.kernel, error.address, error.program, found.summary, found.bad, found.location)


def _places(body: Any, records: Sequence[Mapping[str, Any] | None]) -> Mapping[int, Location]:
    """The lines of the accesses of a kernel by the op's `id`; `records` are in the order of the ops."""
    accesses = [op for op in ops_in(body) if op.row.effects & (Effect.READS | Effect.WRITES) and op.operands
                and isinstance(element_of(op.operands[0].type), Pointer)]
    places = zip(accesses, map(recorded_location, records), strict=False)
    return {id(op): place for op, place in places if place is not None}
