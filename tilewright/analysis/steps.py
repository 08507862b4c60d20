"""How far neighbours are likely to be apart: of an integer, or in elements of a pointer, along each dimension.

    i = pid * 32 + iota, column = i % width     one apart, but where a row ends
    p = x + (column + row * stride)[:, None]    one apart along dimension 0
          + (channel * 3136)[None, :]           3136 apart along dimension 1

Nothing relies on these numbers: they say along which dimension lanes should go where no facts do (`axis` knows of
`i % width` only that it is a run if `width` is a multiple of something).  What nobody can tell, as of what is loaded,
is `FAR`; a factor that a launch brings is taken for a size.
Before: no calls.  After: nothing changes.  Tests: tests/analysis/test_steps.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from tilewright.analysis.uniform import Uniform
from tilewright.ir.layout_rules import grown_dims
from tilewright.ir.node import Block, Op, Value
from tilewright.ir.types import Tile, shape_of
from tilewright.ir.walk import carried_sources, definitions

Steps = tuple[float, ...]

FAR = inf
_SIZE = 64.0            # of a number that is known when a kernel runs, and of one that is a multiple of 16
_LARGE_SIZE = 1024.0
_SUMS = frozenset({"add", "sub", "ptr_add"})
_SAME = frozenset({"ext_s", "ext_u", "trunc", "hint", "box", "convert", "bitcast"})
_ONE_OF = frozenset({"min_s", "max_s", "min_u", "max_u", "select", "and", "or", "xor"})
_CONTROL = frozenset({"for", "while", "if"})


class LikelySteps:
    """The steps of the tiles of one function's body; `divisor` says what divides an integer."""

    def __init__(self, body: Block, divisor: Callable[[Value], int]) -> None:
        self._divisor = divisor
        self._definitions, self._uniform = definitions(body), Uniform.of(body)
        self._known: dict[Value, Steps] = {}

    def of(self, value: Value) -> Steps:
        """One for each dimension of a tile, none of them negative; equal neighbours are 0 apart."""
        known = self._known.get(value)
        if known is None:
            self._known[value] = self._far(value)       # what a loop makes of a value does not say what it is
            known = self._known[value] = self._steps(value)
        return known

    @staticmethod
    def _far(value: Value) -> Steps:
        return (FAR,) * len(shape_of(value.type))

    def _steps(self, value: Value) -> Steps:
        definition = self._definitions.get(value)
        if definition is None or definition.op is None:
            return self._far(value)
        op = definition.op
        if op.name in _CONTROL:
            return next((self.of(v) for v in carried_sources(op, definition)), self._far(value))
        if definition.is_argument:
            return self._far(value)
        rule = _RULES.get(op.name)
        if rule is not None:
            return rule(self, op)
        if op.name in _SUMS:
            return self._each(op, lambda a, b: a + b)
        if op.name in _ONE_OF:
            return self._each(op, max)
        return self._each(op, lambda a, b: 0.0 if a == b == 0 else FAR)

    def _each(self, op: Op, join: Callable[[float, float], float]) -> Steps:
        """The steps of operands in the result's shape, joined one after the other; of others nothing is known."""
        shape = shape_of(op.results[0].type)
        tiles = [v for v in op.operands if isinstance(v.type, Tile)]
        if not tiles or any(shape_of(v.type) != shape for v in tiles) or not (op.row.elementwise or op.name == "load"):
            return self._far(op.results[0])
        first, *others = (self.of(v) for v in tiles)
        if not others:
            others = [(0.0,) * len(shape)]
        for other in others:
            first = tuple(map(join, first, other))
        return first

    def size(self, value: Value) -> float:
        """About how large a number is."""
        known = self._uniform.integer_of(value)
        if known is not None:
            return float(abs(known))
        return _SIZE if self._divisor(value) % 16 else _LARGE_SIZE


def _iota(steps: LikelySteps, op: Op) -> Steps:
    return (1.0,)


def _splat(steps: LikelySteps, op: Op) -> Steps:
    return (0.0,) * len(shape_of(op.result.type))


def _same(steps: LikelySteps, op: Op) -> Steps:
    return steps.of(op.operands[0])


def _product(steps: LikelySteps, op: Op) -> Steps:
    a, b = op.operands
    large, small = steps.size(b), steps.size(a)

    def along(x: float, y: float) -> float:
        if x and y:
            return FAR
        return x * large if x else y * small

    return tuple(map(along, steps.of(a), steps.of(b)))


def _shift(steps: LikelySteps, op: Op) -> Steps:
    by = steps.size(op.operands[1])
    factor = 2.0 ** min(by, 64) if op.name == "shl" else 2.0 ** -min(by, 64)
    return tuple(x * factor if not y else FAR for x, y in zip(*map(steps.of, op.operands), strict=True))


def _quotient(steps: LikelySteps, op: Op) -> Steps:
    size = max(1.0, steps.size(op.operands[1]))
    return tuple(x / size if not y else FAR for x, y in zip(*map(steps.of, op.operands), strict=True))


def _remainder(steps: LikelySteps, op: Op) -> Steps:
    """What is left of a small step is as small, but where it comes round."""
    size = steps.size(op.operands[1])
    return tuple(x if not y and x < size else FAR if x or y else 0.0
                 for x, y in zip(*map(steps.of, op.operands), strict=True))


def _expanded(steps: LikelySteps, op: Op) -> Steps:
    axis, given = op.attrs["axis"], steps.of(op.operands[0])
    return (*given[:axis], 0.0, *given[axis:])


def _broadcast(steps: LikelySteps, op: Op) -> Steps:
    grown = grown_dims(op)
    return tuple(0.0 if d in grown else step for d, step in enumerate(steps.of(op.operands[0])))


def _permuted(steps: LikelySteps, op: Op) -> Steps:
    given = steps.of(op.operands[0])
    return tuple(given[d] for d in op.attrs["order"])


def _reshaped(steps: LikelySteps, op: Op) -> Steps:
    """Dimensions of one element come and go."""
    (source, shape), given = (shape_of(v.type) for v in (op.operands[0], op.result)), steps.of(op.operands[0])
    kept = [step for step, size in zip(given, source, strict=True) if size > 1]
    if [n for n in source if n > 1] != [n for n in shape if n > 1]:
        return (FAR,) * len(shape)
    left = iter(kept)
    return tuple(next(left) if size > 1 else 0.0 for size in shape)


_RULES: Mapping[str, Callable[[LikelySteps, Op], Steps]] = {
    "iota": _iota, "splat": _splat, "mul": _product, "expand_dims": _expanded, "broadcast": _broadcast,
    "permute": _permuted, "reshape": _reshaped, **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(("shl", "shr_s", "shr_u"), _shift), **dict.fromkeys(("div_s", "div_u"), _quotient),
    **dict.fromkeys(("rem_s", "rem_u"), _remainder),
}
