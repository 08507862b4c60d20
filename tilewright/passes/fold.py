"""Folding: constants, bit-exact laws, and control flow that is decided.

* Elementwise ops on constants become constants by the row's own `ref`, where its error bound is 0 and the inputs are
  in its domain; on uniform tiles they become a tile of the op on scalars (`fold_algebra`).
* Laws of elementwise ops (`fold_algebra`) and of ops that rearrange tiles (`fold_shape`).
* A mask that is constant goes, with `other` or the whole access.  An assertion that holds goes.
* `if` with a constant flag becomes its branch; a `for` that runs no iteration its initial values; a carried value
  that every iteration hands on as it is becomes its initial value.

What becomes unused is left for `dce`; equal constants for `cse`.  A `hint` stays: it is for the analyses.
Tests: tests/passes/golden/fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.analysis.uniform import Uniform
from tilewright.ir.node import Block, Module, Op
from tilewright.ir.rewrite import Replacement, Rewriter, map_bodies
from tilewright.ir.types import I1, element_of
from tilewright.passes.fold_algebra import fold_elementwise
from tilewright.passes.fold_shape import fold_join, fold_rearrangement, fold_split
from tilewright.passes.folding import Folding, Outcome
from tilewright.passes.manager import Pass


def simplify(fold: Folding, op: Op) -> Outcome:
    """What the results of an op without regions become, or None."""
    if op.row.elementwise:
        return fold_elementwise(fold, op) if op.row.is_pure else None
    rule = _RULES.get(op.name)
    return None if rule is None else rule(fold, op)


def _load(fold: Folding, op: Op) -> Outcome:
    mask = op.operand("mask")
    flag = None if mask is None else fold.facts.constant_of(mask)
    if flag is None:
        return None
    if flag:
        attrs = {**op.attrs, "has_mask": False, "has_other": False}
        return (fold.emit("load", op.operands[:1], attrs, like=op),)
    other = op.operand("other")
    if other is not None:
        return (other,)
    element = element_of(op.result.type)
    zero = 0.0 if element.is_float else False if element == I1 else 0
    return (fold.constant(zero, op.result.type, op.loc),)


def _store(fold: Folding, op: Op) -> Outcome:
    mask = op.operand("mask")
    flag = None if mask is None else fold.facts.constant_of(mask)
    if flag is None:
        return None
    if flag:
        fold.append(Op(op.row, op.operands[:2], (), {**op.attrs, "has_mask": False}, (), op.loc))
    return ()


def _assertion(fold: Folding, op: Op) -> Outcome:
    return () if fold.facts.constant_of(op.operands[0]) else None


_RULES: Mapping[str, Callable[[Folding, Op], Outcome]] = {
    "broadcast": fold_rearrangement, "expand_dims": fold_rearrangement, "reshape": fold_rearrangement,
    "permute": fold_rearrangement, "split": fold_split, "join": fold_join, "load": _load, "store": _store,
    "device_assert": _assertion, "assume": _assertion,
}


def runs_no_iteration(facts: Uniform, op: Op) -> bool:
    """Whether the bounds of a `for` say that its body never runs."""
    lower, upper, step = (facts.integer_of(v) for v in op.operands[:3])
    if op.operands[0] is op.operands[1] or step == 0 or (lower is not None and lower == upper):
        return True
    if lower is None or upper is None or step is None:
        return False
    if op.attrs["unsigned"]:
        modulus = 1 << element_of(op.operands[0].type).bits
        lower, upper = lower % modulus, upper % modulus
    return lower >= upper if step > 0 else lower <= upper


class _Folder(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._facts = Uniform()

    def visit(self, op: Op) -> Op | Replacement | None:
        if op.regions:
            outcome = self._control(op)
            if outcome is not None:
                return outcome
        else:
            fold = Folding(self._facts, simplify, op.results[0].hint if op.results else "")
            values = simplify(fold, op)
            if values is not None:
                return Replacement(values, tuple(fold.ops))
        self._facts.note(op)
        return None

    def enter_region(self, op: Op, region: Block) -> None:
        if op.name == "for":
            for arg, init, following in zip(region.args[1:], op.operands[3:], region.terminator.operands):
                if following is arg:
                    self.replace_value(arg, self.value(init))

    def _control(self, op: Op) -> Replacement | None:
        if op.name == "if":
            flag = self._facts.constant_of(op.operands[0])
            if flag is not None:
                region = op.regions[0 if flag else 1]
                return Replacement(region.terminator.operands, region.ops[:-1])
            for result, a, b in zip(op.results, *(r.terminator.operands for r in op.regions)):
                if a is b:      # one value in both branches, so one from outside
                    self.replace_value(result, a)
        elif op.name == "for":
            inits = op.operands[3:]
            if runs_no_iteration(self._facts, op):
                return Replacement(inits)
            for result, init, following in zip(op.results, inits, op.regions[0].terminator.operands):
                if following is init:       # `enter_region` has put the initial value there
                    self.replace_value(result, init)
        return None


def run(module: Module) -> Module:
    """`module` with everything folded that this pass knows."""
    return map_bodies(module, lambda body: _Folder().block(body))


FOLD = Pass("fold", run, after=("inline",), why="constants of a call site reach the callee's body by inlining")
