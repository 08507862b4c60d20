"""The user's inline PTX on elements.

`pack` neighbouring registers of each operand are handed to one copy of the text.  Elements of less than 32 bits are
packed into registers of 32, the first in the low bits, as far as `pack` fills them; a constraint's letter says what
kind of register it is (h: 16 bits, r: 32, l: 64, f and d: floats, b: a predicate).  Results come back the same way.
Tests: tests/targets/nvidia/test_assembly.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.diagnostics import CompilationError
from tilewright.ir.node import Op
from tilewright.ir.types import Element, element_of
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import DOUBLE, FLOAT, I1, I16, I32, I64, Type, zero
from tilewright.targets.llvm.types import Value as LlvmValue
from tilewright.targets.nvidia.access import as_bits, from_bits
from tilewright.targets.nvidia.state import Kernel

_KINDS = {"b": I1, "h": I16, "r": I32, "l": I64, "f": FLOAT, "d": DOUBLE}
_REGISTER_BITS = 32


def inline_asm(kernel: Kernel, op: Op) -> None:
    """An `inline_asm` op on tiles or scalars."""
    if op.attrs.get("nothing_elsewhere") and not kernel.capability.early_launches:
        kernel.bind(op.result, [zero(I32)])     # which nothing looks at
        return
    pack, outs = op.attrs["pack"], [element_of(r.type) for r in op.results]
    out_kinds, in_kinds = _kinds(op)
    count = kernel.count(op.results[0])
    sources = [kernel.registers(v) for v in op.operands]
    results: list[list[LlvmValue]] = [[] for _ in outs]
    for first in range(0, count, pack):
        given = []
        for source, operand in zip(sources, op.operands, strict=True):
            group = [source[min(first + k, count - 1)] for k in range(pack)]
            given += _packed(kernel, group, element_of(operand.type))
        values = [_as_kind(kernel, v, kind, op) for v, kind in zip(given, in_kinds, strict=True)]
        words = kernel.code.user_assembly(_llvm_text(op.attrs["text"]), op.attrs["constraints"], out_kinds, values,
                                          pure=not op.row.effects)
        at = 0
        for k, element in enumerate(outs):
            per = registers_of(element, pack)
            results[k] += _unpacked(kernel, words[at:at + per], element, pack)
            at += per
    for value, registers in zip(op.results, results, strict=True):
        kernel.bind(value, registers[:count])


def registers_of(element: Element, pack: int) -> int:
    """How many registers hold `pack` elements."""
    return pack // per_register(element, pack) + (pack % per_register(element, pack) != 0)


def per_register(element: Element, pack: int) -> int:
    """How many elements one register holds."""
    return max(1, min(pack, _REGISTER_BITS // max(8, element.bits)))


def _kinds(op: Op) -> tuple[list[Type], list[Type]]:
    """The types of the text's results and operands, from its constraints.  CompilationError if they do not fit."""
    parts = [p.strip() for p in op.attrs["constraints"].split(",") if p.strip()]
    parts = [p for p in parts if not p.startswith("~")]
    pack = op.attrs["pack"]
    wanted = (sum(registers_of(element_of(r.type), pack) for r in op.results),
              sum(registers_of(element_of(v.type), pack) for v in op.operands))
    outs = [p for p in parts if p.startswith("=")]
    ins = [p for p in parts if not p.startswith("=")]
    if (len(outs), len(ins)) != wanted:
        raise CompilationError(
            f"the constraints {op.attrs['constraints']!r} have {len(outs)} results and {len(ins)} operands, but "
            f"{wanted[0]} and {wanted[1]} are needed: one for each register of 32 bits (or wider element) that "
            f"pack={pack} elements fill", op.loc)
    out_kinds = [_kind(p.lstrip("=&"), op) for p in outs]
    return out_kinds, [out_kinds[int(p)] if p.isdigit() and int(p) < len(outs) else _kind(p, op) for p in ins]


def _kind(letter: str, op: Op) -> Type:
    if letter not in _KINDS:
        raise CompilationError(f"the constraint {letter!r} is none of PTX registers: there are {', '.join(_KINDS)}",
                               op.loc)
    return _KINDS[letter]


def _packed(kernel: Kernel, values: Sequence[LlvmValue], element: Element) -> list[LlvmValue]:
    """Elements as integers, several to one of 32 bits."""
    code, per = kernel.code, per_register(element, len(values))
    bits = [as_bits(kernel, v, convert.memory_type(element)) for v in values]
    if per == 1:
        return bits
    bits += [zero(bits[0].type)] * (-len(bits) % per)
    words = []
    for first in range(0, len(bits), per):
        vector = LlvmValue(Type(bits[0].type.element, per), "poison")
        for k in range(per):
            vector = code.insert(vector, bits[first + k], k)
        words.append(code.bitcast(vector, Type(f"i{per * bits[0].type.bits}")))
    return words


def _unpacked(kernel: Kernel, words: Sequence[LlvmValue], element: Element, pack: int) -> list[LlvmValue]:
    """The opposite of `_packed`, from registers of any kind."""
    code, per = kernel.code, per_register(element, pack)
    bits = Type(f"i{8 * element.bytes}")
    found = []
    for word in words:
        whole = _sized(kernel, code.bitcast(word, word.type.as_int), Type(f"i{per * bits.bits}"))
        parts = [whole] if per == 1 else [code.extract(code.bitcast(whole, Type(bits.element, per)), k)
                                          for k in range(per)]
        found += [from_bits(kernel, p, element) for p in parts]
    return found[:pack]


def _as_kind(kernel: Kernel, value: LlvmValue, kind: Type, op: Op) -> LlvmValue:
    """An integer as the register that a constraint names."""
    if value.type.bits > kind.bits and kind != I1:
        raise CompilationError(f"an operand of {value.type.bits} bits does not fit a register of {kind.bits} bits; "
                               f"see the constraints {op.attrs['constraints']!r}", op.loc)
    sized = _sized(kernel, value, kind.as_int)
    return kernel.code.bitcast(sized, kind)


def _sized(kernel: Kernel, value: LlvmValue, to: Type) -> LlvmValue:
    return kernel.code.cast("trunc" if value.type.bits > to.bits else "zext", value, to)


def _llvm_text(text: str) -> str:
    """The text as LLVM writes it: what is not printable, quotes and backslashes as two digits."""
    return re.sub(r'[^ -!#-\[\]-~]', lambda m: "".join(f"\\{b:02X}" for b in m[0].encode()), text)

