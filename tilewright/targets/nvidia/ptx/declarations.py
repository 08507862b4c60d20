"""Declarations of PTX: variables with initialisers, heads of functions (PTX ISA 5.1 to 5.4, 7.1, 11.1, 11.4).

Before: a cursor just behind the word that begins the declaration.  After: the cursor is behind it.
Tests: tests/targets/nvidia/ptx/test_text.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.nvidia.ptx.operands import Function, Operand, Variable
from tilewright.targets.nvidia.ptx.tokens import Tokens

TYPE_BYTES = {
    **{kind + str(bits): bits // 8 for kind in "bus" for bits in (8, 16, 32, 64)},
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "f16x2": 4, "bf16x2": 4, "b128": 16, "e4m3": 1, "e5m2": 1, "tf32": 4,
    "e4m3x2": 2, "e5m2x2": 2, "u16x2": 4, "s16x2": 4, "b1": 1, "pred": 1,
}
_COUNTED = (".maxntid", ".reqntid", ".minnctapersm", ".maxnreg", ".maxnctapersm", ".reqnctapercluster",
            ".maxclusterrank")


def parse_variable(tokens: Tokens, space: str, operand: Callable[[], Operand]) -> list[Variable]:
    """Variables of one declaration of `space`, up to the `;`, `,` or `)` behind."""
    align, type, width = 0, "", 1
    while tokens.peek().startswith("."):
        word = tokens.next()
        if word == ".align":
            align = tokens.number().value
        elif word in (".v2", ".v4"):
            width = int(word[2:])
        elif word == ".ptr":
            if tokens.peek() in (".global", ".const", ".shared", ".local", ".param"):
                tokens.next()
            if tokens.accept(".align"):
                tokens.number()      # of what it points to
        elif word[1:] in TYPE_BYTES:
            type = word[1:]
        elif word[1:].startswith("texref") or word[1:] in ("surfref", "samplerref"):
            raise tokens.error("textures and surfaces have no meaning here")
    if not type:
        raise tokens.error("a variable needs a type")
    size = TYPE_BYTES[type] * width
    variables = [_variable(tokens, space, type, align or size, size, operand)]
    while space != "param" and tokens.accept(","):
        variables.append(_variable(tokens, space, type, align or size, size, operand))
    return variables


def _variable(tokens: Tokens, space: str, type: str, align: int, size: int,
              operand: Callable[[], Operand]) -> Variable:
    name, count = tokens.next(), 1
    while tokens.accept("["):
        if tokens.accept("]"):
            count = 0
        else:
            count *= tokens.number().value
            tokens.expect("]")
    initial: list[Operand] = []
    if tokens.accept("="):
        _initialiser(tokens, operand, initial)
        if count == 0:
            count = len(initial)
    return Variable(name, space, type, align, size * count, tuple(initial))


def _initialiser(tokens: Tokens, operand: Callable[[], Operand], into: list[Operand]) -> None:
    """Nested lists in row-major order (PTX ISA 5.4.4)."""
    if not tokens.accept("{"):
        into.append(operand())
        return
    while not tokens.accept("}"):
        _initialiser(tokens, operand, into)
        tokens.accept(",")


def parse_function_head(tokens: Tokens, entry: bool, operand: Callable[[], Operand]) -> Function:
    """`(results) name (parameters) directives`, up to `{` or `;`."""
    results = _formals(tokens, operand) if tokens.accept("(") else []
    function = Function(tokens.next(), entry, results=results)
    if tokens.accept("("):
        function.parameters = _formals(tokens, operand)
    while tokens.peek() not in ("{", ";"):
        word = tokens.next()
        if word in _COUNTED:
            numbers = [tokens.number().value]
            while tokens.accept(","):
                numbers.append(tokens.number().value)
            function.directives[word[1:]] = tuple(numbers)
        elif word == ".pragma":
            tokens.skip_past(";")
        elif word.startswith("."):
            function.directives[word[1:]] = ()      # .noreturn, .explicitcluster, .blocksareclusters
        else:
            raise tokens.error(f"{word!r} in the head of {function.name}")
    return function


def _formals(tokens: Tokens, operand: Callable[[], Operand]) -> list[Variable]:
    formals: list[Variable] = []
    while not tokens.accept(")"):
        word = tokens.next()
        if word == ".reg":
            type = tokens.next()[1:]
            formals.append(Variable(tokens.next(), "reg", type, 0, TYPE_BYTES[type]))
        elif word == ".param":
            formals += parse_variable(tokens, "param", operand)
        else:
            raise tokens.error(f"{word!r} among parameters")
        tokens.accept(",")
    return formals
