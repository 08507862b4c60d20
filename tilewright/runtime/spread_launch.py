"""Tuples, tensor descriptors and NumPy's numbers as arguments of a native launch: their parts are arguments there.

Native code binds tensors, Python's numbers and compile-time values (`native_launch`).  A launch with anything that is
made of these comes to Python, which takes it apart and calls a native launcher whose parameters are the parts; there is
one for each way in which the arguments of a kernel are made (`Way`).  What it does not know comes back with the launch
as the program wrote it (`Call`).
Before: bound arguments.  Tests: tests/runtime/test_spread_launch.py, tests/runtime/test_spread_tuples.py.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright.language.constexpr import constexpr
from tilewright.language.function import ConstexprFunction, Param, ParamKind, SourceFunction
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.specialize import Atom, Rule, Specializer, number_type

if TYPE_CHECKING:
    from tilewright.runtime.jit import JITFunction
    from tilewright.runtime.launch import CompiledKernel

# Ways that a kernel has native launchers for; one that gets tuples of ever other lengths is launched by Python.
MOST_WAYS = 32


class Kind(enum.Enum):
    """What `Spreader` does with the objects of a class."""

    WHOLE = "is one part"
    CONSTANT = "is one part, a compile-time value"
    SCALAR = "is one part, a number of NumPy's, whose class says of what type"
    TUPLE = "is the parts of its elements"
    DESCRIPTOR = "is base, sizes, strides, block sizes and padding"


# How one argument is made: None of one part, `Kind.CONSTANT`, the class of a number of NumPy's, a tuple's class and how
# each of its elements is made, or TensorDescriptor and the number of its dimensions.
Structure = Any
Way = tuple[tuple[int, Structure], ...]     # the places of the arguments that are not one run-time part


_SCALARS = frozenset(np.dtype(code).type for code in "?bhilqBHILQfd")


class Call(NamedTuple):
    """A launch as the program wrote it: its arguments, bound, the way of these, and what `spread` makes of them."""

    kernel: JITFunction
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    values: Sequence[Any]
    given: Mapping[str, Any]
    way: Way
    parts: Sequence[Any]

    def missed(self, grid: Any, key: int, /, *parts: Any, **given: Any) -> CompiledKernel | None:
        """The launch in Python; called by native code that does not know it (`key`: see `native_launch`)."""
        return self.kernel.launch_call(self, grid, key)


class Spreader:
    """Takes the arguments of one kernel apart.  Which classes it has met it remembers, since each launch waits.

    A compile-time argument is whole at first: native code knows it by its identity.
    """

    def __init__(self, params: Sequence[Param], specializer: Specializer) -> None:
        self._specializer = specializer
        self._are_whole = [p.is_constexpr and p.kind is not ParamKind.VARIADIC for p in params]
        self._kinds: dict[type, Kind] = {}

    def take_constants_apart(self) -> None:
        """From now on do so with compile-time arguments, too: the program makes new tuples for its launches."""
        self._are_whole = [False] * len(self._are_whole)

    def spread(self, values: Sequence[Any]) -> tuple[Way, list[Any]]:
        """The way of bound arguments, empty if all are whole, and the arguments with the parts of each in its place."""
        way: list[tuple[int, Structure]] = []
        parts: list[Any] = []
        kinds, whole = self._kinds, Kind.WHOLE
        for place, (value, is_whole) in enumerate(zip(values, self._are_whole)):    # as many: `bind` sees to it
            if is_whole or kinds.get(type(value)) is whole:
                parts.append(value)
            else:
                structure = self._take_apart(value, parts)
                if structure is not None:
                    way.append((place, structure))
        return tuple(way), parts

    def _take_apart(self, value: Any, parts: list[Any]) -> Structure:
        """How an argument, or an element of one, is made; its parts are added."""
        cls = type(value)
        kinds, whole = self._kinds, Kind.WHOLE
        kind = kinds.get(cls)
        if kind is None:
            kind = kinds[cls] = self._kind(value)
        if kind is Kind.TUPLE:
            made: list[Structure] = [cls]
            for item in value:
                if kinds.get(type(item)) is whole:
                    parts.append(item)
                    made.append(None)
                else:
                    made.append(self._take_apart(item, parts))
            return tuple(made)
        if kind is Kind.DESCRIPTOR:
            shape = value.shape
            parts += [value.base, *shape, *value.strides, *value.block_shape, value.padding]
            return cls, len(shape)
        if kind is Kind.CONSTANT:
            parts.append(value.value if isinstance(value, constexpr) else value)
            return kind
        if kind is Kind.SCALAR:
            parts.append(value.item())
            return cls
        parts.append(value)
        return None

    def _kind(self, value: Any) -> Kind:
        """As `Specializer` sees it: what can be read as a tensor is one, whatever else it is."""
        if type(value) in _SCALARS:
            return Kind.SCALAR
        if type(value) is TensorDescriptor:
            return Kind.DESCRIPTOR
        if self._specializer.is_tensor(value):
            return Kind.WHOLE
        if isinstance(value, tuple):
            return Kind.TUPLE
        is_constant = isinstance(value, constexpr | SourceFunction | ConstexprFunction)
        return Kind.CONSTANT if is_constant else Kind.WHOLE


def spread_rules(rules: Sequence[Rule], way: Way) -> tuple[list[Param], list[Rule]]:
    """The parameters whose arguments `spread` gives, and their rules: those of parts as `Specializer` has them."""
    structures = dict(way)
    found: list[Rule] = []
    for place, rule in enumerate(rules):
        if place in structures:
            structure = structures[place]
            fixed = rule.fixed if isinstance(structure, type) else ""
            part = Rule(rule.name, rule.is_constexpr, fixed, by_value=True, by_alignment=rule.by_alignment)
            found += [_rule(part, kind) for kind in _kinds_of_parts(structure)]
        else:
            found.append(rule)
    return [Param(f"{rule.name} {k}", k) for k, rule in enumerate(found)], found


def _rule(part: Rule, kind: Any) -> Rule:
    """The rule of a part of this kind, where `part` is that of a run-time value."""
    if kind is None or part.is_constexpr:
        return part
    if kind is Kind.CONSTANT:
        return replace(part, is_constexpr=True)
    return part if part.fixed else replace(part, fixed=number_type(kind(0)))


def _kinds_of_parts(structure: Structure) -> list[Any]:
    """Of each part of an argument: None, `Kind.CONSTANT` for a compile-time value, or the class of a number."""
    if not isinstance(structure, tuple):
        return [structure]
    if structure[0] is TensorDescriptor:
        rank = structure[1]
        return [None] * (1 + 2 * rank) + [Kind.CONSTANT] * (rank + 1)
    return [kind for element in structure[1:] for kind in _kinds_of_parts(element)]


def spread_atoms(atoms: Sequence[Atom], way: Way) -> list[Atom]:
    """The atoms of these arguments; parts of a compile-time value have its own."""
    structures = dict(way)
    found: list[Atom] = []
    for place, atom in enumerate(atoms):
        if place in structures and atom[0] == "=":
            found += [atom] * len(_kinds_of_parts(structures[place]))
        else:
            found += _leaves(atom) if place in structures else [atom]
    return found


def _leaves(atom: Atom) -> Iterator[Atom]:
    if isinstance(atom, str) or atom[0] != "tuple":
        yield atom
    else:
        for part in atom[2:]:
            yield from _leaves(part)
