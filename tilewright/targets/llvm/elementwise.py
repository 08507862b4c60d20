"""The rule of every elementwise row: how it becomes LLVM instructions on scalars or vectors, on every target.

A row with a template follows it; on 16- and 8-bit floats it computes in f32 and rounds after the op, which is correct
for one operation (`ir.fp`).  The other rows have a function here.  A rule gets LLVM values in compute form (narrow
floats as their bits, i1 as i1), all scalars or all vectors of one length, and uses no fast-math flag.
Tests: tests/targets/cpu/test_rules.py (that every row has a rule), tests/conform (rows against their NumPy meaning).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tilewright.ir.node import Op
from tilewright.ir.ops.attributes import Rounding
from tilewright.ir.ops.rules import scalar_element
from tilewright.ir.types import Element, Scalar, element_of
from tilewright.targets.llvm import convert, floatrem, intdiv, mathlib, minmax
from tilewright.targets.llvm.convert import is_narrow_float
from tilewright.targets.llvm.text import FunctionWriter
from tilewright.targets.llvm.types import Type, Value, constant, zero

Rule = Callable[[FunctionWriter, Op, Sequence[Value]], Value]

_CALL = re.compile(r"call (\S+|<[^>]*>) @(llvm[\w.]+)\((.*)\)$")
_PARAMETER = re.compile(r"(<[^>]*>|[\w.]+) ([^,]+)(?:, |$)")


def rule_of(op: Op) -> Rule:
    """The rule of an elementwise op's row."""
    rule = RULES.get(op.name)
    return rule if rule is not None else _by_template


def narrow(code: FunctionWriter, value: Value, element: Element) -> Value:
    """An f32 (or f64) value rounded to the compute form of float `element`."""
    if not is_narrow_float(element):
        return value
    assert isinstance(element, Scalar)
    return convert.narrow(code, value, element)


def _by_template(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
    """The row's template, in f32 for narrow floats."""
    source, target = element_of(op.operands[0].type), element_of(op.results[0].type)
    if not is_narrow_float(source):
        return _fill(code, op, args, convert.register_type(target, args[0].type.lanes))
    assert isinstance(source, Scalar)
    args = [convert.widen(code, a, source) for a in args]
    result = args[0].type if target == source else convert.register_type(target, args[0].type.lanes)
    return narrow(code, _fill(code, op, args, result), target)


def _fill(code: FunctionWriter, op: Op, args: Sequence[Value], result: Type) -> Value:
    """The row's template as an instruction with a result of type `result`."""
    template, t = op.row.template, args[0].type
    assert template is not None, f"row {op.name} has neither a template nor a rule"
    text = template.format(*(a.name for a in args), t=t, s=t.mangled, r=result)
    call = _CALL.match(text) if template.startswith("call") else None
    if call is not None:
        code.module.declare(call[2], result, [_type(p[0]) for p in _PARAMETER.findall(call[3])])
    return code.emit(result, text)


def _type(text: str) -> Type:
    vector = re.match(r"<(\d+) x (\w+)>", text)
    return Type(vector[2], int(vector[1])) if vector else Type(text)


# --- integers


def _shift(name: str) -> Rule:
    def rule(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
        a, b = args
        return code.op(name, a, code.op("and", b, constant(b.type, b.type.bits - 1)))

    return rule


def _divide(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
    return intdiv.emit(code, op.name, *args)


# --- floats


def _on_bits(name: str, mask: Callable[[int], int]) -> Rule:
    """A bit operation with a mask made from the width."""
    def rule(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
        (a,) = args
        bits = code.bitcast(a, a.type.as_int)
        return code.bitcast(code.op(name, bits, constant(bits.type, mask(bits.type.bits))), a.type)

    return rule


def _extremum(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
    element = scalar_element(op.results[0].type)
    a, b = (convert.widen(code, v, element) for v in args)
    return narrow(code, minmax.emit(code, op.name, a, b), element)


def _rem_f(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
    element = scalar_element(op.results[0].type)
    a, b = (convert.widen(code, v, element) for v in args)
    return narrow(code, floatrem.rem_f(code, a, b), element)


def _fma(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
    element = scalar_element(op.results[0].type)
    if not is_narrow_float(element):
        return code.intrinsic("fma", args[0].type, args, (args[0].type,))
    a, b, c = (code.cast("fpext", convert.widen(code, v, element), v.type.of("double")) for v in args)
    return convert.narrow(code, _fma_to_odd(code, a, b, c), element)


def _fma_to_odd(code: FunctionWriter, a: Value, b: Value, c: Value) -> Value:
    """a*b + c in double, a*b being exact, rounded to odd, so that one more rounding is correct (Boldo, Melquiond)."""
    p = code.op("fmul", a, b)
    s = code.op("fadd", p, c)
    back = code.op("fsub", s, p)
    error = code.op("fadd", code.op("fsub", p, code.op("fsub", s, back)), code.op("fsub", c, back))
    bits = code.bitcast(s, s.type.as_int)
    one = constant(bits.type, 1)
    none = zero(s.type)
    away = code.op("xor", code.fcmp("ogt", error, none), code.fcmp("ogt", s, none))
    moved = code.select(away, code.op("sub", bits, one), code.op("add", bits, one))
    exact = code.fcmp("ueq", error, none)      # also where the error is no number
    odd = code.icmp("ne", code.op("and", bits, one), zero(bits.type))
    kept = code.op("or", exact, odd)
    return code.bitcast(code.select(kept, bits, moved), s.type)


# --- conversions


def _convert_float(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
    source, target = scalar_element(op.operands[0].type), scalar_element(op.results[0].type)
    return convert.convert_float(code, args[0], source, target, op.attrs.get("rounding") is Rounding.RTZ)


def _int_to_fp(signed: bool) -> Rule:
    return lambda code, op, args: convert.int_to_float(code, args[0], scalar_element(op.results[0].type), signed)


def _fp_to_int(signed: bool) -> Rule:
    return lambda code, op, args: convert.float_to_int(
        code, args[0], scalar_element(op.operands[0].type), scalar_element(op.results[0].type), signed)


def _bitcast(code: FunctionWriter, op: Op, args: Sequence[Value]) -> Value:
    (a,) = args
    return code.bitcast(a, convert.register_type(element_of(op.results[0].type), a.type.lanes))


def _pointer_cast(name: str) -> Rule:
    return lambda code, op, args: code.cast(
        name, args[0], convert.register_type(element_of(op.results[0].type), args[0].type.lanes))


def _math(name: str) -> Rule:
    return lambda code, op, args: mathlib.emit(code, name, *args)


RULES: Mapping[str, Rule] = {
    "shl": _shift("shl"), "shr_s": _shift("ashr"), "shr_u": _shift("lshr"),
    "div_s": _divide, "div_u": _divide, "rem_s": _divide, "rem_u": _divide,
    "select": lambda code, op, args: code.select(*args),
    "mulhi_u": lambda code, op, args: intdiv.mulhi_u(code, *args),
    "neg_f": _on_bits("xor", lambda bits: 1 << (bits - 1)),
    "abs_f": _on_bits("and", lambda bits: (1 << (bits - 1)) - 1),
    "rem_f": _rem_f, "fma": _fma,
    "max_f": _extremum, "min_f": _extremum, "max_nan_f": _extremum, "min_nan_f": _extremum,
    "fp_ext": _convert_float, "fp_trunc": _convert_float,
    "int_to_fp_s": _int_to_fp(True), "int_to_fp_u": _int_to_fp(False),
    "fp_to_int_s": _fp_to_int(True), "fp_to_int_u": _fp_to_int(False), "bitcast": _bitcast,
    "ptr_to_int": _pointer_cast("ptrtoint"), "int_to_ptr": _pointer_cast("inttoptr"),
    **{name: _math(name) for name in (*mathlib.FUNCTIONS, *mathlib.BINARY)},
}

# Elementwise rows that each target lowers itself, since they become addresses.
BY_ADDRESS = frozenset({"ptr_add"})
