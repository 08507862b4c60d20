"""Chains of i32 arithmetic that end in an address get a second definition in 64 bits, in `wide` modules.

    %a = mul %row, %stride              %a = mul %row, %stride                  (stores and casts still use it)
    %b = add %a, %column          ->    %a64 = mul ext_s(%row), ext_s(%stride)
    %m = cmp_lt_s %b, %n                %b64 = add %a64, ext_s(%column)
    %p = ptr_add %x, %b                 %m = cmp_lt_s %b64, ext_s(%n);  %p = ptr_add %x, %b64

Where an argument reaches 2**30 elements, an int32 offset may leave 32 bits although the element exists; a kernel
written for smaller tensors would read another element or fault.  So sums, products, minima and maxima, choices and
rearrangements between the leaves of a chain (parameters, loads, program ids, loop indices, bit operations, divisions:
all that keep their 32 bits) and its uses as an address, or in a comparison of such a value, are done in 64 bits, also
around loops and branches and behind an extension to i64.  Every other use (a store, a cast, a bit operation, a
division) sees the low 32 bits as before.  A module that is not `wide` stays as it is: there no offset of an element
in bounds leaves 32 bits.

Before: no calls.  After: no `ptr_add` takes an i32 that may have wrapped; dead definitions are left for `dce`.
Tests: tests/passes/golden/widen, tests/passes/test_random.py, tests/runtime/test_wide.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.diagnostics import UNKNOWN
from tilewright.ir.build import make_op
from tilewright.ir.node import Block, Module, Op, Value
from tilewright.ir.rewrite import map_bodies
from tilewright.ir.types import I32, I64, element_of, with_element
from tilewright.ir.walk import Definition, carried_sources, definitions, is_isolated
from tilewright.passes.manager import Pass

ARITHMETIC = frozenset({"add", "sub", "mul"})
# rows whose result holds what their operands at these positions hold
HOLDS: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("splat", "broadcast", "expand_dims", "reshape", "permute", "hint", "split"), (0,)),
    **dict.fromkeys(("join", "cat", "min_s", "max_s", *ARITHMETIC), (0, 1)), "select": (1, 2)}
COMPARISONS = frozenset({"cmp_eq", "cmp_ne", "cmp_lt_s", "cmp_le_s", "cmp_gt_s", "cmp_ge_s"})


def _is_index(value: Value) -> bool:
    return element_of(value.type) in (I32, I64)


def _is_i32(value: Value) -> bool:
    return element_of(value.type) == I32


def _extends(op: Op) -> bool:
    return op.name == "ext_s" and _is_i32(op.operands[0]) and _is_index(op.result)


class _Chains:
    """Which values of one function need a definition in 64 bits."""

    def __init__(self, body: Block) -> None:
        self._definitions = definitions(body)
        self._ops = list(_ops_in(body))
        self.needed: set[Value] = set()
        self.computed = self._computed()        # values that may have wrapped; all others are leaves
        for op in self._ops:
            if op.name == "ptr_add" and op.operands[1] in self.computed:
                self._need(op.operands[1])
        addresses = self.needed & self.computed
        self.comparisons = {op for op in self._ops if op.name in COMPARISONS and _is_index(op.operands[0])
                            and any(not addresses.isdisjoint(self._below(v)) for v in op.operands)}
        for op in self.comparisons:
            for operand in op.operands:
                self._need(operand)

    def sources(self, value: Value) -> tuple[Value, ...]:
        """The values that `value` is made from without leaving a chain; none for a leaf."""
        definition = self._definitions.get(value)
        if definition is None or definition.op is None or not _is_index(value):
            return ()
        op = definition.op
        if definition.is_argument:
            return tuple(carried_sources(op, definition))
        if op.name in HOLDS:
            return tuple(op.operands[i] for i in HOLDS[op.name])
        return op.operands if _extends(op) else tuple(carried_sources(op, definition))

    def _computed(self) -> set[Value]:
        """The values that hold a sum or product of i32, found forward until nothing changes."""
        found = {op.result for op in self._ops if op.name in ARITHMETIC and _is_i32(op.result)}
        holders = [v for v in self._definitions if _is_index(v)]
        size = -1
        while size != len(found):
            size = len(found)
            found.update(v for v in holders if v not in found and any(s in found for s in self.sources(v)))
        return found

    def _below(self, value: Value) -> set[Value]:
        """`value` and all that it is made from."""
        seen: set[Value] = set()
        work = [value]
        while work:
            value = work.pop()
            if value not in seen:
                seen.add(value)
                work += self.sources(value)
        return seen

    def _need(self, value: Value) -> None:
        """`value`, what it is made from, and whatever goes round a loop with that."""
        work = [value]
        while work:
            value = work.pop()
            if value in self.needed:
                continue
            self.needed.add(value)
            if value not in self.computed:
                continue
            work += self.sources(value)
            definition = self._definitions.get(value)
            if definition is not None and definition.op is not None:
                work += _partners(definition.op, definition)


def _ops_in(block: Block) -> Iterator[Op]:
    """Every op but those of combine regions, which see elements only."""
    for op in block.ops:
        yield op
        if not is_isolated(op):
            for region in op.regions:
                yield from _ops_in(region)



def _partners(op: Op, definition: Definition) -> Iterator[Value]:
    """The values that hold the same carried value of a loop, and so are widened with it."""
    index = definition.index
    if op.name == "for":
        position = index - 1 if definition.is_argument else index
        if position >= 0:
            yield op.regions[0].args[1 + position]
            yield op.results[position]
    elif op.name == "while" and definition.block is not op.regions[0]:
        yield op.regions[1].args[index]
        yield op.results[index]


class _Widener:
    """Rewrites one function, the values in `chains.needed` getting a twin where they are defined."""

    def __init__(self, chains: _Chains) -> None:
        self._chains = chains
        self._twins: dict[Value, Value] = {}
        self._location = UNKNOWN        # of the op that is rewritten

    def block(self, block: Block, carried: Mapping[Value, Value] | None = None) -> Block:
        """`block`, with the twins of its arguments among `carried` or made at its start."""
        ops: list[Op] = []
        extra = carried or {}
        self._twins.update(extra)
        for arg in block.args:
            if arg in self._chains.needed and arg not in extra:
                self._twins[arg] = self._leaf(ops, arg)
        for op in block.ops:
            self._op(ops, op)
        return Block((*block.args, *extra.values()), tuple(ops))

    def _op(self, ops: list[Op], op: Op) -> None:
        twins = self._twins
        self._location = op.loc
        if op.regions and not is_isolated(op):
            ops.append(self._control(op))
            twins.update({r: self._leaf(ops, r) for r in op.results
                          if r in self._chains.needed and r not in self._chains.computed})
            return
        if op in self._chains.comparisons:
            op = op.updated(operands=[twins[v] for v in op.operands])
        elif op.name == "ptr_add" and op.operands[1] in twins:
            op = op.updated(operands=[op.operands[0], twins[op.operands[1]]])
        ops.append(op)
        wanted = [r for r in op.results if r in self._chains.needed]
        if not wanted:
            return
        if wanted[0] not in self._chains.computed:
            twins.update({r: self._leaf(ops, r) for r in wanted})
        elif _extends(op):
            twins[op.result] = twins[op.operands[0]]
        else:
            held = HOLDS[op.name]
            ops.append(make_op(op.name, [twins[v] if i in held else v for i, v in enumerate(op.operands)], op.attrs,
                               (), op.loc, op.results[0].hint))
            twins.update(zip(op.results, ops[-1].results, strict=True))

    def _leaf(self, ops: list[Op], value: Value) -> Value:
        """The twin of a value that cannot have wrapped."""
        if not _is_i32(value):
            return value
        ops.append(make_op("ext_s", [value], {"to": I64}, (), self._location, value.hint))
        return ops[-1].result

    # --- control flow: a carried value's twin goes round beside it

    def _control(self, op: Op) -> Op:
        return {"for": self._for, "while": self._while, "if": self._if}[op.name](op)

    def _fresh(self, values: Sequence[Value]) -> dict[Value, Value]:
        """New values for the twins of those of `values` that go round."""
        return {v: Value(with_element(v.type, I64), v.hint) for v in values if self._goes_round(v)}

    def _goes_round(self, value: Value) -> bool:
        return value in self._chains.needed and value in self._chains.computed

    def _passing(self, block: Block, extra: Sequence[Value]) -> Block:
        """`block` whose terminator also passes on the twins of `extra`."""
        last = block.terminator
        if not extra:
            return block
        operands = [*last.operands, *(self._twins[v] for v in extra)]
        return Block(block.args, (*block.ops[:-1], last.updated(operands=operands)))

    def _rebuilt(self, op: Op, regions: Sequence[Block], inits: Sequence[Value], results: dict[Value, Value]) -> Op:
        self._twins.update(results)
        operands = [*op.operands, *(self._twins[v] for v in inits)]
        return Op(op.row, operands, [*op.results, *results.values()], op.attrs, regions, op.loc)

    def _for(self, op: Op) -> Op:
        (body,) = op.regions
        positions = [k for k, v in enumerate(op.results) if self._goes_round(v)]
        args = self._fresh([body.args[1 + k] for k in positions])
        rewritten = self._passing(self.block(body, args), [body.terminator.operands[k] for k in positions])
        return self._rebuilt(op, [rewritten], [op.operands[3 + k] for k in positions], self._fresh(op.results))

    def _while(self, op: Op) -> Op:
        before, body = op.regions
        carried = [k for k, v in enumerate(before.args) if self._goes_round(v)]
        passed = [k for k, v in enumerate(op.results) if self._goes_round(v)]
        test = self.block(before, self._fresh(before.args))
        test = self._passing(test, [before.terminator.operands[1 + k] for k in passed])
        rewritten = self.block(body, self._fresh(body.args))
        rewritten = self._passing(rewritten, [body.terminator.operands[k] for k in carried])
        return self._rebuilt(op, [test, rewritten], [op.operands[k] for k in carried], self._fresh(op.results))

    def _if(self, op: Op) -> Op:
        wanted = [k for k, v in enumerate(op.results) if self._goes_round(v)]
        ways = [self._passing(self.block(region), [region.terminator.operands[k] for k in wanted])
                for region in op.regions]
        return self._rebuilt(op, ways, (), self._fresh(op.results))


def _widened(body: Block) -> Block:
    chains = _Chains(body)
    return _Widener(chains).block(body) if chains.needed else body


def run(module: Module) -> Module:
    """`module` with its chains in 64 bits, if it is `wide`."""
    return map_bodies(module, _widened) if module.wide else module


WIDEN = Pass("widen", run, after=("inline",), why="a chain may go through a device function")
