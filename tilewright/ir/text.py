"""The text form of IR: the printer.  `ir.parse` reads it back; print -> parse -> print is the identity.

    module @scale [disjoint]

    func @scale(%x: ptr<f32> [divisible_by = 16], %n: i32) {
      %0 = program_id [axis = 0] : i32
      %c8 = constant 8 : i32
      %1 = splat %x [shape = (8)] : tile<8xptr<f32>>
      ...
      %v = load %p, mask = %m : tile<8xf32>
      %acc = for %lo, %hi, %step, %init do (%i: i32, %a: f32) {
        yield %a
      } : f32
      return
    }

An op is `results = name operands [attributes] regions : result types`.  Attributes at their default are left out, and
so are `has_<operand>` (an optional operand is written `name = %value`).  A constant's value stands in an operand's
place, its type is the result's.  Values are called by their hint, made unique in the function, or numbered in the
order of definition; nothing depends on identities or hash order.  Where it is read, a name ends with its region.
Numbers are exact (`repr` of a float gives it back; a NaN with a payload is written `nan(0x...)`), enums are written by
value, types as their `str`, strings as JSON.  With `locations`,
` loc("file":line:column-line:column in "function" from ...)` ends ops and headers of functions.
`//` starts a comment.  Tests: tests/ir/test_text.py.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.diagnostics import UNKNOWN, Location
from tilewright.ir.node import Block, Function, Module, Op, ParamFacts, Value
from tilewright.ir.ops.table import Attribute
from tilewright.ir.types import Pointer, Scalar, Tile

NAME = re.compile(r"[^\W\d][\w.]*")
_NO_NAME = re.compile(r"[^\w.]+")
_BARE_WORD = re.compile(r"[A-Za-z_]\w*")
_QUIET_NAN = 0x7FF8000000000000
# words in front of the regions of an op; `do` for all others
_REGION_WORDS: Mapping[str, tuple[str, ...]] = {
    "if": ("then", "else"), "while": ("before", "do"), "reduce": ("with",), "scan": ("with",), "map": ("with",)}


def region_word(op_name: str, index: int) -> str:
    """The word that stands in front of region `index` of an op."""
    words = _REGION_WORDS.get(op_name, ())
    return words[index] if index < len(words) else "do"


def print_module(module: Module, locations: bool = False) -> str:
    """The text of `module`; with `locations` it keeps the places in the user's source as well."""
    flags = _fields(module, ("entry_name", "functions"))
    parts = [f"module {_symbol(module.entry_name)}{_brackets(flags)}\n"]
    parts += [print_function(function, locations) for function in module.functions.values()]
    return "\n".join(parts)


def print_function(function: Function, locations: bool = False) -> str:
    """The text of one function."""
    return "\n".join(_FunctionPrinter(function, locations).lines()) + "\n"


def op_lines(function: Function) -> Iterator[tuple[Op, str]]:
    """Each op of `function` in the order of `walk.ops_in` with its line of text, regions left out."""
    printer = _FunctionPrinter(function, False)

    def walk(block: Block) -> Iterator[tuple[Op, str]]:
        for op in block.ops:
            yield op, printer.head(op) + printer.tail(op)
            for region in op.regions:
                yield from walk(region)

    return walk(function.body)


def value_names(function: Function) -> dict[Value, str]:
    """The name, without `%`, of every value of `function` in its text."""
    return _FunctionPrinter(function, False).names


class _FunctionPrinter:
    def __init__(self, function: Function, locations: bool) -> None:
        self._function = function
        self._locations = locations
        self.names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._copies: dict[str, int] = {}
        self._count = 0
        for param, name in zip(function.params, function.param_names, strict=False):
            self._name(param, _NO_NAME.sub("_", name).strip("_"))
        self._name_block(function.body)

    def _name_block(self, block: Block) -> None:
        for arg in block.args:
            self._name(arg, arg.hint)
        for op in block.ops:
            for result in op.results:
                self._name(result, result.hint)
            for region in op.regions:
                self._name_block(region)

    def _name(self, value: Value, hint: str) -> None:
        if value in self.names:
            return
        if NAME.fullmatch(hint):
            name = hint
            while name in self._taken:
                self._copies[hint] = self._copies.get(hint, 0) + 1
                name = f"{hint}_{self._copies[hint]}"
        else:
            name = str(self._count)
            self._count += 1
        self._taken.add(name)
        self.names[value] = name

    def _use(self, value: Value) -> str:
        return f"%{self.names.get(value, '?')}"     # `?`: broken IR in an error message; no name, so it cannot parse

    def lines(self) -> Iterator[str]:
        """The function, line by line."""
        function = self._function
        facts = function.param_facts or (ParamFacts(),) * len(function.params)
        params = []
        for param, name, fact in zip(function.params, function.param_names, facts, strict=True):
            notes = _fields(fact, ())
            if self.names[param] != name:
                notes.append(f"name = {json.dumps(name)}")
            params.append(f"{self._use(param)}: {param.type}{_brackets(notes)}")
        results = f" -> ({', '.join(map(str, function.result_types))})" if function.result_types else ""
        flags = _brackets(["noinline"] if function.noinline else [])
        yield f"func {_symbol(function.name)}({', '.join(params)}){results}{flags}{self._location(function.loc)} {{"
        yield from self._block(function.body, "  ")
        yield "}"

    def _block(self, block: Block, indent: str) -> Iterator[str]:
        for op in block.ops:
            line = indent + self.head(op)
            for index, region in enumerate(op.regions):
                args = ", ".join(f"{self._use(a)}: {a.type}" for a in region.args)
                word = region_word(op.name, index)
                yield f"{line} {word} ({args}) {{" if args else f"{line} {word} {{"
                yield from self._block(region, indent + "  ")
                line = indent + "}"
            yield line + self.tail(op) + self._location(op.loc)

    def head(self, op: Op) -> str:
        """Results, name, operands and attributes."""
        results = ", ".join(self._use(r) for r in op.results)
        attrs = dict(op.attrs)
        parts = [self._use(v) for v in op.operands]
        if op.name == "constant":
            attrs.pop("type", None)
            parts = [print_value(attrs.pop("value", None))]
        else:
            for operand in op.row.operands:
                if operand.optional and attrs.pop(f"has_{operand.name}", False):
                    index = op.row.operand_index(operand.name, op.attrs, len(op.operands))
                    if index is not None:
                        parts[index] = f"{operand.name} = {parts[index]}"
        notes = []
        for spec in op.row.attributes:
            if spec.name in attrs:
                value = attrs.pop(spec.name)
                if not is_default(spec, value):
                    notes.append(f"{spec.name} = {print_value(value)}")
        notes += [f"{name} = {print_value(value)}" for name, value in attrs.items()]    # unknown: broken IR
        operands = " " + ", ".join(parts) if parts else ""
        return f"{results + ' = ' if results else ''}{op.name}{operands}{_brackets(notes)}"

    def tail(self, op: Op) -> str:
        """The result types."""
        return " : " + ", ".join(str(r.type) for r in op.results) if op.results else ""

    def _location(self, location: Location) -> str:
        return f" loc({print_location(location)})" if self._locations and location != UNKNOWN else ""


def _fields(record: Any, skip: Sequence[str]) -> list[str]:
    """The fields of a frozen record that differ from their default; a true flag by its name alone."""
    notes = []
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name not in skip and value != field.default:
            notes.append(field.name if value is True else f"{field.name} = {print_value(value)}")
    return notes


def _symbol(name: str) -> str:
    return f"@{name if NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)}"


def _brackets(notes: Sequence[str]) -> str:
    return f" [{', '.join(notes)}]" if notes else ""


def is_default(spec: Attribute, value: Any) -> bool:
    """Whether an attribute has its default, so that the text leaves it out."""
    return not spec.required and type(value) is type(spec.default) and bool(value == spec.default)


def print_value(value: Any) -> str:
    """The text of an attribute's value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        text = str(value.value)
        return text if _BARE_WORD.fullmatch(text) else json.dumps(text)
    if isinstance(value, float):
        return _print_float(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"({', '.join(print_value(v) for v in value)})"
    if isinstance(value, (int, Scalar, Pointer, Tile)):
        return str(value)
    raise TypeError(f"an attribute cannot be {value!r}")


def _print_float(value: float) -> str:
    if not math.isnan(value):
        return repr(value)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return "nan" if bits == _QUIET_NAN else f"nan({bits:#x})"


def print_location(location: Location) -> str:
    """`"file":line:column-line:column in "function" from caller`."""
    text = f"{json.dumps(location.file, ensure_ascii=False)}:{location.line}:{location.column}"
    if location.end_line or location.end_column:
        text += f"-{location.end_line}:{location.end_column}"
    if location.function:
        text += f" in {json.dumps(location.function, ensure_ascii=False)}"
    if location.caller is not None:
        text += f" from {print_location(location.caller)}"
    return text
