"""Names: the variables of the function being traced, and what it may read from outside.

`Locals` holds the value of each variable and the place that assigned it.  A variable that exists on one path only is
not forgotten silently: `gone` keeps the reason, which is said when somebody reads it.

The policy for outside names (closure, module, builtins) is `outside_value`: a kernel may read what cannot change
under it: modules, jit and constexpr functions, names of the language, types, None, enums, namedtuple classes and
`tl.constexpr(...)` values.  Tests: tests/frontend/test_scope.py, tests/errors/names.py.
"""

from __future__ import annotations

import ast
import builtins
import enum
import types
from dataclasses import dataclass, field
from typing import Any

from tilewright.frontend.python_builtins import DEBUGGER, PYTHON_CALLS, REFUSED_BUILTINS
from tilewright.frontend.wording import suggestion
from tilewright.language.core import base_type, constexpr, is_builtin
from tilewright.language.errors import LanguageError
from tilewright.language.function import ConstexprFunction, SourceFunction
from tilewright.language.structures import structure

_LANGUAGE = ("tilewright.language", "triton.language")     # its modules, and their names under the alias
_READABLE = (types.ModuleType, SourceFunction, ConstexprFunction, constexpr, base_type)


class NameErrorInKernel(LanguageError, NameError):
    """A name that a kernel cannot read, in words for its author."""


@dataclass(slots=True)
class Locals:
    """The variables at one point of a function."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, ast.AST | None] = field(default_factory=dict)    # who assigned it; None: a parameter
    gone: dict[str, str] = field(default_factory=dict)                  # why a name has no value here

    def copy(self) -> Locals:
        return Locals(dict(self.values), dict(self.origins), dict(self.gone))

    def assign(self, name: str, value: Any, origin: ast.AST | None) -> None:
        self.values[name] = value
        self.origins[name] = origin
        self.gone.pop(name, None)

    def drop(self, name: str, reason: str) -> None:
        """`name` has no value from here on, for `reason`."""
        self.values.pop(name, None)
        self.origins.pop(name, None)
        self.gone[name] = reason


def lookup(fn: SourceFunction, variables: Locals, name: str, any_global: bool = False) -> Any:
    """The value of `name` in a kernel; `any_global` lifts the policy for outside names."""
    if name in variables.values:
        return variables.values[name]
    if name in variables.gone:
        raise NameErrorInKernel(f"{name} is not defined here: {variables.gone[name]}")
    for outside in (fn.closure, fn.globals):
        if name in outside:
            return _allowed(fn, name, outside[name], any_global)
    if hasattr(builtins, name):
        return _builtin(name)
    raise NameErrorInKernel(_not_defined(fn, variables, name))


def _builtin(name: str) -> Any:
    value = getattr(builtins, name)
    if value in PYTHON_CALLS:
        return value
    cure = REFUSED_BUILTINS.get(name, "available are " + ", ".join(sorted(f.__name__ for f in PYTHON_CALLS)))
    raise NameErrorInKernel(f"Python's `{name}` is not available in a kernel; {cure}")


def _not_defined(fn: SourceFunction, variables: Locals, name: str) -> str:
    if name in fn.fn.__code__.co_varnames:
        return f"{name} is not defined here: it is assigned in {fn.__name__}, but not on the way to this place"
    return f"{name} is not defined{suggestion(name, [*variables.values, *fn.closure, *fn.globals])}"


def _allowed(fn: SourceFunction, name: str, value: Any, any_global: bool) -> Any:
    if any_global or is_readable_global(value):
        return value
    if isinstance(value, types.FunctionType) or is_debugger(value):
        raise NameErrorInKernel(plain_function(name, value))
    raise NameErrorInKernel(
        f"Cannot access global variable {name} from within @jit'ed function {fn.__name__}: a compiled kernel would not "
        f"see it change. It is {_shown(value)}; write `{name} = tl.constexpr({_shown_value(value)})` where it is "
        "defined, or pass it as an argument (of a `tl.constexpr` parameter, if it must be known at compile time)")


def is_debugger(value: Any) -> bool:
    """Whether `value` is the `set_trace` of pdb or its kin (pytest's is a method)."""
    return callable(value) and getattr(value, "__name__", "") == "set_trace"


def plain_function(name: str, function: Any) -> str:
    """The message about a Python function, which a kernel knows as `name`."""
    if is_debugger(function):
        return f"{name} is not available in a compiled kernel; {DEBUGGER}"
    return (f"{name} is a plain Python function, which a kernel cannot call; decorate it with @triton.jit, or, if it "
            "computes with compile-time values only, with @triton.constexpr_function")


def _shown_value(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float | str) else "..."


def _shown(value: Any) -> str:
    return f"{value!r} of type {type(value).__name__}" if isinstance(value, bool | int | float | str) else (
        f"of type {type(value).__name__}")


def is_readable_global(value: Any) -> bool:
    """Whether a kernel may read a global (or closure) variable with this value."""
    if value is None or isinstance(value, _READABLE):
        return True
    if is_builtin(value) or isinstance(value, enum.Enum) or _is_builtin_function(value):
        return True
    if isinstance(value, type):
        return belongs_to_language(value) or is_namedtuple_class(value) or issubclass(value, enum.Enum | structure)
    return belongs_to_language(value)


def _is_builtin_function(value: Any) -> bool:
    """Python's own functions that a kernel may call, such as `from math import ceil`."""
    try:
        return value in PYTHON_CALLS or (isinstance(value, types.BuiltinFunctionType) and value.__module__ == "math")
    except TypeError:      # not hashable
        return False


def belongs_to_language(value: Any) -> bool:
    """Whether `value`, or its class, is defined in the language's own modules."""
    module = getattr(value, "__module__", None) or ""
    return isinstance(module, str) and module.startswith(_LANGUAGE)


def is_namedtuple_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")

