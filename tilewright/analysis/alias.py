"""What pointers are based on, and whether two memory accesses may touch the same bytes.

A pointer made from an entry parameter by pointer arithmetic, casts, rearranging, selection and loops is based on that
parameter, or on one of several.  A loaded pointer, one made from an integer, and a parameter of a device function are
based on anything: `bases` says None.

`module.disjoint` is the launch's promise that memory reached through a *written* argument overlaps that of no other
argument.  It is used only between accesses one of which writes (between two reads no one asks).
Tests: tests/analysis/test_alias.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.types import Pointer, element_of

# Entry parameters that a pointer may be based on; None: anything.
Bases = frozenset[Value] | None

_NOTHING: Bases = frozenset()
# Rows whose pointer result is based on what their operands at these positions are based on.
_FOLLOWS: dict[str, Sequence[int]] = {
    "ptr_add": (0,), "bitcast": (0,), "splat": (0,), "broadcast": (0,), "expand_dims": (0,), "reshape": (0,),
    "permute": (0,), "hint": (0,), "split": (0,), "select": (1, 2), "join": (0, 1), "cat": (0, 1), "gather": (0,),
}


def is_pointer(value: Value) -> bool:
    """Whether a value is a pointer or a tile of pointers."""
    return isinstance(element_of(value.type), Pointer)


def _pointer_of(op: Op) -> Value | None:
    """The pointer operand of an access; None for an op that touches memory without one."""
    return op.operand("pointer") if any(o.name == "pointer" for o in op.row.operands) else None


def _union(a: Bases, b: Bases) -> Bases:
    return None if a is None or b is None else a | b


class Alias:
    """Bases of all pointers of one function of a module."""

    def __init__(self, module: Module, function: Function | None = None) -> None:
        function = module.entry if function is None else function
        self._disjoint = module.disjoint
        is_entry = function is module.entry
        self._bases: dict[Value, Bases] = {
            p: frozenset((p,)) if is_entry else None for p in function.params if is_pointer(p)}
        self._block(function.body)

    def bases(self, value: Value) -> Bases:
        """The entry parameters that a pointer may be based on; None if it may be anything."""
        return self._bases.get(value)

    def base(self, value: Value) -> Value | None:
        """The one entry parameter that a pointer is based on, or None."""
        bases = self._bases.get(value)
        return next(iter(bases)) if bases is not None and len(bases) == 1 else None

    def may_overlap(self, a: Op, b: Op) -> bool:
        """Whether two accesses, at least one of which writes, may touch a byte in common."""
        first, second = _pointer_of(a), _pointer_of(b)
        return first is None or second is None or self.pointers_may_overlap(first, second)

    def pointers_may_overlap(self, a: Value, b: Value) -> bool:
        """The same for the pointers of two accesses, at least one of which writes."""
        bases_a, bases_b = self.bases(a), self.bases(b)
        if not self._disjoint or bases_a is None or bases_b is None:
            return True
        return not bases_a.isdisjoint(bases_b)

    @staticmethod
    def same_addresses(a: Value, b: Value) -> bool:
        """Whether two pointers are equal element by element: in SSA, whether they are one value."""
        return a is b

    # Construction: forward, loops until nothing changes (bases only grow, over few parameters)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.regions:
                self._control(op)
            for result in op.results:
                if is_pointer(result) and result not in self._bases:
                    self._bases[result] = self._of_result(op)

    def _of_result(self, op: Op) -> Bases:
        if op.name not in _FOLLOWS:
            return None
        bases: Bases = _NOTHING
        for index in _FOLLOWS[op.name]:
            bases = _union(bases, self._bases.get(op.operands[index]))
        return bases

    def _join(self, targets: Sequence[Value], sources: Sequence[Value]) -> bool:
        """Adds what flows from `sources`; whether anything grew."""
        grew = False
        for target, source in zip(targets, sources, strict=True):
            if is_pointer(target):
                old = self._bases.get(target, _NOTHING)
                new = _union(old, self._bases.get(source))
                if target not in self._bases or new != old:
                    self._bases[target] = new
                    grew = True
        return grew

    def _control(self, op: Op) -> None:
        if op.name == "for":
            self._loop(op, op.operands[3:], op.regions[0].args[1:])
        elif op.name == "while":
            self._loop(op, op.operands, op.regions[0].args)
        else:
            for region in op.regions:
                self._block(region)
                if op.name == "if":
                    self._join(op.results, region.terminator.operands)

    def _loop(self, op: Op, inits: Sequence[Value], carried: Sequence[Value]) -> None:
        self._join(carried, inits)
        grew = True
        while grew:
            grew = False
            for region in op.regions:
                self._forget(region)
            self._block(op.regions[0])
            if op.name == "while":
                passed = op.regions[0].terminator.operands[1:]
                self._join(op.regions[1].args, passed)
                self._block(op.regions[1])
                grew = self._join(carried, op.regions[1].terminator.operands)
                self._join(op.results, passed)
            else:
                grew = self._join(carried, op.regions[0].terminator.operands)
        if op.name == "for":
            self._join(op.results, carried)

    def _forget(self, block: Block) -> None:
        """Drops results in `block` and below, so that they are computed again; arguments keep what flowed in."""
        for op in block.ops:
            for result in op.results:
                self._bases.pop(result, None)
            for region in op.regions:
                self._forget(region)
