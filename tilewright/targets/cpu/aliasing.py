"""Which memory accesses may touch the same bytes, and which touch them element by element.

`Aliases` follows a pointer to the parameter that it comes from.  Two accesses do not meet if they come from different
parameters and the launch promises that written arguments are disjoint.  `elementwise` says that element i of one
tile of addresses can only meet element i of another: equal addresses, no two of them overlapping.
Tests: tests/targets/cpu/test_memory_order.py.
"""

from __future__ import annotations

from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import Tile, shape_of
from tilewright.ir.walk import Definition, definitions
from tilewright.targets.cpu.nest import WORTH_TURNING, vector_axis

_SAME_BASE = ("ptr_add", "splat", "broadcast", "expand_dims", "permute", "reshape", "slice", "hint", "bitcast")

Steps = tuple[int | None, ...]


class Aliases:
    """Facts about the pointers of one function."""

    def __init__(self, module: Module) -> None:
        self._disjoint = module.disjoint
        self._params = set(module.entry.params)
        self._definitions: dict[Value, Definition] = definitions(module.entry.body)
        self._bases: dict[Value, Value | None] = {}
        self._steps: dict[bool, dict[Value, Steps | None]] = {}

    def base(self, pointer: Value) -> Value | None:
        """The parameter that `pointer` is derived from; None if that is not known."""
        if pointer not in self._bases:
            self._bases[pointer] = None         # what a loop carries round may come back here: then it is unknown
            self._bases[pointer] = self._find_base(pointer)
        return self._bases[pointer]

    def _find_base(self, pointer: Value) -> Value | None:
        if pointer in self._params:
            return pointer
        definition = self._definitions[pointer]
        op = definition.op
        if op is None:
            return None
        if definition.is_argument:
            return self._carried_base(op, definition.index - 1) if op.name == "for" else None
        if op.name == "for":
            return self._carried_base(op, definition.index)
        if op.name in _SAME_BASE:
            return self.base(op.operands[0])
        if op.name == "select":
            a, b = self.base(op.operands[1]), self.base(op.operands[2])
            return a if a is b else None
        return None

    def _carried_base(self, loop: Op, position: int) -> Value | None:
        """The base of a value that a `for` carries: that of its start, if the body derives the next one from it."""
        base = self.base(loop.operands[3 + position])
        arg = loop.regions[0].args[1 + position]
        self._bases[arg] = base
        following = self.base(loop.regions[0].terminator.operands[position])
        if following is not base:
            self._bases.clear()
            return None
        return base

    def may_meet(self, a: Value, b: Value) -> bool:
        """Whether an access through `a` and a store through `b` may touch the same byte."""
        base_a, base_b = self.base(a), self.base(b)
        return not (self._disjoint and base_a is not None and base_b is not None and base_a is not base_b)

    def elementwise(self, a: Value, b: Value) -> bool:
        """Whether element i of `a` is element i of `b` and meets no other element of it."""
        return self._equal(a, b, 8) and self.injective(b)

    def _equal(self, a: Value, b: Value, depth: int) -> bool:
        if a is b:
            return True
        x, y = self._definitions.get(a), self._definitions.get(b)
        if depth == 0 or x is None or y is None or x.op is None or y.op is None or x.is_argument or y.is_argument:
            return False
        return (x.index == y.index and x.op.row is y.op.row and x.op.row.is_pure and x.op.attrs == y.op.attrs
                and not x.op.regions and len(x.op.operands) == len(y.op.operands)
                and all(self._equal(p, q, depth - 1) for p, q in zip(x.op.operands, y.op.operands, strict=True)))

    def injective(self, pointer: Value) -> bool:
        """Whether all addresses of a tile differ by an element or more."""
        steps = self.steps(pointer)
        if steps is None:
            return False
        known = [(abs(s), n) for s, n in zip(steps, shape_of(pointer.type), strict=True) if n > 1 and s is not None]
        if len(known) < sum(n > 1 for n in shape_of(pointer.type)):
            return False
        reach = 0
        for step, size in sorted(known):
            if step <= reach:
                return False
            reach += step * (size - 1)
        return True

    def steps(self, value: Value, remainders: bool = False) -> Steps | None:
        """How an affine tile steps along each dimension (elements, for pointers; None: by a run-time number).

        With `remainders` these count as affine: so they are while they do not wrap inside the tile, and who asks has
        to test that (`bounds`).  None for a tile that is not affine.
        """
        if not isinstance(value.type, Tile):
            return ()
        known = self._steps.setdefault(remainders, {})
        if not known:       # all in program order, so that no chain of ops is too long to recurse along
            for other in self._definitions:
                if isinstance(other.type, Tile):
                    known[other] = None
                    known[other] = self._find_steps(other, remainders)
        return known[value]

    def _find_steps(self, value: Value, remainders: bool) -> Steps | None:
        assert isinstance(value.type, Tile)
        definition = self._definitions[value]
        op = definition.op
        if op is None or definition.is_argument:
            return None
        if op.name == "splat":
            return (0,) * value.type.rank
        if op.name == "iota":
            return (1,)
        if op.name in ("add", "sub", "ptr_add"):
            a, b = (self.steps(v, remainders) for v in op.operands)
            sign = -1 if op.name == "sub" else 1
            return None if a is None or b is None else tuple(_plus(x, y, sign) for x, y in zip(a, b, strict=True))
        if op.name == "mul":
            return self._scaled(op, remainders)
        if op.name in ("ext_s", "hint") or (remainders and op.name in ("rem_s", "rem_u")):
            return self.steps(op.operands[0], remainders)
        return self._moved(op, value.type.rank, remainders)

    def other_axis(self, pointer: Value) -> int | None:
        """The dimension along which neighbours lie in memory, where that is not the last one (of sizes above 1)."""
        steps, shape = self.steps(pointer, remainders=True), shape_of(pointer.type)
        if steps is None or len(shape) < 2:
            return None
        last = vector_axis(shape)
        if steps[last] in (0, 1, -1) or shape[last] < WORTH_TURNING:
            return None
        return next((d for d, s in enumerate(steps) if s == 1 and d != last and shape[d] >= WORTH_TURNING), None)

    def _scaled(self, op: Op, remainders: bool) -> Steps | None:
        """A product with a number, or with a tile that is the same everywhere along the other's steps."""
        a, b = (self.steps(v, remainders) for v in op.operands)
        if a is None or b is None:
            return None
        for steps, others, factor in ((a, b, op.operands[1]), (b, a, op.operands[0])):
            number = self._number(factor)
            if number is not None:
                return tuple(None if s is None else s * number for s in steps)
            if not any(o != 0 for o in others):
                return tuple(0 if s == 0 else None for s in steps)
        return None

    def _moved(self, op: Op, rank: int, remainders: bool) -> Steps | None:
        if op.name not in ("broadcast", "expand_dims", "permute"):
            return None
        inner = self.steps(op.operands[0], remainders)
        if inner is None:
            return None
        if op.name == "broadcast":
            return tuple(0 if n == 1 else s for s, n in zip(inner, shape_of(op.operands[0].type), strict=True))
        if op.name == "expand_dims":
            axis = op.attrs["axis"]
            return (*inner[:axis], 0, *inner[axis:]) if inner else (0,) * rank
        return tuple(inner[d] for d in op.attrs["order"])

    def _number(self, value: Value) -> int | None:
        """The constant that all elements of `value` are."""
        definition = self._definitions.get(value)
        op = definition.op if definition is not None and not definition.is_argument else None
        if op is None:
            return None
        if op.name == "constant":
            number = op.attrs["value"]
            return number if isinstance(number, int) else None
        if op.name in ("splat", "broadcast", "expand_dims", "ext_s", "hint"):
            return self._number(op.operands[0])
        return None


def _plus(a: int | None, b: int | None, sign: int) -> int | None:
    return None if a is None or b is None else a + sign * b
