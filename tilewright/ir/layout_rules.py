"""Which layouts the operands and results of an op may have, in the stages that have layouts.

Type rules speak of shapes and elements; here stands what layouts add.  Where a rule names one layout, every thread
already holds what the op needs, so the op moves nothing between threads; ops without a rule (`cat`, `gather`, `dot`,
...) take and give any layout, and their code moves what must be moved.  A layout's shape is the tile's with each side
padded to a power of two.  Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright.ir.node import Block, Op, Value
from tilewright.ir.ops.table import Effect, OpRow, TypeRuleError
from tilewright.ir.types import Tile, Type, shape_of
from tilewright.layout import Layout, padded_shape, views

Rule = Callable[[Op], None]


NAMES_LAYOUT = frozenset({"convert", "shared_load"})      # the type that they are given says the layout


def layout_of(value: Value) -> Layout:
    """The layout of a tile in a stage with layouts."""
    assert isinstance(value.type, Tile)
    if value.type.layout is None:
        raise TypeRuleError(f"{value.type} has no layout")
    layout: Layout = value.type.layout
    return layout


def without_layout(t: Type) -> Type:
    """The type as it is in the stage before layouts."""
    return Tile(t.shape, t.element) if isinstance(t, Tile) else t


def infer_without_layouts(row: OpRow, types: Sequence[Type], attrs: Mapping[str, object],
                          regions: Sequence[Block]) -> tuple[Type, ...]:
    """What the row's type rule gives, layouts aside where the rule speaks of shapes only."""
    if row.effects & Effect.NESTED or row.name in NAMES_LAYOUT:
        return row.infer(types, attrs, regions)     # these rules compare whole types
    return row.infer([without_layout(t) for t in types], attrs, regions)


def check_layouts(op: Op) -> None:
    """Raise `TypeRuleError` unless the layouts of `op` obey its rule."""
    tiles = [v for v in (*op.operands, *op.results) if isinstance(v.type, Tile)]
    for v in tiles:
        if layout_of(v).shape != padded_shape(shape_of(v.type)):
            raise TypeRuleError(f"the layout of {v.type} has shape {layout_of(v).shape}")
    rule = _RULES.get(op.name, _same if op.row.elementwise else None)
    if rule is not None:
        rule(op)


def _expect(what: str, value: Value, wanted: Layout) -> None:
    if layout_of(value) != wanted:
        raise TypeRuleError(f"{what} has layout {layout_of(value)}, not {wanted}")


def _same(op: Op) -> None:
    tiles = [v for v in (*op.operands, *op.results) if isinstance(v.type, Tile)]
    for v in tiles[1:]:
        _expect("an operand or result", v, layout_of(tiles[0]))


def _operands(op: Op) -> None:
    for v in op.operands:
        _expect("an operand", v, layout_of(op.operands[0]))


def _like(index: int) -> Rule:
    """The result has the layout of one operand."""
    return lambda op: _expect("the result", op.results[0], layout_of(op.operands[index]))


def _reduce(op: Op) -> None:
    for v in op.operands:
        _expect("an input", v, layout_of(op.operands[0]))
    for v in op.results:
        if isinstance(v.type, Tile):
            _expect("a result", v, views.sliced(layout_of(op.operands[0]), op.attrs["axis"]))


def _of_operand(image: Callable[[Op, Layout], Layout]) -> Rule:
    """The result's layout is a function of the operand's."""
    def rule(op: Op) -> None:
        for result in op.results:
            if isinstance(op.operands[0].type, Tile) and isinstance(result.type, Tile):
                _expect("the result", result, image(op, layout_of(op.operands[0])))

    return rule


def grown_dims(op: Op) -> list[int]:
    """The dimensions that a `broadcast` repeats."""
    pairs = zip(shape_of(op.operands[0].type), shape_of(op.results[0].type), strict=True)
    return [d for d, (have, want) in enumerate(pairs) if have != want]


def _broadcast(op: Op) -> None:
    _expect("the operand", op.operands[0], views.squashed(layout_of(op.results[0]), grown_dims(op)))


def moves_nothing(op: Op) -> bool:
    """Whether a `reshape` keeps every element in its place of the padded tile."""
    return views.reshapes_in_place(shape_of(op.operands[0].type), shape_of(op.results[0].type))


def _reshape(op: Op) -> None:
    source, result = op.operands[0], op.results[0]
    if moves_nothing(op) and isinstance(source.type, Tile) and isinstance(result.type, Tile):
        _expect("the result", result, views.reshaped(layout_of(source), source.type.shape, result.type.shape))


def _join(op: Op) -> None:
    _expect("the second operand", op.operands[1], layout_of(op.operands[0]))
    _expect("the result", op.results[0], views.joined(layout_of(op.operands[0])))


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("load", "store", "atomic_rmw", "atomic_cas", "map", "scan", "sort", "hint", "box", "inline_asm",
                     "inline_asm_ordered"), _same),
    "reduce": _reduce,
    "expand_dims": _of_operand(lambda op, a: views.expanded(a, op.attrs["axis"])),
    "permute": _of_operand(lambda op, a: views.transposed(a, op.attrs["order"])),
    "split": _of_operand(lambda op, a: views.halved(a)),
    "broadcast": _broadcast,
    "reshape": _reshape,
    "join": _join,
    "histogram": _operands, "dot": _like(2), "warpgroup_dot": _like(2), "warpgroup_wait": _same, "gather": _like(1),
}
