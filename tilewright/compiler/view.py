"""The accesses of a kernel to memory, as a module that can be walked the way torch's compiler walks triton's IR.

torch looks for `tt.store`, `tt.atomic_rmw` and the like, and follows their first operand to the parameters of the
function.  What it would find is known already (`analysis.written`), so the walk shows just that: one function, whose
ops load from, store to and change its parameters, one op for each access and each parameter that it may reach.
A kernel that goes through pointers from elsewhere is refused: a write that torch does not know of gives wrong results.
Tests: tests/compat/test_view.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.analysis.written import Access, accesses
from tilewright.ir.node import Module
from tilewright.ir.ops.table import Effect
from tilewright.ir.text import print_module


@dataclass(frozen=True)
class Named:
    """A value or a region: something with a number of its own."""

    number: int

    def id(self) -> int:
        return self.number


@dataclass(frozen=True)
class BlockView:
    """The body of the function."""

    number: int
    arguments: tuple[Named, ...]
    region: Named

    def id(self) -> int:
        return self.number

    def get_num_arguments(self) -> int:
        return len(self.arguments)

    def get_argument(self, index: int) -> Named:
        return self.arguments[index]

    def get_parent(self) -> Named:
        return self.region


@dataclass(frozen=True)
class OpView:
    """An op: no results, except of a load; a region only in the function."""

    name: str
    operands: tuple[Named, ...] = ()
    results: tuple[Named, ...] = ()
    regions: tuple[Named, ...] = ()
    block: BlockView | None = None
    texts: dict[str, str] = field(default_factory=dict)

    def get_name(self) -> str:
        return self.name

    def get_num_operands(self) -> int:
        return len(self.operands)

    def get_operand(self, index: int) -> Named:
        return self.operands[index]

    def get_num_results(self) -> int:
        return len(self.results)

    def get_result(self, index: int) -> Named:
        return self.results[index]

    def get_num_regions(self) -> int:
        return len(self.regions)

    def get_region(self, index: int) -> Named:
        return self.regions[index]

    def get_block(self) -> BlockView | None:
        return self.block

    def get_str_attr(self, name: str) -> str | None:
        return self.texts.get(name)

    def get_flat_symbol_ref_attr(self, name: str) -> str | None:
        return self.texts.get(name)

    def get_bool_attr(self, name: str) -> bool | None:
        return None


class ModuleView:
    """What `ASTSource.make_ir` gives; `str` of it is the tile IR."""

    def __init__(self, name: str, module: Module) -> None:
        self._module = module
        found = accesses(module)
        for access in found:
            if access.anything:
                raise NotImplementedError(f"{access.op.loc}: {name} reaches memory through a pointer that is no "
                                          "argument; which tensors it reads and writes is not known")
        self.ops = _ops(name, len(module.entry.params), found)

    def verify(self) -> bool:
        """The module was verified when it was made."""
        return True

    def walk(self, callback: Callable[[OpView], None]) -> None:
        """Call `callback` with every op, what is inside a function before the function."""
        for op in self.ops:
            callback(op)

    def __str__(self) -> str:
        return print_module(self._module)


def _ops(name: str, count: int, found: Sequence[Access]) -> list[OpView]:
    """The ops of the one function, and the function."""
    region = Named(count)
    params = tuple(Named(i) for i in range(count))
    block = BlockView(count + 1, params, region)
    ops: list[OpView] = []
    for access in found:
        kind = _kind(access)
        for param in sorted(access.params):
            results = (Named(count + 2 + len(ops)),) if kind != "tt.store" else ()
            ops.append(OpView(kind, (params[param],), results, block=block))
    return [*ops, OpView("tt.return", block=block), OpView("tt.func", regions=(region,), texts={"sym_name": name})]


def _kind(access: Access) -> str:
    effects = access.op.row.effects
    if effects & Effect.READS and effects & Effect.WRITES:
        return "tt.atomic_rmw"
    return "tt.store" if effects & Effect.WRITES else "tt.load"
