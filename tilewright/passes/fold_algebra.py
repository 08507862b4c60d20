"""Fold rules of elementwise ops: laws that hold bit for bit on every input (the NaN payload of arithmetic apart).

Laws that the op table states (commutative, associative, idempotent) are read from it.  Floats: x + -0.0, x - 0.0 and
x * 1.0 are x; x + 0.0 is not (-0.0), and x * 0.0 and x - x are not 0 (NaN, infinity).
Tests: tests/passes/golden/fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.analysis.uniform import Number
from tilewright.ir.node import Op, Value
from tilewright.ir.ops.table import Algebra
from tilewright.ir.types import F8E5M2, I1, Pointer, Scalar, Tile, element_of
from tilewright.passes.folding import Folding, Outcome, evaluate, same_bits

_ONES = "all bits"
# op: (constant c such that op(x, c) is x, whether op(c, x) is x as well)
_NEUTRAL: Mapping[str, tuple[Number | str, bool]] = {
    "add": (0, True), "sub": (0, False), "mul": (1, True), "or": (0, True), "xor": (0, True), "and": (_ONES, True),
    "shl": (0, False), "shr_s": (0, False), "shr_u": (0, False), "div_s": (1, False), "div_u": (1, False),
    "ptr_add": (0, False),
    "add_f": (-0.0, True), "sub_f": (0.0, False), "mul_f": (1.0, True), "div_rn": (1.0, False), "div_f": (1.0, False),
}
# op: constant c such that op(x, c) is c
_ABSORBING: Mapping[str, Number | str] = {"mul": 0, "and": 0, "or": _ONES}
# ops whose result on two equal integers is this constant
_ON_EQUALS: Mapping[str, Number] = {
    "sub": 0, "xor": 0, "cmp_eq": True, "cmp_ne": False, "cmp_le_s": True, "cmp_ge_s": True, "cmp_lt_s": False,
    "cmp_gt_s": False, "cmp_le_u": True, "cmp_ge_u": True, "cmp_lt_u": False, "cmp_gt_u": False,
}


def _is(number: Number | None, wanted: Number | str, t: Value) -> bool:
    if number is None:
        return False
    if isinstance(wanted, str):
        return int(number) == (1 if element_of(t.type) == I1 else -1)
    return same_bits(number, wanted)


def fold_elementwise(fold: Folding, op: Op) -> Outcome:
    """Constants, then operands that are uniform, then laws."""
    return _constants(fold, op) or _uniform(fold, op) or _law(fold, op)


def _constants(fold: Folding, op: Op) -> Outcome:
    numbers = []
    for operand in op.operands:
        number = fold.facts.constant_of(operand)
        if number is None:
            return None
        numbers.append(number)
    value = evaluate(op, numbers)
    return None if value is None else (fold.constant(value, op.result.type, op.loc),)


def _uniform(fold: Folding, op: Op) -> Outcome:
    """An op on tiles of one scalar each is a tile of the op on the scalars."""
    if not isinstance(op.result.type, Tile):
        return None
    scalars = []
    for operand in op.operands:
        scalar = fold.facts.scalar_of(operand)
        if scalar is None:
            return None
        scalars.append(scalar)
    return (fold.splat(fold.emit(op.name, scalars, op.attrs, like=op), op.result.type, op.loc),)


def _law(fold: Folding, op: Op) -> Outcome:
    # Arithmetic in f8e5m2 saturates (`ir.fp`): not even inf * 1 is inf.
    if len(op.operands) == 2 and element_of(op.result.type) != F8E5M2:
        simpler = _neutral(fold, op) or _equal_operands(fold, op) or _regroup(fold, op)
        if simpler is not None:
            return simpler
    rule = _RULES.get(op.name)
    return None if rule is None else rule(fold, op)


def _neutral(fold: Folding, op: Op) -> Outcome:
    lhs, rhs = op.operands
    numbers = (fold.facts.constant_of(lhs), fold.facts.constant_of(rhs))
    if op.name in _NEUTRAL:
        neutral, both = _NEUTRAL[op.name]
        if _is(numbers[1], neutral, rhs):
            return (lhs,)
        if both and _is(numbers[0], neutral, lhs):
            return (rhs,)
    if op.name in _ABSORBING:
        for operand, number in zip(op.operands, numbers, strict=True):
            if _is(number, _ABSORBING[op.name], operand):
                return (operand,)
    return None


def _equal_operands(fold: Folding, op: Op) -> Outcome:
    lhs, rhs = op.operands
    if lhs is not rhs:
        return None
    if op.row.algebra & Algebra.IDEMPOTENT:
        return (lhs,)
    if op.name in _ON_EQUALS:
        value = _ON_EQUALS[op.name]
        t = element_of(op.result.type)
        return (fold.constant(bool(value) if t == I1 else value, op.result.type, op.loc),)
    return None


def _regroup(fold: Folding, op: Op) -> Outcome:
    """op(op(x, c), d) is op(x, op(c, d)) where the table says so."""
    wanted = Algebra.COMMUTATIVE | Algebra.ASSOCIATIVE
    if op.row.algebra & wanted != wanted:
        return None
    inner_value, outer = op.operands
    if fold.facts.constant_of(outer) is None:
        inner_value, outer = outer, inner_value
    inner = fold.facts.op_of(inner_value, op.name)
    if inner is None or fold.facts.constant_of(outer) is None:
        return None
    x, constant = inner.operands
    if fold.facts.constant_of(constant) is None:
        x, constant = constant, x
    if fold.facts.constant_of(constant) is None:
        return None
    return (fold.emit(op.name, (x, fold.emit(op.name, (constant, outer), like=op)), like=op),)


# Rules of single ops


def _remainder(fold: Folding, op: Op) -> Outcome:
    if fold.facts.integer_of(op.operands[1]) == 1:
        return (fold.constant(0, op.result.type, op.loc),)
    return None


def _select(fold: Folding, op: Op) -> Outcome:
    condition, on_true, on_false = op.operands
    flag = fold.facts.constant_of(condition)
    if flag is not None:
        return (on_true if flag else on_false,)
    if on_true is on_false:
        return (on_true,)
    if element_of(op.result.type) == I1:
        both = (fold.facts.constant_of(on_true), fold.facts.constant_of(on_false))
        if None not in both and both[0] != both[1]:
            return (condition,) if both[0] else (fold.emit("xor", (condition, on_false), like=op),)
    return None


def _negate(fold: Folding, op: Op) -> Outcome:
    inner = fold.operand_op(op, "neg_f")
    return None if inner is None else inner.operands


def _absolute(fold: Folding, op: Op) -> Outcome:
    inner = fold.operand_op(op, "abs_f")
    if inner is not None:
        return inner.results
    inner = fold.operand_op(op, "neg_f")
    return None if inner is None else (fold.emit("abs_f", inner.operands, like=op),)


def _differs_from_zero(fold: Folding, op: Op) -> Outcome:
    """`ext_u(flag) != 0` is the flag, and `flag != false` as well."""
    lhs, rhs = op.operands
    if not _is(fold.facts.constant_of(rhs), 0, rhs):
        return None
    if element_of(lhs.type) == I1:
        return (lhs,)
    inner = fold.facts.op_of(lhs, "ext_u") or fold.facts.op_of(lhs, "ext_s")
    if inner is not None and element_of(inner.operands[0].type) == I1:
        return (inner.operands[0],)
    return None


def _equals_flag(fold: Folding, op: Op) -> Outcome:
    """`flag == true` is the flag, `flag == false` its opposite."""
    flag, wanted = op.operands
    number = fold.facts.constant_of(wanted)
    if number is None:
        flag, number = wanted, fold.facts.constant_of(flag)
    if number is None or element_of(flag.type) != I1:
        return None
    if number:
        return (flag,)
    return (fold.emit("xor", (flag, fold.constant(True, flag.type, op.loc)), like=op),)


# Comparisons and their opposites.  Ordered ones of floats have none: with a NaN both are false.
_OPPOSITE = {"cmp_eq": "cmp_ne", "cmp_lt_s": "cmp_ge_s", "cmp_gt_s": "cmp_le_s", "cmp_lt_u": "cmp_ge_u",
             "cmp_gt_u": "cmp_le_u", "cmp_oeq": "cmp_une"}
_OPPOSITE.update({opposite: name for name, opposite in _OPPOSITE.items()})


def _opposite(fold: Folding, op: Op) -> Outcome:
    """The opposite of a comparison is a comparison."""
    x, ones = op.operands
    if element_of(x.type) != I1:
        return None
    if not _is(fold.facts.constant_of(ones), True, ones):
        x, ones = ones, x
    inner = fold.facts.op_of(x)
    if inner is None or inner.name not in _OPPOSITE or not _is(fold.facts.constant_of(ones), True, ones):
        return None
    return (fold.emit(_OPPOSITE[inner.name], inner.operands, like=op),)


# Casts of casts


def _recast(fold: Folding, op: Op, name: str, x: Value) -> Outcome:
    if element_of(x.type) == op.attrs["to"]:
        return (x,)
    attrs = {"to": op.attrs["to"]}
    return (fold.emit(name, (x,), attrs, like=op),)


def _truncate(fold: Folding, op: Op) -> Outcome:
    inner = fold.facts.op_of(op.operands[0])
    if inner is None or inner.name not in ("trunc", "ext_s", "ext_u"):
        return None
    x = inner.operands[0]
    narrower = element_of(x.type).bits >= op.attrs["to"].bits
    return _recast(fold, op, "trunc" if narrower else inner.name, x)


def _extend(fold: Folding, op: Op) -> Outcome:
    """An extension of a zero extension zero-extends: the sign bit is clear."""
    inner = fold.facts.op_of(op.operands[0])
    if inner is not None and (inner.name == op.name or inner.name == "ext_u"):
        return _recast(fold, op, inner.name, inner.operands[0])
    return None


def _float_fits(a: Scalar, b: Scalar) -> bool:
    """Whether every number of format `a` is one of format `b`."""
    sizes = {"f8e4m3": (4, 4), "f8e4m3fnuz": (4, 4), "f8e4m3b15": (4, 4), "f8e5m2": (3, 5), "f8e5m2fnuz": (3, 5),
             "f16": (11, 5), "bf16": (8, 8), "f32": (24, 8), "f64": (53, 11)}
    (significand, exponent), (wider, longer) = sizes[a.name], sizes[b.name]
    return significand <= wider and exponent <= longer


def _convert_float(fold: Folding, op: Op) -> Outcome:
    """A conversion of an exact widening converts the narrow number itself."""
    inner = fold.operand_op(op, "fp_ext")
    if inner is None:
        return None
    x, to = inner.operands[0], op.attrs["to"]
    have = element_of(x.type)
    if have == to and have != F8E5M2:       # its infinities saturate on the way back (`ir.fp`)
        return (x,)
    if isinstance(have, Scalar) and have.bits < to.bits and _float_fits(have, to):
        return (fold.emit("fp_ext", (x,), {"to": to}, like=op),)
    return None


def _bitcast(fold: Folding, op: Op) -> Outcome:
    if element_of(op.operands[0].type) == op.attrs["to"]:
        return op.operands
    inner = fold.operand_op(op, "bitcast")
    return None if inner is None else _recast(fold, op, "bitcast", inner.operands[0])


def _address_of_pointer(fold: Folding, op: Op) -> Outcome:
    inner = fold.operand_op(op, "int_to_ptr")
    return None if inner is None else inner.operands


def _pointer_of_address(fold: Folding, op: Op) -> Outcome:
    inner = fold.operand_op(op, "ptr_to_int")
    if inner is None or not isinstance(op.attrs["to"], Pointer):
        return None
    return _recast(fold, op, "bitcast", inner.operands[0])


_RULES: Mapping[str, Callable[[Folding, Op], Outcome]] = {
    "rem_s": _remainder, "rem_u": _remainder, "select": _select, "neg_f": _negate, "abs_f": _absolute,
    "cmp_ne": _differs_from_zero, "cmp_eq": _equals_flag, "xor": _opposite,
    "trunc": _truncate, "ext_s": _extend, "ext_u": _extend, "fp_ext": _convert_float, "fp_trunc": _convert_float,
    "bitcast": _bitcast, "ptr_to_int": _address_of_pointer, "int_to_ptr": _pointer_of_address,
}
