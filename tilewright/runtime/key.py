"""What a compiled kernel depends on, as labelled texts: the key of the disk cache.

Equal texts mean equal code, in every process and on every machine that shares the cache; so texts hold contents,
never identities, and places relative to `def`, so that a function may move within its file.  The labels are for
`tilewright cache explain`, which says which of them changed.

What cannot be told in a text (an object of a class that is unknown here) makes a kernel uncacheable, with the reason.
Tests: tests/runtime/test_key.py.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import types
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.frontend.dependencies import Dependencies
from tilewright.language.constexpr import constexpr
from tilewright.language.function import ConstexprFunction, Param, SourceFunction
from tilewright.language.options import Arg, ConstantArg, Options, RuntimeArg, Signature
from tilewright.language.types import dtype, pointer_type
from tilewright.runtime import target_info
from tilewright.runtime.driver import driver
from tilewright.runtime.specialize import type_text

_PLAIN = (bool, int, str, bytes, complex, type(None), type(Ellipsis))
# packages whose classes, functions and modules are named, not described: their version is in the key, or changes none
_NAMED = ("tilewright", "triton", "builtins", "numpy", "torch", "math", "typing")


class UncacheableError(Exception):
    """The reason why a kernel cannot be told from its next version in another process."""


class Part(NamedTuple):
    """One thing that the code depends on."""

    label: str
    text: str


def key_text(parts: Sequence[Part]) -> str:
    """The key as one text."""
    return repr([tuple(part) for part in parts])


def parse_key(text: str) -> list[Part]:
    """The opposite of `key_text`; ValueError for the key of something that is no kernel."""
    try:
        parts = ast.literal_eval(text)
        return [Part(*part) for part in parts]
    except (SyntaxError, TypeError) as error:
        raise ValueError("not the key of a kernel") from error


def kernel_parts(guards: Dependencies, signature: Signature, options: Options) -> list[Part]:
    """What the tile IR of a kernel depends on, the compiler itself and the launch facts left out."""
    describe = Describer(guards.functions, guards.python)
    parts = [Part(f"argument {name}", describe.arg(name, arg)) for name, arg in signature.args.items()]
    parts += option_parts(options, describe)
    for number, fn in enumerate(guards.functions):
        label = f"function {fn.__qualname__}" if number else "source"
        parts.append(Part(label, describe.function(fn)))
    if options.line_info:       # then the code says where the functions are, not only what they do
        parts += [Part(f"place of {fn.__qualname__}", f"{fn.file}:{fn.tree().lineno}") for fn in guards.functions]
    for read in guards.reads:
        parts.append(Part(f"{read.name} in {read.function}", describe.value(f"{read.function} reads {read.name}",
                                                                          read.value)))
    if any(name in part.text for part in parts for name in target_info.ASKING):
        parts.append(Part("active driver", str(driver.active.get_current_target())))
    return parts


def option_parts(options: Options, describe: Describer) -> list[Part]:
    """A part for each option."""
    labels = {f"option {field.name}": getattr(options, field.name) for field in dataclasses.fields(options)}
    return [Part(label, describe.value(label, value)) for label, value in labels.items()]


class Describer:
    """Texts for values; one of `functions` is told by its number, since its source has a part of its own."""

    def __init__(self, functions: Sequence[SourceFunction], python: Collection[types.FunctionType] = ()) -> None:
        self._python_functions = python
        self._numbers = {id(fn): number for number, fn in enumerate(functions)}

    def arg(self, name: str, arg: Arg) -> str:
        if isinstance(arg, RuntimeArg):
            return f"{type_text(arg.type)}{'' if arg.divisible_by == 1 else f' divisible by {arg.divisible_by}'}"
        if isinstance(arg, ConstantArg):
            return "= " + self.value(f"argument {name}", arg.value)
        items = ", ".join(self.arg(name, item) for item in arg.items)
        return f"({items}) {self.value(f'argument {name}', arg.rebuild)}"

    def function(self, fn: SourceFunction) -> str:
        """Source from `def` on, and what decorating has added to it."""
        params = "".join(f"\n# {self._param(fn, p)}" for p in fn.params)
        return fn.source + params + ("\n# noinline" if fn.noinline else "")

    def _param(self, fn: SourceFunction, p: Param) -> str:
        marks = [name for name, on in (("constexpr", p.is_constexpr), ("unspecialized", p.do_not_specialize),
                                       ("unaligned", p.do_not_specialize_on_alignment)) if on]
        default = f" = {self.value(f'{fn.__name__}({p.name})', p.default)}" if p.has_default else ""
        return f"{p.name}{default} {' '.join(marks)}"

    def value(self, where: str, value: Any) -> str:
        """A text that is equal only for values of the same type and content."""
        cls = type(value)
        if cls in _PLAIN:
            return repr(value)
        if cls is float:
            return str(value.hex())
        if isinstance(value, enum.Enum):
            return f"{self._name(where, cls)}.{value.name} {self.value(where, value.value)}"
        if cls in (tuple, list):
            return f"{cls.__name__}({', '.join(self.value(where, item) for item in value)})"
        if cls is dict:
            items = (f"{self.value(where, k)}: {self.value(where, v)}" for k, v in value.items())
            return f"dict({', '.join(items)})"
        if isinstance(value, constexpr):
            return f"constexpr({self.value(where, value.value)})"
        if isinstance(value, dtype | pointer_type):
            return f"type {type_text(value)}"
        return self._object(where, value)

    def _object(self, where: str, value: Any) -> str:
        cls = type(value)
        if id(value) in self._numbers:
            return f"function {self._numbers[id(value)]}"
        if isinstance(value, ConstexprFunction):
            return f"constexpr function {self.value(where, value.fn)}"
        if isinstance(value, tuple) and hasattr(cls, "_fields"):
            return f"{self._name(where, cls)}({', '.join(self.value(where, item) for item in value)})"
        if isinstance(value, types.FunctionType) and not _is_named(value.__module__):
            return self._python(where, value)
        if isinstance(value, type):
            return f"class {self._name(where, value)}"
        if isinstance(value, np.dtype | np.generic):
            return f"numpy {value.dtype.str if isinstance(value, np.generic) else value.str} {value!r}"
        if cls.__module__ == "torch" and cls.__name__ == "dtype":
            return str(value)
        if _is_named(getattr(value, "__module__", None)) and hasattr(value, "__qualname__"):
            return f"{value.__module__}.{value.__qualname__}"
        if _is_named(getattr(value, "__module__", None)) and hasattr(value, "__name__"):
            return f"{value.__module__}.{value.__name__}"
        raise UncacheableError(f"{where}, an object of {cls.__module__}.{cls.__qualname__}")

    def _name(self, where: str, cls: type) -> str:
        """A class by its name; what a class of the user's own does is seen only for named tuples and enumerations."""
        if not _is_named(cls.__module__) and not hasattr(cls, "_fields") and not issubclass(cls, enum.Enum):
            raise UncacheableError(f"{where}, a class of the user's own: {cls.__qualname__}")
        return f"{cls.__module__}.{cls.__qualname__}{getattr(cls, '_fields', '')}"

    def _python(self, where: str, fn: types.FunctionType) -> str:
        """A Python function that runs at compile time: its code.  What it reads is among the dependencies.

        That is not so of attributes of the program's modules, and of functions that the dependencies did not follow.
        """
        for name in fn.__code__.co_names:
            found = fn.__globals__.get(name)
            if isinstance(found, types.ModuleType) and not _is_named(found.__name__):
                raise UncacheableError(f"{where}, which reads attributes of the module {name}")
            if (isinstance(found, types.FunctionType) and not _is_named(found.__module__)
                    and found not in self._python_functions):
                raise UncacheableError(f"{where}, which calls the Python function {name}")
        defaults = self.value(where, fn.__defaults__ or ())
        return f"{self._code(where, fn.__code__)} {defaults} {self.value(where, fn.__kwdefaults__ or {})}"

    def _code(self, where: str, code: types.CodeType) -> str:
        constants = (self._code(where, c) if isinstance(c, types.CodeType) else
                     f"frozenset{sorted(map(repr, c))}" if isinstance(c, frozenset) else self.value(where, c)
                     for c in code.co_consts)
        return (f"{code.co_name} {code.co_code.hex()} ({', '.join(constants)}) "
                f"{code.co_names} {code.co_varnames} {code.co_freevars}")


def _is_named(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _NAMED
