"""Conversions.  Each names its kind; the attribute `to` is the result's element type.

Float to int truncates; out of the target's range the result is undefined but never a trap: this row saturates and
maps NaN to 0 (PTX ISA cvt).  Narrowing floats round to nearest even or toward zero; fp8 saturates (`ir.fp`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import fp
from tilewright.ir.ops.attributes import Rounding
from tilewright.ir.ops.rules import is_kind, require, scalar_element, signed, unsigned
from tilewright.ir.ops.table import TABLE, Array, Attribute, Call, Operand, OpRow, RefRule, Template
from tilewright.ir.types import I64, Element, Type, element_of, storage_dtype, with_element

if TYPE_CHECKING:
    from tilewright.ir.node import Block


def _cast(name: str, source_kind: str, target_kind: str, ref: RefRule, doc: str, source: str,
          check: Callable[[Element, Element], bool] = lambda a, b: True, template: Template = None,
          extra: tuple[Attribute, ...] = (), domain: Callable[[Call], Array] | None = None) -> None:
    def infer(types: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Block]) -> tuple[Type, ...]:
        have, want = element_of(types[0]), attrs["to"]
        require(is_kind(have, source_kind), f"{have} is not of kind {source_kind}")
        require(is_kind(want, target_kind), f"{want} is not of kind {target_kind}")
        require(check(have, want), f"cannot {name} {have} to {want}")
        return (with_element(types[0], want),)

    TABLE.add(OpRow(name, (Operand("x"),), infer, ref, doc, source, elementwise=True, template=template,
                    attributes=(Attribute("to", Element), *extra), domain=domain))


def _target(call: Call) -> np.dtype[Any]:
    return storage_dtype(call.result_types[0])


def _trunc(call: Call) -> tuple[Array, ...]:
    (a,) = call.args
    return ((a & a.dtype.type(1)).astype(np.bool_) if _target(call) == np.bool_ else a.astype(_target(call)),)


def _ext_s(call: Call) -> tuple[Array, ...]:
    (a,) = call.args
    wide = a.astype(_target(call))
    return (-wide if a.dtype == np.bool_ else wide,)


def _ext_u(call: Call) -> tuple[Array, ...]:
    return (signed(unsigned(call.args[0]).astype(f"u{_target(call).name}")),)


_LLVM = "LLVM LangRef"
_cast("trunc", "int", "int", _trunc, "low bits", _LLVM, lambda a, b: a.bits > b.bits, "trunc {t} {0} to {r}")
_cast("ext_s", "int", "int", _ext_s, "sign extension", _LLVM, lambda a, b: a.bits < b.bits, "sext {t} {0} to {r}")
_cast("ext_u", "int", "int", _ext_u, "zero extension", _LLVM, lambda a, b: a.bits < b.bits, "zext {t} {0} to {r}")


def _fp_convert(call: Call) -> tuple[Array, ...]:
    x = fp.decode(call.args[0], scalar_element(call.types[0]))
    toward_zero = call.attrs.get("rounding") is Rounding.RTZ
    return (fp.encode(x, scalar_element(call.result_types[0]), toward_zero),)


def _narrows(a: Element, b: Element) -> bool:
    return a != b and a.bits >= b.bits


_cast("fp_ext", "format", "format", _fp_convert, "exact widening", "IEEE 754-2019 5.4.2",
      lambda a, b: a.bits < b.bits)
_cast("fp_trunc", "format", "format", _fp_convert, "narrowing (or between formats of one width), rounded",
      "IEEE 754-2019 5.4.2; PTX ISA cvt.satfinite for fp8", _narrows,
      extra=(Attribute("rounding", Rounding, Rounding.RTNE, required=False),))


def _int_to_fp(as_unsigned: bool) -> RefRule:
    def ref(call: Call) -> tuple[Array, ...]:
        (a,) = call.args
        if as_unsigned:
            a = unsigned(a)
        elif a.dtype == np.bool_:
            a = -a.astype(np.int8)      # a signed bit is 0 or -1, as in ext_s
        to = scalar_element(call.result_types[0])
        if to.name in ("f32", "f64"):   # NumPy rounds once, to nearest even
            return (a.astype(storage_dtype(to)),)
        return (fp.encode(_near_f64(a), to),)

    return ref


def _near_f64(a: Array) -> Array:
    """An integer array as float64, such that rounding it to at most 11 bits gives what the integer itself gives.

    From 2**53 on the low 12 bits, which lie below half a unit of the last place of such a format, become one sticky
    bit, so that what is left has at most 53 bits.
    """
    exact = a.astype(np.float64)
    if a.dtype.itemsize < 8:
        return exact
    low = a.dtype.type(0xFFF)
    sticky = (a & ~low) | np.where(a & low, a.dtype.type(0x800), a.dtype.type(0))
    return np.where(np.abs(exact) >= 2.0**53, sticky.astype(np.float64), exact)


_cast("int_to_fp_s", "int", "float", _int_to_fp(False), "signed integer to float, nearest even",
      "IEEE 754-2019 5.4.1")
_cast("int_to_fp_u", "int", "float", _int_to_fp(True), "unsigned integer to float, nearest even",
      "IEEE 754-2019 5.4.1")


def _int_view(call: Call, as_unsigned: bool) -> np.dtype[Any]:
    return np.dtype(f"u{_target(call).name}") if as_unsigned else _target(call)


def _in_range(call: Call, as_unsigned: bool) -> tuple[Array, Array]:
    """The truncated values, and where they fit the result's type (both limits are exact in float64)."""
    bits = 8 * _target(call).itemsize
    low, high = (0.0, 2.0**bits) if as_unsigned else (-(2.0**(bits - 1)), 2.0**(bits - 1))
    with np.errstate(all="ignore"):
        x = np.trunc(fp.decode(call.args[0], scalar_element(call.types[0])))
        return x, np.asarray((x >= low) & (x < high))


def _fp_to_int(as_unsigned: bool) -> RefRule:
    def ref(call: Call) -> tuple[Array, ...]:
        x, inside = _in_range(call, as_unsigned)
        dtype = _int_view(call, as_unsigned)
        largest, smallest, zero = (dtype.type(v) for v in (np.iinfo(dtype).max, np.iinfo(dtype).min, 0))
        outside = np.where(np.isnan(x), zero, np.where(x > 0, largest, smallest))
        out = np.where(inside, np.where(inside, x, 0.0).astype(dtype), outside)
        return (signed(out) if as_unsigned else out,)

    return ref


def _domain(as_unsigned: bool) -> Callable[[Call], Array]:
    return lambda call: _in_range(call, as_unsigned)[1]


_cast("fp_to_int_s", "float", "wide_int", _fp_to_int(False), "truncated to a signed integer", "PTX ISA cvt.rzi",
      domain=_domain(False))
_cast("fp_to_int_u", "float", "wide_int", _fp_to_int(True), "truncated to an unsigned integer", "PTX ISA cvt.rzi",
      domain=_domain(True))


def _bitcast(call: Call) -> tuple[Array, ...]:
    (a,) = call.args
    return (a.view(_target(call)),)


_cast("bitcast", "any", "any", _bitcast, "the same bits, or a pointer to another element", _LLVM,
      lambda a, b: a.bits == b.bits and is_kind(a, "ptr") == is_kind(b, "ptr"))
_cast("ptr_to_int", "ptr", "int", lambda call: (call.args[0],), "address in bytes", _LLVM, lambda a, b: b == I64)
_cast("int_to_ptr", "int", "ptr", lambda call: (call.args[0],), "an address in bytes as a pointer", _LLVM,
      lambda a, b: a == I64)
