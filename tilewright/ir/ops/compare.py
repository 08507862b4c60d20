"""Comparisons; the result is i1.  Float comparisons are ordered, but `cmp_une`, which is true on a NaN."""

from __future__ import annotations

import numpy as np

from tilewright.ir.ops.rules import elementwise, on_arrays, on_floats, on_unsigned
from tilewright.ir.ops.table import TABLE, Algebra, Operand, OpRow, RefRule
from tilewright.ir.types import I1

_ORDER = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def _compare(name: str, kind: str, ref: RefRule, doc: str, source: str, template: str,
             algebra: Algebra = Algebra.NONE) -> None:
    TABLE.add(OpRow(name, (Operand("lhs"), Operand("rhs")), elementwise(2, kind, I1), ref, doc, source,
                    elementwise=True, template=template, algebra=algebra))


_ICMP, _FCMP = "LLVM LangRef icmp", "IEEE 754-2019 5.11; LLVM LangRef fcmp"
_compare("cmp_eq", "int", on_arrays(np.equal), "a == b", _ICMP, "icmp eq {t} {0}, {1}", Algebra.COMMUTATIVE)
_compare("cmp_ne", "int", on_arrays(np.not_equal), "a != b", _ICMP, "icmp ne {t} {0}, {1}", Algebra.COMMUTATIVE)
for _name, _function in _ORDER.items():
    _compare(f"cmp_{_name}_s", "wide_int", on_arrays(_function), f"signed {_name}", _ICMP,
             f"icmp s{_name} {{t}} {{0}}, {{1}}")
    _compare(f"cmp_{_name}_u", "int", on_unsigned(_function), f"unsigned {_name}", _ICMP,
             f"icmp u{_name} {{t}} {{0}}, {{1}}")
    _compare(f"cmp_o{_name}", "float", on_floats(_function), f"{_name}, false on a NaN", _FCMP,
             f"fcmp o{_name} {{t}} {{0}}, {{1}}")
_compare("cmp_oeq", "float", on_floats(np.equal), "a == b, false on a NaN", _FCMP, "fcmp oeq {t} {0}, {1}",
         Algebra.COMMUTATIVE)
_compare("cmp_une", "float", on_floats(np.not_equal), "a != b, true on a NaN", _FCMP, "fcmp une {t} {0}, {1}",
         Algebra.COMMUTATIVE)
