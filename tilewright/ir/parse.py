"""Reading the text form of IR (`ir.text` says what it looks like).

`parse_module` rebuilds a module and checks each op as the builder would: attributes known, and the printed result
types those of the row's type rule.  With `check=False` it takes the text at its word, so that a module which breaks
the rules can be written down (for the verifier's tests).  Errors are `scan.ParseError`s with line and column.
Tests: tests/ir/test_text.py, tests/ir/test_parse_errors.py.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import struct
from typing import Any

from tilewright.diagnostics import UNKNOWN, Location
from tilewright.ir.build import complete_attrs
from tilewright.ir.layout_rules import infer_without_layouts, without_layout
from tilewright.ir.node import Block, Function, Module, Op, ParamFacts, Value
from tilewright.ir.ops import TABLE
from tilewright.ir.ops.table import OpRow
from tilewright.ir.scan import Cursor
from tilewright.ir.text import NAME, region_word
from tilewright.ir.types import Pointer, Scalar, Tile, Type
from tilewright.ir.verify import check_attributes
from tilewright.layout.text import parse as parse_layout

_NUMBER = re.compile(r"-?(?:inf\b|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_NAN = re.compile(r"nan(?:\((0x[0-9a-fA-F]+)\))?")
_VALUE_NAME = re.compile(r"%([\w.]+)")
_SIZES = re.compile(r"(?:\d+x)+")
_LAYOUT = re.compile(r"[^>]*")


def parse_module(text: str, file: str = "<ir>", *, check: bool = True, own_locations: bool = False) -> Module:
    """The module that `text` describes.

    `own_locations` gives ops and functions without a `loc` the place in `text` itself.
    """
    return _Parser(Cursor(text, file), check, own_locations).module()


class _Parser:
    def __init__(self, cursor: Cursor, check: bool, own_locations: bool) -> None:
        self._cursor = cursor
        self._check = check
        self._own_locations = own_locations
        self._values: dict[str, Value] = {}         # visible at this point of the function that is being read
        self._gone: dict[str, Value] = {}           # defined in regions that have ended; used without `check` only
        self._ahead: dict[str, Value] = {}          # used before a definition; without `check` only

    # Modules and functions

    def module(self) -> Module:
        cursor = self._cursor
        if not cursor.take_word("module"):
            raise cursor.error(f"expected 'module', found {cursor.found()}")
        entry = self._symbol()
        flags = self._record(Module, ("entry_name", "functions"))
        functions: dict[str, Function] = {}
        while cursor.take_word("func"):
            start = cursor.at
            function = self._function()
            if function.name in functions:
                raise cursor.error(f"function @{function.name} is defined twice", start)
            functions[function.name] = function
        if cursor.at != len(cursor.text):
            raise cursor.error(f"expected 'func', found {cursor.found()}")
        return Module(entry, functions, **flags)

    def _symbol(self) -> str:
        """`@name`, or `@"any text"`."""
        cursor = self._cursor
        cursor.expect("@")
        return cursor.string() if cursor.peek('"') else cursor.need(NAME, "a name")[0]

    def _record(self, record: type[Any], skip: tuple[str, ...], extra: tuple[str, ...] = ()) -> dict[str, Any]:
        """`[flag, name = value]`: fields of a frozen record, and `extra` names."""
        known = {f.name for f in dataclasses.fields(record) if f.name not in skip} | set(extra)
        found: dict[str, Any] = {}
        if self._cursor.take("["):
            self._cursor.listed(lambda: self._record_item(known, found), "]")
        return found

    def _record_item(self, known: set[str], found: dict[str, Any]) -> None:
        cursor, start = self._cursor, self._cursor.at
        name = cursor.need(NAME, "a name")[0]
        if name not in known or name in found:
            raise cursor.error(f"{name!r} is {'given twice' if name in found else 'unknown here'}", start)
        found[name] = self._value(None) if cursor.take("=") else True

    def _function(self) -> Function:
        cursor, start = self._cursor, self._cursor.at
        self._values, self._gone, self._ahead = {}, {}, {}
        name = self._symbol()
        cursor.expect("(")
        params = cursor.listed(self._param, ")")
        results: tuple[Type, ...] = ()
        if cursor.take("->"):
            cursor.expect("(")
            results = tuple(cursor.listed(self.type, ")"))
        flags = self._record(Function, ("name", "param_names", "body", "result_types", "param_facts", "loc"))
        loc = self._location(start)
        body = Block(tuple(p for p, _, _ in params), self._ops())
        facts = tuple(f for _, _, f in params)
        return Function(name, tuple(n for _, n, _ in params), body, results,
                        facts if any(f != ParamFacts() for f in facts) else (), loc=loc, **flags)

    def _param(self) -> tuple[Value, str, ParamFacts]:
        name, value = self._argument()
        notes = self._record(ParamFacts, (), ("name",))
        return value, notes.pop("name", name), ParamFacts(**notes)

    def _argument(self) -> tuple[str, Value]:
        """`%name: type`."""
        start = self._cursor.at
        name = self._cursor.need(_VALUE_NAME, "%name")[1]
        self._cursor.expect(":")
        return name, self._define(name, self.type(), start)

    def _define(self, name: str, type: Type, at: int) -> Value:
        if name in self._values:
            raise self._cursor.error(f"%{name} is defined twice", at)
        value = self._ahead.pop(name, None) or Value(type, "" if name.isdigit() else name)
        value.type = type
        self._values[name] = value
        return value

    def _used(self) -> Value:
        start = self._cursor.at
        name = self._cursor.need(_VALUE_NAME, "%name")[1]
        if name in self._values:
            return self._values[name]
        if self._check:
            raise self._cursor.error(f"%{name} is not visible here" if name in self._gone
                                     else f"%{name} is not defined before its use", start)
        if name in self._gone:
            return self._gone[name]
        return self._ahead.setdefault(name, Value(Scalar("i32"), "" if name.isdigit() else name))

    # Ops

    def _ops(self) -> tuple[Op, ...]:
        cursor = self._cursor
        cursor.expect("{")
        ops: list[Op] = []
        while not cursor.take("}"):
            ops.append(self._op())
        return tuple(ops)

    def _op(self) -> Op:
        cursor, start = self._cursor, self._cursor.at
        names: list[tuple[str, int]] = []
        while cursor.peek("%"):
            at = cursor.at
            names.append((cursor.need(_VALUE_NAME, "%name")[1], at))
            if not cursor.take(","):
                cursor.expect("=")
                break
        name_at = cursor.at
        name = cursor.need(NAME, "the name of an op")[0]
        if name not in TABLE:
            raise cursor.error(f"no op is called {name!r}", name_at)
        row = TABLE[name]
        attrs: dict[str, Any] = {}
        operands = self._operands(row, attrs)
        if cursor.take("["):
            cursor.listed(lambda: self._attribute(row, attrs), "]")
        regions = self._regions(row)
        types_at = cursor.at
        types: list[Type] = []
        if cursor.take(":"):
            types_at = cursor.at
            types.append(self.type())
            while cursor.take(","):
                types.append(self.type())
        if name == "constant" and len(types) == 1:
            attrs["type"] = types[0]
        loc = self._location(start)
        full = self._checked(row, operands, attrs, regions, types, name_at, types_at)
        if len(names) != len(types):
            raise cursor.error(f"{len(names)} results and {len(types)} result types", start)
        results = [self._define(n, t, at) for (n, at), t in zip(names, types, strict=True)]
        return Op(row, operands, results, full, regions, loc)

    def _operands(self, row: OpRow, attrs: dict[str, Any]) -> list[Value]:
        """The operands; those written `name = %value` set `has_name`.  A constant's value is put into `attrs`."""
        cursor = self._cursor
        operands: list[Value] = []
        if row.name == "constant":
            attrs["value"] = self._value(None)
            return operands
        optional = {o.name for o in row.operands if o.optional}
        following = False
        if "\n" in cursor.text[cursor.last_end:cursor.at]:
            return operands         # what stands in the next line is the next op's
        while True:
            start = cursor.at
            named = NAME.match(cursor.text, start)
            if named is not None and named[0] in optional:
                cursor.take(named[0])
                cursor.expect("=")
                attrs[f"has_{named[0]}"] = True
            elif not cursor.peek("%") and not following:
                return operands
            operands.append(self._used())
            if not cursor.take(","):
                return operands
            following = True

    def _attribute(self, row: OpRow, attrs: dict[str, Any]) -> None:
        cursor, start = self._cursor, self._cursor.at
        name = cursor.need(NAME, "the name of an attribute")[0]
        spec = next((a for a in row.attributes if a.name == name), None)
        if (spec is None and self._check) or name in attrs:
            reason = "has no attribute" if spec is None else "is given twice the attribute"
            raise cursor.error(f"op {row.name} {reason} {name}", start)
        cursor.expect("=")
        attrs[name] = self._value(None if spec is None else spec.kind)

    def _regions(self, row: OpRow) -> list[Block]:
        cursor = self._cursor
        regions: list[Block] = []
        while len(regions) < row.regions and cursor.take_word(region_word(row.name, len(regions))):
            outside = len(self._values)
            args = [v for _, v in cursor.listed(self._argument, ")")] if cursor.take("(") else []
            regions.append(Block(tuple(args), self._ops()))
            while len(self._values) > outside:      # a region's names end with it; names may be used again behind it
                name, value = self._values.popitem()
                self._gone[name] = value
        if len(regions) < row.regions:
            raise cursor.error(f"expected {region_word(row.name, len(regions))!r} and a region of {row.name}, "
                               f"found {cursor.found()}")
        return regions

    def _checked(self, row: OpRow, operands: list[Value], attrs: dict[str, Any], regions: list[Block],
                 types: list[Type], name_at: int, types_at: int) -> dict[str, Any]:
        """All attributes; with `check`, after a look at them and at the type rule."""
        cursor = self._cursor
        if not self._check:
            defaults = {a.name: a.default for a in row.attributes if not a.required}
            absent = {f"has_{o.name}": False for o in row.operands if o.optional}
            return {**defaults, **absent, **attrs}
        try:
            full = complete_attrs(row, attrs)
        except KeyError as error:
            raise cursor.error(str(error.args[0]), name_at) from None
        check_attributes(row, full, lambda message: cursor.error(f"op {row.name}: {message}", name_at))
        try:
            inferred = infer_without_layouts(row, [v.type for v in operands], full, regions)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise cursor.error(f"op {row.name}: {error}", name_at) from None
        if list(map(without_layout, inferred)) != list(map(without_layout, types)):
            raise cursor.error(f"op {row.name} gives ({', '.join(map(str, inferred))}), the text says "
                               f"({', '.join(map(str, types))})", types_at)
        return full

    # Values, types, locations

    def _value(self, kind: Any) -> Any:
        """An attribute's value; `kind` tells which enum a word belongs to."""
        cursor, start = self._cursor, self._cursor.at
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            word = cursor.string() if cursor.peek('"') else cursor.word()
            member = next((m for m in kind if str(m.value) == word), None)
            if member is None:
                raise cursor.error(f"expected one of {', '.join(str(m.value) for m in kind)}", start)
            return member
        if cursor.peek('"'):
            return cursor.string()
        if cursor.take("("):
            return tuple(cursor.listed(lambda: self._value(None), ")"))
        if nan := cursor.match(_NAN):
            return struct.unpack("<d", struct.pack("<Q", int(nan[1], 16)))[0] if nan[1] else float("nan")
        if number := cursor.match(_NUMBER):
            digits = number[0].lstrip("-")
            return int(number[0]) if digits.isdigit() else float(number[0])
        for word, truth in (("true", True), ("false", False)):
            if cursor.take_word(word):
                return truth
        return self.type()

    def type(self) -> Type:
        """A type as its `str` writes it."""
        cursor, start = self._cursor, self._cursor.at
        word = cursor.word()
        if word == "ptr" and cursor.take("<"):
            const = cursor.take_word("const")
            element = self.type()
            cursor.expect(">")
            if isinstance(element, Tile):
                raise cursor.error("no pointer to a tile", start)
            return Pointer(element, const)
        if word == "tile" and cursor.take("<"):
            return self._tile(start)
        if word is None:
            raise cursor.error(f"expected a type, found {cursor.found()}", start)
        try:
            return Scalar(word)
        except ValueError as error:
            raise cursor.error(str(error), start) from None

    def _tile(self, start: int) -> Tile:
        cursor = self._cursor
        sizes = cursor.need(_SIZES, "sizes such as 8x16x")[0]
        element = self.type()
        layout = None
        if cursor.take(","):
            at = cursor.at
            try:
                layout = parse_layout(cursor.need(_LAYOUT, "a layout")[0].strip())
            except ValueError as error:
                raise cursor.error(str(error), at) from None
        cursor.expect(">")
        if isinstance(element, Tile):
            raise cursor.error("no tile of tiles", start)
        try:
            return Tile(tuple(int(s) for s in sizes.rstrip("x").split("x")), element, layout)
        except ValueError as error:
            raise cursor.error(str(error), start) from None

    def _location(self, start: int | None = None) -> Location:
        """`loc(...)` if it is next; else unknown, or the place of the text at `start`."""
        cursor = self._cursor
        if cursor.take_word("loc"):
            cursor.expect("(")
            location = self._place()
            cursor.expect(")")
            return location
        if self._own_locations and start is not None:
            line, column = cursor.place(start)
            return Location(cursor.file, line, column - 1)
        return UNKNOWN

    def _place(self) -> Location:
        cursor = self._cursor
        file = cursor.string()
        cursor.expect(":")
        line = cursor.integer()
        cursor.expect(":")
        column = cursor.integer()
        end_line = end_column = 0
        if cursor.take("-"):
            end_line = cursor.integer()
            cursor.expect(":")
            end_column = cursor.integer()
        function = cursor.string() if cursor.take_word("in") else ""
        caller = self._place() if cursor.take_word("from") else None
        return Location(file, line, column, end_line, end_column, function, caller)
