"""PTX text into a `Module`: lexer and parser (PTX ISA 4, 5, 11).

Before: text, by any compiler or by hand.  After: functions with flat lists of instructions; registers and labels of
`{ }` scopes have unique names; each instruction has its line in the text and, from `.loc`, the user's line.
Tests: tests/targets/nvidia/ptx/test_text.py.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, lru_cache

from tilewright.diagnostics import Location
from tilewright.targets.nvidia.ptx.declarations import TYPE_BYTES, parse_function_head, parse_variable
from tilewright.targets.nvidia.ptx.operands import (
    Address,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from tilewright.targets.nvidia.ptx.report import PtxSyntaxError
from tilewright.targets.nvidia.ptx.tokens import Tokens

_SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid|cluster_ctaid|cluster_nctaid|clusterid|nclusterid)\.[xyzw]$|%(laneid|warpid|nwarpid|smid|"
    r"nsmid|gridid|clock|clock_hi|clock64|globaltimer|globaltimer_lo|globaltimer_hi|dynamic_smem_size|total_smem_size|"
    r"aggr_smem_size|cluster_ctarank|cluster_nctarank|is_explicit_cluster|reserved_smem_offset_\w+|lanemask_\w+|"
    r"current_graph_exec|pm\d+|envreg\d+)$")
_TRAILING_NUMBER = re.compile(r"(.*?)(\d+)$")
_LINKAGE = (".extern", ".visible", ".weak", ".common")
_SPACES = (".global", ".const", ".shared", ".local", ".param", ".tex")


@lru_cache(maxsize=256)
def parse(text: str) -> Module:
    """The module that `text` says.  Raises `PtxSyntaxError` with the line for what is not PTX."""
    return _Parser(text).module()


class _Scope:
    """A `{ }` in a function: names declared in it, as the function knows them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.names: dict[str, str] = {}
        self.families: dict[str, str] = {}


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.version = self.target = ""
        self.scopes: list[_Scope] = []
        self.scope_count = 0
        self.function = Function("", False)
        self.plain: dict[str, Operand] = {}         # words that mean one register in the whole function

    # ---- the module
    def module(self) -> Module:
        tokens = self.tokens
        while tokens.more():
            word = tokens.next()
            if word == ".version":
                self.version = tokens.next()
            elif word == ".target":
                self.target = tokens.next()
                while tokens.accept(","):
                    tokens.next()
            elif word == ".address_size":
                tokens.next()
            elif word == ".pragma" or word == ".alias":
                tokens.skip_past(";")
            elif word in _LINKAGE or word in _SPACES or word in (".entry", ".func"):
                self._declaration(word)
            elif word != ";":
                raise tokens.error(f"{word!r} cannot begin a declaration")
        self._resolve_locations()
        return Module(self.version, self.target, self.functions, self.variables, tuple(tokens.text.split("\n")))

    def _declaration(self, word: str) -> None:
        external = False
        while word in _LINKAGE:
            external = external or word == ".extern"
            word = self.tokens.next()
        if word in (".entry", ".func"):
            self._function(word == ".entry")
        elif word in _SPACES:
            for variable in parse_variable(self.tokens, word[1:], self._operand):
                variable.external = external
                self.variables[variable.name] = variable
            self.tokens.expect(";")
        else:
            raise self.tokens.error(f"{word!r} cannot begin a declaration")

    def _resolve_locations(self) -> None:
        """`.file` may come after the code that names it."""
        files = self.tokens.files

        @cache
        def locate(place: tuple[int, ...]) -> Location | None:
            if not place or place[1] == 0:
                return None
            caller = locate(place[3:]) if len(place) > 3 else None
            return Location(files.get(place[0], "<unknown>"), place[1], max(0, place[2] - 1), caller=caller)

        for function in self.functions.values():
            for instruction in function.code:
                instruction.location = locate(self.tokens.place_of(instruction.line))

    # ---- functions
    def _function(self, entry: bool) -> None:
        function = self.function = parse_function_head(self.tokens, entry, self._operand)
        if self.tokens.accept(";"):
            self.functions.setdefault(function.name, function)
            return
        self.tokens.expect("{")
        self.scopes = [_Scope(0)]
        self.scope_count = 0
        self.plain = {}
        self.functions[function.name] = function
        while self.scopes:
            self._statement()
        self._check_labels(function)

    def _check_labels(self, function: Function) -> None:
        for instruction in function.code:
            if instruction.family == "bra":
                target = instruction.operands[0] if instruction.operands else None
                if not isinstance(target, Symbol) or target.name not in function.labels:
                    raise PtxSyntaxError(f"a branch to a label that {function.name} does not have", instruction.line)

    def _statement(self) -> None:
        tokens, word = self.tokens, self.tokens.next()
        if word == "{":
            self._open_scope()
        elif word == "}":
            self.scopes.pop()
        elif word == ".reg":
            self._registers()
        elif word in _SPACES:
            self._local_variable(word[1:])
        elif word == ".pragma":
            tokens.skip_past(";")
        elif word == "@":
            negated = tokens.accept("!")
            guard = Guard(self._name(tokens.next()), negated)
            self._instruction(tokens.next(), guard)
        elif word == ";":
            pass
        elif tokens.peek() == ":":
            self._label(word)
        else:
            self._instruction(word, None)

    def _open_scope(self) -> None:
        """Labels of an inner scope are its own, and may be used before they stand."""
        self.scope_count += 1
        scope = _Scope(self.scope_count)
        for label in self.tokens.labels_of_scope():
            scope.names[label] = f"{label}@{scope.number}"
        self.scopes.append(scope)

    def _label(self, word: str) -> None:
        self.tokens.expect(":")
        name = self._name(word)
        if self.tokens.peek() in (".branchtargets", ".calltargets"):
            self.tokens.next()
            targets = [self._name(self.tokens.next())]
            while self.tokens.accept(","):
                targets.append(self._name(self.tokens.next()))
            self.tokens.expect(";")
            self.function.tables[name] = tuple(targets)
            return
        if name in self.function.labels:
            raise self.tokens.error(f"label {word!r} stands twice")
        self.function.labels[name] = len(self.function.code)

    def _registers(self) -> None:
        """`.reg .b32 %r<9>, x;` in this scope (PTX ISA 5.4)."""
        tokens, type = self.tokens, self.tokens.next()
        if type in (".v2", ".v4"):
            raise tokens.error("vector registers have no meaning here; declare their elements")
        type = type[1:]
        if type != "pred" and type not in TYPE_BYTES:
            raise tokens.error(f"{type!r} is no type of a register")
        scope = self.scopes[-1]
        suffix = f"@{scope.number}" if scope.number else ""
        while True:
            name = tokens.next()
            if tokens.accept("<"):
                tokens.next()
                tokens.expect(">")
                scope.families[name] = type
                self.function.families[name + suffix] = type
            else:
                scope.names[name] = name + suffix
                self.function.registers[name + suffix] = type
            if not tokens.accept(","):
                break
        tokens.expect(";")

    def _local_variable(self, space: str) -> None:
        scope = self.scopes[-1]
        for variable in parse_variable(self.tokens, space, self._operand):
            unique = variable.name + (f"@{scope.number}" if scope.number else "")
            scope.names[variable.name] = unique
            variable.name = unique
            self.function.variables[unique] = variable
        self.tokens.expect(";")

    # ---- names
    def _name(self, word: str) -> str:
        """The function's name for what `word` means here."""
        for scope in reversed(self.scopes):
            if word in scope.names:
                return scope.names[word]
            if scope.families and (parts := _TRAILING_NUMBER.match(word)) and parts[1] in scope.families:
                unique = f"{word}@{scope.number}" if scope.number else word
                scope.names[word] = unique
                self.function.registers[unique] = scope.families[parts[1]]
                return unique
        return word

    # ---- instructions
    def _instruction(self, opcode: str, guard: Guard | None) -> None:
        tokens = self.tokens
        line = tokens.line
        for name in tokens.take_undefined():
            self.function.undefined.setdefault(len(self.function.code), []).append(self._name(name))
        operands: list[Operand] = []
        while not tokens.accept(";"):
            operands.append(self._operand())
            if not tokens.accept(",") and tokens.peek() != ";":
                raise tokens.error(f"{tokens.peek()!r} after an operand of {opcode}; a comma or semicolon belongs here")
        tokens.note_place(line)
        self.function.code.append(Instruction(opcode, tuple(opcode.split(".")), tuple(operands), guard, line))

    def _operand(self) -> Operand:
        tokens = self.tokens
        word = tokens.next()
        outermost = len(self.scopes) == 1
        known = self.plain.get(word) if outermost else None
        if known is not None and tokens.peek() != "|":
            return known
        if word == "[":
            return self._address()
        if word == "{":
            return Vector(self._list("}"))
        if word == "(":
            return Group(self._list(")"))
        if word == "!":
            return Register(self._name(tokens.next()), True)
        if word in "+-" or word[0].isdigit():
            tokens.back()
            return tokens.number()
        first = self._named(word)
        if tokens.accept("|"):
            return Pair(first, self._named(tokens.next()))
        if outermost and isinstance(first, Register | Special):
            self.plain[word] = first
        return first

    def _named(self, word: str) -> Operand:
        if not (word[0].isalpha() or word[0] in "_%$."):
            raise self.tokens.error(f"{word!r} stands where an operand belongs")
        if word == "_":
            return Sink()
        if _SPECIAL.match(word):
            return Special(word)
        if word == "WARP_SZ":
            return Immediate(32)
        if word == "generic" and self.tokens.accept("("):
            inner = self._named(self.tokens.next())
            self.tokens.expect(")")
            return inner
        name = self._name(word)
        if name in self.function.registers:
            return Register(name)
        if self.tokens.peek() in ("+", "-") and self.scopes:
            return Symbol(name, int(self.tokens.number().value))
        return Symbol(name)

    def _list(self, end: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while not self.tokens.accept(end):
            items.append(self._operand())
            if not self.tokens.accept(",") and self.tokens.peek() != end:
                raise self.tokens.error(f"{self.tokens.peek()!r} stands where ',' or {end!r} belongs")
        return tuple(items)

    def _address(self) -> Operand:
        """After `[`: a register, variable or number, an offset, coordinates (PTX ISA 6.4.1)."""
        tokens = self.tokens
        word = tokens.next()
        base: Operand
        if word in "+-" or word[0].isdigit():
            tokens.back()
            base = tokens.number()
        else:
            name = self._name(word)
            base = Register(name) if name in self.function.registers else Symbol(name)
        offset, coordinates = 0, None
        if tokens.peek() in ("+", "-"):
            offset = tokens.number().value
        if tokens.accept(","):
            tokens.expect("{")
            coordinates = self._list("}")
        tokens.expect("]")
        return Address(base, offset, coordinates)


def line_of(offsets: list[int], position: int) -> int:
    """The line, from 1, of a position, given where lines begin."""
    return bisect_right(offsets, position)
