"""Tensor descriptors among the arguments of a native launch: their parts are arguments of their own there.

Native code binds tensors, numbers and compile-time values (`native_launch`).  A launch with descriptors comes to
Python, which takes them apart and calls a native launcher whose parameters are the parts; there is one for each way in
which descriptors stand among a kernel's parameters (`Way`).  What it does not know comes back with the launch as the
program wrote it (`Call`).
Before: bound arguments.  Tests: tests/runtime/test_spread_launch.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.language.function import Param
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.specialize import Atom, Rule

if TYPE_CHECKING:
    from tilewright.runtime.jit import JITFunction
    from tilewright.runtime.launch import CompiledKernel

Way = tuple[tuple[int, int], ...]       # the places of descriptors, and how many dimensions each has


class Call(NamedTuple):
    """A launch as the program wrote it: its arguments, bound, the way of its descriptors, and what `spread` makes of
    the arguments."""

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


def spread(values: Sequence[Any]) -> tuple[Way, list[Any]]:
    """The way of descriptors among bound arguments, empty without any, and the arguments with the parts of each
    descriptor in its place.  In one loop, since each launch waits for it."""
    way: list[tuple[int, int]] = []
    parts: list[Any] = []
    for place, value in enumerate(values):
        if type(value) is TensorDescriptor:
            shape = value.shape
            way.append((place, len(shape)))
            parts += [value.base, *shape, *value.strides, *value.block_shape, value.padding]
        else:
            parts.append(value)
    return tuple(way), parts


def spread_rules(params: Sequence[Param], rules: Sequence[Rule], way: Way) -> tuple[list[Param], list[Rule]]:
    """The parameters whose arguments `spread` gives, and their rules: those of a descriptor's parts as
    `Specializer.split` has them."""
    dimensions = dict(way)
    found: list[Rule] = []
    for place, rule in enumerate(rules):
        if place not in dimensions:
            found.append(rule)
            continue
        rank = dimensions[place]
        part = Rule(rule.name, by_value=True, by_alignment=rule.by_alignment)
        constant = replace(part, is_constexpr=True)
        found += [part] * (1 + 2 * rank) + [constant] * (rank + 1)
    if not way:
        return list(params), found
    kind = params[0].kind
    return [Param(f"{rule.name} {k}", k, kind=kind) for k, rule in enumerate(found)], found


def spread_atoms(atoms: Sequence[Atom], way: Way) -> list[Atom]:
    """The atoms of these arguments."""
    places = dict(way)
    return [leaf for place, atom in enumerate(atoms) for leaf in (_leaves(atom) if place in places else (atom,))]


def _leaves(atom: Atom) -> Iterator[Atom]:
    if isinstance(atom, str) or atom[0] != "tuple":
        yield atom
    else:
        for part in atom[2:]:
            yield from _leaves(part)
