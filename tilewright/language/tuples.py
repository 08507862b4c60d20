"""The language's tuple: a Python tuple of language values, with the names of a namedtuple if it came from one.

It is a subclass of Python's, so that unpacking, slicing, `len` and a constexpr index work in every engine.  `+` takes
lists and tuples.  Tests: tests/lang/test_constexpr.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from typing import Any

from tilewright.language.constexpr import constexpr, unwrap
from tilewright.language.errors import LanguageTypeError
from tilewright.language.types import base_type


class tuple_type(base_type):
    """The types of a tuple's elements, and the namedtuple's fields if there are any."""

    def __init__(self, types: Iterable[Any], fields: Iterable[str] | None = None) -> None:
        self.types = builtins.tuple(types)
        self.fields = None if fields is None else builtins.tuple(fields)
        self.name = f"[{', '.join(map(str, self.types))}]"

    def mangle(self) -> str:
        return "T" + "_".join(t.mangle() for t in self.types) + "T"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple_type) and (self.types, self.fields) == (other.types, other.fields)

    def __hash__(self) -> int:
        return hash((self.types, self.fields))

    def __str__(self) -> str:
        return self.name


class tuple(builtins.tuple[Any, ...]):
    """`tl.tuple(values)`; `fields` are the names of a namedtuple."""

    fields: builtins.tuple[str, ...] | None

    def __new__(cls, args: Iterable[Any] = (), type: tuple_type | None = None) -> tuple:
        self = super().__new__(cls, args)
        fields = getattr(args, "_fields", None) or getattr(args, "fields", None)
        self.fields = fields if type is None else type.fields
        return self

    @property
    def values(self) -> list[Any]:
        return list(self)

    @property
    def type(self) -> tuple_type:
        return tuple_type((getattr(v, "type", None) for v in self), self.fields)

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("fields") or ()
        if name in fields:
            return self[fields.index(name)]
        raise AttributeError(f"a tuple has no field {name!r}{'; it has ' + ', '.join(fields) if fields else ''}")

    def __getitem__(self, index: Any) -> Any:
        index = unwrap(index)
        if isinstance(index, slice):
            parts = (unwrap(index.start), unwrap(index.stop), unwrap(index.step))
            return tuple(super().__getitem__(slice(*parts)))
        if not isinstance(index, int):
            raise LanguageTypeError(f"a tuple is indexed by a compile-time int or slice, not by {index!r}: "
                                    "which element it is must be known when the kernel is compiled")
        return super().__getitem__(index)

    def __add__(self, other: Any) -> tuple:
        return tuple((*self, *unwrap(other)))

    def __radd__(self, other: Any) -> tuple:
        return tuple((*unwrap(other), *self))

    def __mul__(self, count: Any) -> tuple:
        return tuple(builtins.tuple(self) * unwrap(count))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> Any:
        other = unwrap(other)
        if not isinstance(other, builtins.tuple | list):
            return constexpr(False)
        return constexpr(len(self) == len(other) and all(bool(a == b) for a, b in zip(self, other)))

    def __ne__(self, other: object) -> Any:
        return constexpr(not self == other)

    def __hash__(self) -> int:
        return builtins.tuple.__hash__(self)

    def __repr__(self) -> str:
        shown = (repr(v.value) if isinstance(v, constexpr) else str(v) for v in self)     # a shape looks as Python's
        return f"({', '.join(shown)}{',' if len(self) == 1 else ''})"
