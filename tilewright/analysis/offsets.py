"""Which int32 arithmetic may be done in 64 bits, because it is index arithmetic that ends in an address.

`Offsets(module).through(offset)` gives, for an integer that is added to a pointer, the int32 values below it that may
be taken without wrapping: sums, differences, products and rearrangements of *indices* (program ids, loop indices,
`arange`, integer parameters, constants, and what is computed from these), for which a launch promises that they do
not wrap (docs/design.md, Launch facts).  Values that come from memory are data: they wrap, and so does all that is
computed from them.  An index that is also seen by a division or a bit operation below the same offset wraps as well:
in `h - h % 8` both must be one number.

Before: no calls.  After: nothing changes.  Tests: tests/analysis/test_offsets.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import I32, I64, element_of
from tilewright.ir.walk import carried_sources, definitions

_RING = frozenset({"add", "sub", "mul"})
_MOVES = frozenset({"splat", "broadcast", "expand_dims", "permute", "reshape", "slice", "hint", "convert"})
_SOURCES = frozenset({"program_id", "num_programs", "block_id", "num_blocks", "iota", "constant"})
_DERIVED = _RING | _MOVES | _SOURCES | {"div_s", "div_u", "rem_s", "rem_u", "and", "shl", "shr_s", "shr_u", "min_s",
                                        "max_s", "ext_s", "ext_u", "trunc"}
_CONTROL = frozenset({"for", "while", "if"})


class Offsets:
    """The index arithmetic of one kernel."""

    def __init__(self, module: Module) -> None:
        self._definitions = definitions(module.entry.body)
        self._known: dict[Value, frozenset[Value]] = {}
        self._indices = self._find_indices()

    def through(self, offset: Value) -> frozenset[Value]:
        """The int32 values below `offset`, leaves included, that are taken without wrapping."""
        if offset not in self._known:
            self._known[offset] = self._through(offset)
        return self._known[offset]

    def _through(self, offset: Value) -> frozenset[Value]:
        wide: set[Value] = set()
        computed: set[Value] = set()        # of these, the sums and products
        seen: set[Value] = set()
        leaves: list[Value] = []
        work = [offset]
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            op = self._op(value)
            if element_of(value.type) == I32:
                if value not in self._indices:
                    leaves.append(value)
                    continue
                wide.add(value)
                if op is not None and op.name in _RING:
                    computed.add(value)
            if op is not None and (op.name in _RING or op.name in _MOVES or _extends(op)):
                work += op.operands
            else:
                leaves.append(value)
        below: set[Value] = set()
        work = leaves
        while work:
            value = work.pop()
            op = self._op(value)
            for operand in op.operands if op is not None else ():
                if operand not in below:
                    below.add(operand)
                    work.append(operand)
        return frozenset() if computed & below else frozenset(wide)

    def _op(self, value: Value) -> Op | None:
        """The op that computes `value`; None for parameters and what control flow carries."""
        definition = self._definitions.get(value)
        if definition is None or definition.is_argument or definition.op is None or definition.op.name in _CONTROL:
            return None
        return definition.op

    def _find_indices(self) -> frozenset[Value]:
        """The integers that are computed from indices alone: all, less those that are not, until nothing changes."""
        found = {v for v in self._definitions if element_of(v.type) in (I32, I64)}
        users: dict[Value, list[Value]] = {}
        work: list[Value] = []
        for value in found:
            sources = list(self._sources(value))
            if None in sources:
                work.append(value)
            for source in sources:
                if source is not None:
                    users.setdefault(source, []).append(value)
                    if source not in found:
                        work.append(value)
        while work:
            value = work.pop()
            if value in found:
                found.discard(value)
                work += users.get(value, ())
        return frozenset(found)

    def _sources(self, value: Value) -> Iterator[Value | None]:
        """What an integer is made from; None: from something that is no index."""
        definition = self._definitions[value]
        op = definition.op
        if op is None:
            return                          # a parameter
        if op.name == "for" and definition.is_argument and definition.index == 0:
            yield from op.operands[:3]      # the loop's index
        elif op.name in _CONTROL:
            yield from carried_sources(op, definition)
        elif definition.is_argument or (op.name not in _DERIVED and op.name != "select"):
            yield None
        else:
            yield from op.operands[1:] if op.name == "select" else op.operands


def _extends(op: Op) -> bool:
    return op.name == "ext_s" and element_of(op.operands[0].type) == I32
