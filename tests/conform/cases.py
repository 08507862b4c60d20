"""The cases of the suite, made from the op table: for each elementwise row every combination of types it accepts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.ir.ops import TABLE, TypeRuleError
from tilewright.ir.ops.attributes import Rounding
from tilewright.ir.ops.table import OpRow
from tilewright.ir.types import ALL_SCALARS, F32, I1, I8, I32, I64, Pointer, Tile, element_of

ELEMENTS = (*ALL_SCALARS, Pointer(F32), Pointer(I8))


@dataclass(frozen=True)
class Case:
    """One row at one choice of operand elements and attributes."""

    row: str
    elements: tuple
    result: object
    attrs: dict = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        extra = [str(v.value if isinstance(v, Rounding) else v) for v in self.attrs.values()]
        return "-".join([self.row, *map(str, self.elements), *extra])


def attribute_choices(row: OpRow) -> list[dict]:
    """Every value of a row's attributes that has closed or type-like values."""
    choices = []
    for spec in row.attributes:
        if spec.kind is Rounding:
            choices.append([(spec.name, r) for r in Rounding])
        elif spec.name == "to":
            choices.append([(spec.name, t) for t in ELEMENTS])
        else:
            raise AssertionError(f"row {row.name}: the suite does not know the attribute {spec.name}")
    return [dict(c) for c in itertools.product(*choices)]


def operand_choices(row: OpRow) -> list[tuple]:
    """Element types to try: all alike; a condition and two alike; a pointer and an offset."""
    count = len(row.operands)
    choices = [(e,) * count for e in ELEMENTS]
    if count == 3:
        choices += [(I1, e, e) for e in ELEMENTS if e != I1]
    if count == 2:
        choices += [(Pointer(e), i) for e in (I1, I8, F32, Pointer(F32)) for i in (I32, I64)]
    return choices


def infer(row: OpRow, elements, attrs, shape=(4,)):
    """The result's element, or None where the type rule refuses."""
    try:
        (result,) = row.infer([Tile(shape, e) for e in elements], attrs, ())
    except TypeRuleError:
        return None
    return element_of(result)


def cases_of(row: OpRow) -> Iterator[Case]:
    for elements in operand_choices(row):
        for attrs in attribute_choices(row):
            result = infer(row, elements, attrs)
            if result is not None:
                yield Case(row.name, elements, result, attrs)


def elementwise_cases() -> list[Case]:
    return [case for row in TABLE.values() if row.elementwise for case in cases_of(row)]
