"""Statements of inline assembly, and whose registers they name.

A statement's text and constraints are taken apart once for all the calls that have the same.  An address in brackets of
its own is written as a register plus a constant.  Constants come in registers, as LLVM hands them over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from tilewright.targets.nvidia.translate.body import MOVABLE, PREFIXES, WIDTHS, Body, Operand, UntranslatableError
from tilewright.targets.nvidia.translate.pointers import generic, spelled

_CALL = re.compile(r'call (.*?) asm (sideeffect )?"(.*)", "([^"]*)$')
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2})|\\\\")
_OPERAND = re.compile(r"(\[?)\$(?:(\$)|(\d+)|\{(\d+)\})(\]?)")
_LOADS = re.compile(r"\bld[.m]")
_LETTERS = {"b": "%p", "h": "%rs", "r": "%r", "f": "%r", "l": "%rd", "d": "%rd"}


# How many moves a template begins with, of operands to the results that they begin as; their names come first, in
# pairs.
ties: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Statement:
    """`template` has `%s` for the names that `pick` takes of results, operands and addresses, in this order.

    `tied` says for operands which result they begin as; `addresses` are the operands that are written as addresses,
    `bare` those of them that stand elsewhere, too.
    """

    template: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    tied: tuple[int | None, ...]
    addresses: tuple[int, ...]
    bare: tuple[int, ...]
    pick: Callable[[tuple[Operand, ...]], tuple[Operand, ...]]
    effect: bool | None


def call(body: Body, line: str) -> Operand:
    """`call float asm "...", "=f,f"(float %a) nounwind`: its result, or a tuple of several."""
    head, _, rest = line.partition('"(')
    statement = _taken_apart(head)
    arguments, _, marks = rest.rpartition(")")
    given: list[Operand] = []
    uses: list[Operand] = []
    values = body.values
    for k, argument in enumerate(arguments.split(", ") if arguments else ()):
        t, _, token = argument.partition(" ")
        value = values.get(token)
        if value is None:
            value = body.constant(token, t)
        if type(value) is not str and statement.tied[k] is None:
            value = body.register(value, PREFIXES[t])
        elif value in body.local:
            value = generic(body, value)
        given.append(value)
    if len(given) != len(statement.operands):
        raise UntranslatableError(line)
    plain = tuple(given)
    here = "convergent" in marks
    key = head, plain
    if not statement.effect:
        known = body.known(key, here)
        if known is not None:
            return known
    results = tuple(map(body.fresh, statement.results))
    uses = given
    if statement.addresses:
        uses, texts = given[:], []
        for k in statement.addresses:
            text, uses[k] = spelled(body, given[k])
            texts.append(text)
        names = statement.pick((*results, *given, *texts))
        uses += [given[k] for k in statement.bare]
    else:
        names = statement.pick((*results, *plain))
    effect = False if here and statement.effect is MOVABLE else statement.effect
    body.statement(results, statement.template, names, effect, tuple(uses))
    answer = results[0] if len(results) == 1 else results
    if not statement.effect:
        body.remember(key, answer)
    return answer


@lru_cache(1024)
def _taken_apart(head: str) -> Statement:
    found = _CALL.match(head)
    if found is None:
        raise UntranslatableError(head)
    declared, sideeffect, text, constraints = found.groups()
    types = [t.strip() for t in declared.strip("{ }").split(",")] if declared != "void" else []
    letters = [c for c in constraints.split(",") if c and not c.startswith("~")]
    results = [_prefix(c[1:].lstrip("&"), t) for c, t in zip(letters, types)]
    inputs = letters[len(types):]
    if not all(c.startswith("=") for c in letters[:len(types)]) or any(c.startswith(("=", "+")) for c in inputs):
        raise UntranslatableError(head)
    tied = [int(c) if c.isdigit() else None for c in inputs]
    prefixes = [results[k] if k is not None else _prefix(c) for k, c in zip(tied, inputs)]
    text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else "\\", text)
    count = len(results) + len(prefixes)
    order: list[int] = []
    addresses: dict[int, int] = {}
    bare: set[int] = set()

    def named(match: re.Match[str]) -> str:
        opening, dollar, plain, braced, closing = match.groups()
        if dollar:
            return f"{opening}${closing}"
        k = int(plain or braced)
        if k >= count:
            raise UntranslatableError(head)
        if opening and closing and k >= len(results) and prefixes[k - len(results)] in ("%r", "%rd"):
            order.append(count + addresses.setdefault(k - len(results), len(addresses)))
        else:
            order.append(k)
            bare.add(k - len(results))
        return f"{opening}%s{closing}"

    template = _OPERAND.sub(named, text.replace("%", "%%"))
    first: list[str] = []
    for k, (result, prefix) in enumerate(zip(tied, prefixes)):
        if result is not None:
            order[len(first) * 2:len(first) * 2] = [result, len(results) + k]
            first.append(f"mov.{'pred' if prefix == '%p' else f'b{WIDTHS[prefix]}'} %s, %s;\n\t")
    template = "".join(first) + template
    if first:
        ties[template] = len(first)
    pick = itemgetter(*order) if len(order) > 1 else _picker(order)
    return Statement(template, tuple(results), tuple(prefixes), tuple(tied), tuple(addresses),
                     tuple(k for k in addresses if k in bare), pick,
                     _effect(bool(sideeffect) or not results, results, text))


def _effect(is_effect: bool, results: list[str], text: str) -> bool | None:
    """What `Body.statement` calls the effect of a statement; loads stay where they are."""
    return is_effect if is_effect or len(results) > 1 or _LOADS.search(text) else MOVABLE


def _picker(order: list[int]) -> Callable[[tuple[Operand, ...]], tuple[Operand, ...]]:
    return lambda names: tuple(names[k] for k in order)


def _prefix(letter: str, t: str = "") -> str:
    if letter not in _LETTERS or (t and PREFIXES.get(t) != _LETTERS[letter]):
        raise UntranslatableError(f"constraint {letter} of {t}")
    return _LETTERS[letter]


def without_own_moves(template: str, names: tuple[Operand, ...]) -> tuple[str, tuple[Operand, ...]]:
    """A template and its names without moves of a register to itself."""
    count = ties.get(template, 0)
    gone = [k for k in range(count) if names[2 * k] == names[2 * k + 1]]
    if not gone:
        return template, names
    lines = template.split("\n\t", count)
    kept = [k for k in range(count) if k not in gone]
    shorter = "\n\t".join([*(lines[k] for k in kept), lines[count]])
    ties[shorter] = len(kept)
    return shorter, (*(name for k in kept for name in names[2 * k:2 * k + 2]), *names[2 * count:])
