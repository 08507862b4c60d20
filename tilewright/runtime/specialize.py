"""From the values of a launch to a specialisation: what is compiled in, and what travels with the launch.

Each argument becomes an *atom*, which is the argument's part of the key, and none or more *slots*, the 64-bit patterns
that the kernel gets.  An atom is a text for a run-time value, its type and "D" when 16 divides it (`i32`, `*fp32D`),
or a tuple for a compile-time value, typed so that 1, True and 1.0 differ.  `signature` turns atoms into what the
frontend takes.  The rules are those of docs (specialisation): an int equal to 1 and None are compiled in; annotations
fix the type; bools and floats are never specialised; NumPy scalars keep their dtype.
Tests: tests/runtime/test_specialize.py.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from tilewright.ir import fp
from tilewright.language.constexpr import constexpr
from tilewright.language.function import ConstexprFunction, Param, SourceFunction
from tilewright.language.options import Arg, ConstantArg, RuntimeArg, Signature, TupleArg
from tilewright.language.structures import part_name
from tilewright.language.types import dtype, parse_type, pointer_type
from tilewright.runtime.arguments import CPU, ELEMENTS, MockTensor, Pointer, Readers, element_of_dtype
from tilewright.runtime.descriptor import TensorDescriptor, class_of, parts_of

Atom = Any          # str | tuple, see the module's docstring
_MASK = 2**64 - 1
_ONE = ("=", int, 1)
# the atoms of a pointer to each element type: at any address, at a multiple of 16
_ATOMS = {element: (f"*{element}", f"*{element}D") for element, _ in ELEMENTS.values()}
_NONE = ("=", type(None), None)


@dataclass(frozen=True, slots=True)
class Rule:
    """How one parameter is specialised; `fixed` is the type text that its annotation gives, or empty."""

    name: str
    is_constexpr: bool = False
    fixed: str = ""
    const: bool = False
    by_value: bool = True
    by_alignment: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether nothing is said of the parameter, so that the short way through `Specializer.split` is right."""
        return (self.by_value and self.by_alignment and not (self.is_constexpr or self.fixed or self.const))


class Split(NamedTuple):
    """A bound argument list, taken apart.  `pointers` pairs the number of a slot with what it points to.

    `ordinary`: all tensors are in the CPU's memory and writable, so nothing has to be said against them.
    """

    atoms: tuple[Atom, ...]
    slots: list[int]
    pointers: list[tuple[int, Pointer]]
    ordinary: bool


def rule_of(param: Param) -> Rule:
    """The rule of a parameter by its annotation and its marks."""
    fixed = _annotated_type(param.annotation)
    return Rule(param.name, param.is_constexpr, fixed, param.is_const, not param.do_not_specialize,
                not (param.do_not_specialize or param.do_not_specialize_on_alignment))


def _annotated_type(annotation: Any) -> str:
    """The type text that an annotation fixes: i32 for `int`, fp32 for `float`, else of a language type or its name."""
    named = {int: "i32", float: "fp32", bool: "i1", "int": "i32", "float": "fp32", "bool": "i1"}
    if isinstance(annotation, str):
        annotation = annotation.strip("\"' ").rpartition("tl.")[2]
    if isinstance(annotation, str | type) and annotation in named:
        return named[annotation]
    if isinstance(annotation, str):
        try:
            annotation = parse_type(annotation)
        except ValueError:
            return ""
    return type_text(annotation) if isinstance(annotation, dtype | pointer_type) else ""


def type_text(t: Any) -> str:
    """The short text of a language type: i32, u8, fp32, *fp16, *ki64."""
    if isinstance(t, pointer_type):
        return f"*{'k' if t.const else ''}{type_text(t.element_ty)}"
    return str(t.mangle())


def typed(value: Any) -> tuple[Any, ...]:
    """A hashable stand-in of a compile-time value: equal only for values of the same type and the same bits."""
    cls = type(value)
    if cls is int:
        return (cls, value)
    if cls is float:
        return (cls, value.hex())
    if isinstance(value, tuple):
        return (cls, *map(typed, value))
    if isinstance(value, constexpr):
        return typed(value.value)
    if isinstance(value, np.generic):
        return (cls, value.dtype.str, value.tobytes())
    if hasattr(value, "__dlpack__"):
        raise TypeError(f"a {cls.__name__} has elements, which are not known when the kernel is compiled; pass the "
                        "number x.item(), or leave tl.constexpr out and read it with tl.load")
    try:
        hash(value)
    except TypeError:
        hint = "pass a tuple" if isinstance(value, list) else "pass numbers, strings, dtypes or tuples of them"
        raise TypeError(f"a constexpr has to be hashable, and a {cls.__name__} is not; {hint}") from None
    return (cls, value, *_told_apart(value))


def _told_apart(value: Any) -> Iterator[Any]:
    """What tells a hashable value from others that it is equal to: 0.0 == -0.0 and 1 == True, wherever they stand."""
    if isinstance(value, float):
        yield value.hex()
    elif isinstance(value, complex):
        yield from map(typed, (value.real, value.imag))
    elif isinstance(value, frozenset):
        yield frozenset(map(typed, value))
    elif is_dataclass(value) and not isinstance(value, type):
        parts = (getattr(value, field.name) for field in fields(value) if field.compare)
        yield from (typed(part) for part in parts if _is_hashable(part))


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return not hasattr(value, "__dlpack__")


class Specializer:
    """The rules of one kernel's parameters, applied to the values of its launches."""

    def __init__(self, kernel: str, params: Sequence[Param | Rule]) -> None:
        self.kernel = kernel
        self.rules = tuple(p if isinstance(p, Rule) else rule_of(p) for p in params)
        self._plain = tuple(rule.is_plain for rule in self.rules)
        self._readers = Readers()

    def split(self, values: Sequence[Any], mock: bool = False) -> Split:
        """Atoms, slots and pointers of bound values; `mock` lets dtypes stand for tensors (`warmup`).

        This is done at every launch: tensors and small ints of plain parameters take the short way.
        """
        atoms: list[Atom] = []
        slots: list[int] = []
        pointers: list[tuple[int, Pointer]] = []
        ordinary, known = True, self._readers.known
        for rule, plain, value in zip(self.rules, self._plain, values):
            try:
                cls = type(value)
                if plain and cls is int and 1 < value <= 0x7FFFFFFF:
                    slots.append(value)
                    atoms.append("i32" if value & 15 else "i32D")
                elif plain and cls in known and (reader := known[cls]) is not None:
                    pointer = reader(value)
                    pointers.append((len(slots), pointer))
                    slots.append(pointer.address)
                    atoms.append(_ATOMS[pointer.element][pointer.address & 15 == 0])
                    ordinary = ordinary and pointer.writable and pointer.device is CPU
                elif rule.is_constexpr:
                    atoms.append(("=", *typed(value)))
                else:
                    atoms.append(self._atom(rule, MockTensor.wrap_dtype(value) if mock else value, slots, pointers))
                    ordinary = False
            except (TypeError, OverflowError) as error:
                raise type(error)(f"{self.kernel}: parameter {rule.name!r}: {error}") from None
        return Split(tuple(atoms), slots, pointers, ordinary)

    def is_tensor(self, value: Any) -> bool:
        """Whether a run-time argument like this one is read as a tensor."""
        return self._readers.find(type(value), value) is not None

    def _atom(self, rule: Rule, value: Any, slots: list[int], pointers: list[tuple[int, Pointer]]) -> Atom:
        cls = type(value)
        if cls is int and not rule.fixed:
            if value == 1 and rule.by_value:
                return _ONE
            slots.append(value & _MASK)
            text = "i32" if -0x80000000 <= value <= 0x7FFFFFFF else _wide_int(value)
            return text + "D" if rule.by_alignment and not value & 15 else text
        if cls is float and not rule.fixed:
            slots.append(pattern("fp32", value))
            return "fp32"
        if value is None:
            return _NONE
        reader = self._readers.find(cls, value)
        if reader is not None:
            pointer = reader(value)
            if rule.fixed and not rule.fixed.startswith("*"):
                raise TypeError(f"annotated as {rule.fixed}, so it takes a number, not a {cls.__name__}")
            pointers.append((len(slots), pointer))
            slots.append(pointer.address)
            text = rule.fixed or f"*{'k' if rule.const else ''}{pointer.element}"
            return text + "D" if rule.by_alignment and not pointer.address & 15 else text
        return self._rare(rule, value, slots, pointers)

    def _rare(self, rule: Rule, value: Any, slots: list[int], pointers: list[tuple[int, Pointer]]) -> Atom:
        """Tuples, annotated numbers, bools, NumPy scalars, compile-time objects; else the error."""
        if isinstance(value, constexpr):
            return ("=", *typed(value.value))
        if isinstance(value, tuple | TensorDescriptor):
            element = Rule(rule.name, by_value=True, by_alignment=rule.by_alignment)
            return ("tuple", class_of(value), *(self._atom(element, item, slots, pointers) for item in parts_of(value)))
        if isinstance(value, SourceFunction | ConstexprFunction):
            return ("=", *typed(value))
        if rule.fixed.startswith("*"):
            raise TypeError(f"annotated as the pointer {rule.fixed}, so it takes a tensor, not {_said(value)}")
        text = rule.fixed or number_type(value)
        slots.append(pattern(text, value))
        divides = rule.by_alignment and text[0] in "iu" and text != "i1" and int(value) % 16 == 0
        return text + "D" if divides else text

    def signature(self, atoms: Sequence[Atom], values: Sequence[Any], disjoint: bool, wide: bool) -> Signature:
        """What the frontend compiles for: an `Arg` a parameter, and the launch facts."""
        args = {rule.name: _arg(atom, value) for rule, atom, value in zip(self.rules, atoms, values, strict=True)}
        return Signature(args, disjoint, wide)

    def slot_names(self, atoms: Sequence[Atom]) -> list[str]:
        """The parameter that each slot belongs to; elements of tuples are `name[0]`, a descriptor's base is `name`."""
        names: list[str] = []
        for rule, atom in zip(self.rules, atoms, strict=True):
            _add_slot_names(rule.name, atom, names)
        return names


def _add_slot_names(name: str, atom: Atom, names: list[str]) -> None:
    if isinstance(atom, str):
        names.append(name)
    elif atom[0] == "tuple":
        for index, item in enumerate(atom[2:]):
            _add_slot_names(part_name(name, atom[1], index), item, names)


def _arg(atom: Atom, value: Any) -> Arg:
    if isinstance(atom, str):
        divisible = atom.endswith("D")
        return RuntimeArg(parse_type(atom[:-1] if divisible else atom), 16 if divisible else 1)
    if atom[0] == "tuple":
        rebuild = None if atom[1] is tuple else atom[1]
        return TupleArg(tuple(_arg(a, v) for a, v in zip(atom[2:], parts_of(value), strict=True)), rebuild)
    return ConstantArg(value.value if isinstance(value, constexpr) else value)


def _wide_int(value: int) -> str:
    """The type of an int that int32 does not hold: int64 as far as it goes, then uint64 (semantics §12)."""
    if -(2**63) <= value < 2**63:
        return "i64"
    if 0 <= value < 2**64:
        return "u64"
    raise OverflowError(f"{value} does not fit in 64 bits")


def number_type(value: Any) -> str:
    """The type text of a number: bool, int and float as Python has them, NumPy scalars by dtype; else TypeError."""
    if isinstance(value, bool | np.bool_):
        return "i1"
    if isinstance(value, float):        # also np.float64, as in triton
        return "fp32"
    if isinstance(value, np.generic):
        if not isinstance(value, np.number) or isinstance(value, np.complexfloating):
            raise TypeError(f"failed to specialize argument of type: {type(value).__name__}; "
                            "a run-time argument is a real number or a tensor")
        return element_of_dtype(value.dtype)[0]
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else _wide_int(value)
    raise TypeError(f"failed to specialize argument of type: {type(value).__name__}; {_cure(value)}")


def _cure(value: Any) -> str:
    if isinstance(value, list | dict | set):
        return ("a run-time argument is a number, a tensor, None or a tuple of these; "
                "pass a NumPy array, or a tuple for compile-time or scalar elements")
    if isinstance(value, str):
        return "a text can only be a compile-time value: annotate the parameter as tl.constexpr"
    if isinstance(value, dtype | np.dtype) or str(type(value)) == "<class 'torch.dtype'>" or isinstance(value, type):
        return "a dtype can only be a compile-time value: annotate the parameter as tl.constexpr (or call .warmup)"
    return ("a run-time argument is a number, None, a tuple of these, or a tensor: a NumPy array, a torch tensor, "
            "anything with DLPack or __array_interface__")


def _said(value: Any) -> str:
    name = type(value).__name__
    return f"{value!r} of type {name}" if isinstance(value, int | float) else f"a {name}"


def pattern(text: str, value: Any) -> int:
    """The 64-bit pattern of number `value` as type `text`: ints extended by their sign, floats in the low bits."""
    if text == "fp32" and isinstance(value, float):
        try:
            return int.from_bytes(struct.pack("<f", value), "little")
        except OverflowError:       # beyond float32: infinity, as a C cast gives
            return 0x7F800000 if value > 0 else 0xFF800000
    if text[0] in "iu":
        return _int_pattern(text, value)
    if not isinstance(value, int | float | np.number | np.bool_):
        raise TypeError(f"annotated as {text}, so it takes a number, not {_said(value)}")
    bits = fp.encode(np.asarray([float(value)]), parse_type(text).to_ir())  # type: ignore[arg-type]
    return int(bits.view(f"u{bits.dtype.itemsize}")[0])


def _int_pattern(text: str, value: Any) -> int:
    try:
        number = operator.index(value.item() if isinstance(value, np.generic) else value)
    except TypeError:
        raise TypeError(f"annotated as {text}, so it takes an integer, not {_said(value)}") from None
    bits = int(text[1:])
    low, high = (0, 2**bits - 1) if text[0] == "u" or bits == 1 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not low <= number <= high:
        raise OverflowError(f"{number} does not fit in {text}, the type that its annotation fixes")
    return number & _MASK


def specialized(value: Any, is_const: bool, by_value: bool, by_alignment: bool) -> tuple[str, Any]:
    """The type text of an argument, and its mark: "D" for a multiple of 16, the value if it is compiled in, or None."""
    rule = Rule("argument", const=is_const, by_value=by_value, by_alignment=by_alignment)
    (atom,) = Specializer("argument", (rule,)).split((value,), mock=True).atoms
    if isinstance(atom, str):
        return (atom[:-1], "D") if atom.endswith("D") else (atom, None)
    if atom[0] == "tuple":
        raise TypeError("a tuple has no single type; ask for its elements")
    return ("constexpr", value)


def mangle_type(value: Any, specialize: bool = False) -> str:
    """The type text of an argument, `constexpr` for what is compiled in; `specialize` says ints equal to 1 are."""
    return specialized(value, False, specialize, False)[0]


__all__ = ["ELEMENTS", "Atom", "Rule", "Specializer", "Split", "mangle_type", "pattern", "rule_of", "specialized",
           "type_text", "typed"]
