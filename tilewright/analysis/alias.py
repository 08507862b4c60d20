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

from tilewright.analysis.forward import Forward
from tilewright.ir.node import Function, Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Pointer, element_of
from tilewright.ir.walk import ops_in

# Entry parameters that a pointer may be based on; None: anything.
Bases = frozenset[Value] | None

# Rows whose pointer results are based on what their operands at these positions are based on.
_FOLLOWS: dict[str, Sequence[int]] = {
    "ptr_add": (0,), "bitcast": (0,), "splat": (0,), "broadcast": (0,), "expand_dims": (0,), "reshape": (0,),
    "permute": (0,), "hint": (0,), "box": (0,), "convert": (0,), "slice": (0,), "split": (0,), "gather": (0,),
    "select": (1, 2), "join": (0, 1), "cat": (0, 1),
}


def is_pointer(value: Value) -> bool:
    """Whether a value is a pointer or a tile of pointers."""
    return isinstance(element_of(value.type), Pointer)


def _pointer_of(op: Op) -> Value | None:
    """The pointer operand of an access; None for an op that touches memory without one."""
    return op.operand("pointer") if any(o.name == "pointer" for o in op.row.operands) else None


class _Bases(Forward[Bases]):
    def relevant(self, value: Value) -> bool:
        return is_pointer(value)

    def unknown(self, value: Value) -> Bases:
        return None

    def fact(self, value: Value) -> Bases:
        return self._facts.get(value)

    def join(self, a: Bases, b: Bases) -> Bases:
        return None if a is None or b is None else a | b

    def transfer(self, op: Op) -> Sequence[Bases] | None:
        if op.name not in _FOLLOWS:
            return None
        first, *others = (self.fact(op.operands[i]) for i in _FOLLOWS[op.name])
        for other in others:
            first = self.join(first, other)
        return [first] * len(op.results)


class Alias:
    """Bases of all pointers of one function of a module (its entry, if none is named)."""

    def __init__(self, module: Module, function: Function | None = None) -> None:
        function = module.entry if function is None else function
        self._disjoint = module.disjoint
        self._bases = _Bases()
        if function is module.entry:
            for param in function.params:
                self._bases.set_fact(param, frozenset((param,)))
        self._bases.walk(function.body)

    def bases(self, value: Value) -> Bases:
        """The entry parameters that a pointer may be based on; None if it may be anything."""
        return self._bases.fact(value)

    def base(self, value: Value) -> Value | None:
        """The one entry parameter that a pointer is based on, or None."""
        bases = self.bases(value)
        return next(iter(bases)) if bases is not None and len(bases) == 1 else None

    def reads_only(self, op: Op, written: Bases) -> bool:
        """Whether nothing changes what `op` reads in a kernel that writes through the parameters `written` alone."""
        if not self._disjoint or written is None:
            return False
        bases = self.bases(op.operands[0])
        return bases is not None and bases.isdisjoint(written)

    def note_same(self, new: Value, known: Value) -> None:
        """Remember that the pointer `new`, which was not there before, points where `known` does."""
        self._bases.set_fact(new, self._bases.fact(known))

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


def written_bases(module: Module, alias: Alias) -> frozenset[Value]:
    """The entry parameters through which a kernel without calls may write; all of them if it writes through a pointer
    of unknown base."""
    found: set[Value] = set()
    for op in ops_in(module.entry.body):
        if op.row.effects & Effect.WRITES:
            bases = alias.bases(op.operands[0])
            if bases is None:
                return frozenset(module.entry.params)
            found |= bases
    return frozenset(found)
