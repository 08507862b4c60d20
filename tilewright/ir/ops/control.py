"""Loops, branches, calls and terminators.  The interpreters and code generators run these themselves.

* `for`(lower, upper, step, *inits), region (index, *carried) -> yield(*next): iterates while index < upper for a
  positive step, index > upper for a negative one (a zero step runs no iteration; the language layer asserts).
  The results are the carried values after the last iteration.  With `unsigned` the bounds compare as unsigned, the
  step stays signed.  The number of iterations is that of exact integers: an index that would wrap ends the loop.
* `while`(*inits), regions `before` (*carried) -> condition(flag, *passed) and `body` (*passed) -> yield(*next).
  The results are what `condition` passed when the flag was false.
* `if`(flag), regions then and else, each yielding the results.
* `call`{callee}(*args).  The callee's body ends in return(*results).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir.ops.rules import require
from tilewright.ir.ops.table import TABLE, Attribute, Effect, Operand, OpRow
from tilewright.ir.types import I1, I32, I64, Type

if TYPE_CHECKING:
    from tilewright.ir.node import Block

Attrs = Mapping[str, Any]
_SCF = "structured control flow as in MLIR's scf dialect"


def _types(values: Sequence[Any]) -> list[Type]:
    return [v.type for v in values]


def _infer_for(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(len(types) >= 3, "takes lower, upper and step")
    bound, carried = types[0], list(types[3:])
    require(bound in (I32, I64) and types[1] == types[2] == bound, "bounds are three i32 or three i64")
    (body,) = regions
    require(_types(body.args) == [bound, *carried], "the region takes the index and the carried values")
    require(_types(body.terminator.operands) == carried, "the region yields the carried values")
    return tuple(carried)


TABLE.add(OpRow("for", (Operand("lower"), Operand("upper"), Operand("step"), Operand("inits", variadic=True)),
                _infer_for, None, "a counted loop", _SCF, regions=1, effects=Effect.NESTED,
                attributes=(Attribute("unsigned", bool, False, required=False),
                            Attribute("stages", int, 0, required=False))))


def _infer_while(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    before, body = regions
    require(_types(before.args) == list(types), "`before` takes the carried values")
    passed = _types(before.terminator.operands)
    require(before.terminator.name == "condition" and passed[:1] == [I1], "`before` ends in condition(i1, ...)")
    require(_types(body.args) == passed[1:], "the body takes what condition passes")
    require(_types(body.terminator.operands) == list(types), "the body yields the carried values")
    return tuple(passed[1:])


TABLE.add(OpRow("while", (Operand("inits", variadic=True),), _infer_while, None, "a loop with a condition", _SCF,
                regions=2, effects=Effect.NESTED))


def _infer_if(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(list(types) == [I1], "takes one i1")
    then, otherwise = (_types(r.terminator.operands) for r in regions)
    require(then == otherwise, "the branches yield different types")
    require(not regions[0].args and not regions[1].args, "branches take no arguments")
    return tuple(then)


TABLE.add(OpRow("if", (Operand("flag"),), _infer_if, None, "a branch", _SCF, regions=2, effects=Effect.NESTED))
TABLE.add(OpRow("call", (Operand("args", variadic=True),), lambda types, attrs, regions: attrs["result_types"], None,
                "a call of a device function of the module", "docs/design.md", effects=Effect.NESTED,
                attributes=(Attribute("callee", str), Attribute("result_types", tuple))))


def _no_results(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    return ()


def _infer_condition(types: Sequence[Type], attrs: Attrs, regions: Sequence[Block]) -> tuple[Type, ...]:
    require(len(types) >= 1 and types[0] == I1, "the first operand is i1")
    return ()


_VALUES = (Operand("values", variadic=True),)
TABLE.add(OpRow("yield", _VALUES, _no_results, None, "ends a region", _SCF, effects=Effect.CONTROL, terminator=True))
TABLE.add(OpRow("condition", (Operand("flag"), *_VALUES), _infer_condition, None, "ends the `before` of a while",
                _SCF, effects=Effect.CONTROL, terminator=True))
TABLE.add(OpRow("return", _VALUES, _no_results, None, "ends a function", _SCF, effects=Effect.CONTROL,
                terminator=True))
