"""Calls: what may be called in a kernel, and how arguments meet parameters.

Names of the language get the arguments as they are.  Jit functions go through the builder, which specialises them
(`functions.py`).  Everything that is Python's own (constexpr functions, `math`, methods of numbers, strings and types)
works on compile-time values only, and its result is one again.
Tests: tests/frontend/test_calls.py, tests/errors/calls.py.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.frontend.elsewhere import language_function
from tilewright.frontend.graph import GraphBuilder
from tilewright.frontend.python_builtins import PYTHON_CALLS, call_python
from tilewright.frontend.scope import belongs_to_language, is_debugger, is_namedtuple_class, plain_function
from tilewright.frontend.values import as_tuple, from_python, is_static, spelled, to_python, type_name
from tilewright.frontend.wording import plural, suggestion
from tilewright.language import core
from tilewright.language.core import base_type, constexpr, dtype, is_builtin
from tilewright.language.errors import LanguageTypeError
from tilewright.language.function import ConstexprFunction, Param, ParamKind, SourceFunction
from tilewright.language.values import type_called

Arguments = Sequence[Any]
Keywords = Mapping[str, Any]


def call_value(builder: GraphBuilder, callee: Any, args: Arguments, kwargs: Keywords) -> Any:
    """The value of `callee(*args, **kwargs)`."""
    if isinstance(callee, constexpr):
        if isinstance(callee.value, types.FunctionType):        # declared as `@tl.constexpr`
            return _declared_constexpr(callee.value, args, kwargs)
        callee = callee.value
    if is_builtin(callee):
        return from_python(callee.call(builder, args, kwargs))
    if isinstance(callee, SourceFunction):
        return builder.call_function(callee, args, kwargs)
    if isinstance(callee, types.MethodType) and isinstance(callee.__func__, ConstexprFunction) and isinstance(
            callee.__self__, core.structure):       # it may look at the run-time fields' types
        return _at_compile_time(callee.__func__, args, kwargs, (callee.__self__,))
    if isinstance(callee, types.MethodType) and isinstance(callee.__func__, SourceFunction | ConstexprFunction):
        return call_value(builder, callee.__func__, (callee.__self__, *args), kwargs)
    if isinstance(callee, type) and issubclass(callee, core.aggregate_value):
        return callee.construct(builder, args, kwargs)
    if isinstance(callee, type) and not _is_python_call(callee):
        return _construct(callee, args, kwargs)
    if _is_python_call(callee):
        return call_python(builder, callee, args, kwargs)
    if isinstance(callee, ConstexprFunction) or _is_compile_time_function(callee):
        return _at_compile_time(callee, args, kwargs)
    raise LanguageTypeError(_not_callable(callee))


def _is_python_call(callee: Any) -> bool:
    try:
        return callee in PYTHON_CALLS
    except TypeError:       # not hashable
        return False


def _construct(cls: type, args: Arguments, kwargs: Keywords) -> Any:
    """A class of the language, a namedtuple, or `tl.constexpr` itself."""
    if cls is constexpr:
        return from_python(constexpr(*(_python(cls.__name__, i, v) for i, v in enumerate(args))))
    if cls is core.tuple:
        return as_tuple([from_python(v) for v in (args[0] if args else ())])
    if is_namedtuple_class(cls):
        made = cls(*args, **kwargs)
        return as_tuple(list(made), made)
    if issubclass(cls, base_type):
        return from_python(_at_compile_time(cls, args, kwargs))
    if belongs_to_language(cls):
        _check_arguments(cls, args, kwargs)
        return cls(*args, **kwargs)
    cure = f"convert with x.to(tl.{name})" if (name := type_called(cls.__name__)) else "namedtuples can"
    raise LanguageTypeError(f"the class {cls.__name__} cannot be called in a kernel; {cure}")


def _check_arguments(cls: type, args: Arguments, kwargs: Keywords) -> None:
    """LanguageTypeError where a class of the language does not take these arguments."""
    signature = inspect.signature(cls)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        raise LanguageTypeError(f"tl.{cls.__name__}: {error}; its signature is {cls.__name__}"
                                f"{inspect.Signature(bare)}") from None


def _is_compile_time_function(callee: Any) -> bool:
    """`math.ceil`, `(8).bit_length`, `"abc".upper`, `x.dtype.is_floating`, plain functions of the language."""
    if is_debugger(callee):
        return False
    if isinstance(callee, types.BuiltinFunctionType | types.MethodType | types.MethodWrapperType):
        owner = callee.__self__
        if isinstance(owner, types.ModuleType):
            return owner.__name__ == "math"
        return isinstance(owner, bool | int | float | str | base_type | type)
    return isinstance(callee, types.FunctionType) and belongs_to_language(callee)


def _python(name: str, position: int | str, value: Any) -> Any:
    if not is_static(value):
        which = f"argument {position + 1}" if isinstance(position, int) else f"argument {position!r}"
        cure = language_function(name) or "only compile-time values can be passed to it"
        raise LanguageTypeError(f"{name}() is Python and runs when the kernel is compiled, but its {which} is the "
                                f"run-time value {type_name(value)}; {cure}")
    return to_python(value)


def _at_compile_time(callee: Callable[..., Any], args: Arguments, kwargs: Keywords, first: Arguments = ()) -> Any:
    name = getattr(callee, "__name__", str(callee))
    plain = [_python(name, i, v) for i, v in enumerate(args)]
    named = {k: _python(name, k, v) for k, v in kwargs.items()}
    return from_python(callee(*first, *plain, **named))


def _declared_constexpr(function: types.FunctionType, args: Arguments, kwargs: Keywords) -> Any:
    """`f(...)` with `f = tl.constexpr(function)`: unlike a constexpr function it gets the constexprs themselves."""
    given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for which, value in given:
        _python(function.__name__, which, value)
    return from_python(function(*args, **kwargs))


def _not_callable(callee: Any) -> str:
    if isinstance(callee, dtype):
        return f"the type {callee} cannot be called; convert with x.to({spelled(callee)})"
    if is_debugger(callee) or (isinstance(callee, types.FunctionType) and _library(callee) not in _ARRAY_LIBRARIES):
        return plain_function(callee.__name__, callee)
    name = getattr(callee, "__name__", "")
    if callable(callee) and (cure := language_function(name)):
        return f"{name} is a function of {_library(callee)}, which a kernel cannot call; {cure}"
    if callable(callee):
        what = f"{name}, a function of {_library(callee)}," if name else type(callee).__name__
        return (f"{what} cannot be called in a kernel: only names of triton.language, @triton.jit and "
                "@triton.constexpr_function functions can")
    return f"{type_name(callee)} is not a function"


_ARRAY_LIBRARIES = ("numpy", "torch", "scipy", "jax", "cupy")


def _library(callee: Any) -> str:
    module = getattr(callee, "__module__", None) or type(callee).__module__
    return "Python" if module == "builtins" else module.partition(".")[0].lstrip("_")


# -- arguments of jit functions ----------------------------------------------------------------------------------------


def bind_arguments(fn: SourceFunction, args: Arguments, kwargs: Keywords) -> dict[str, Any]:
    """The value of each parameter of `fn`; an error in words for a wrong argument list."""
    params = fn.params
    positional = [p for p in params if p.kind in (ParamKind.POSITIONAL, ParamKind.POSITIONAL_ONLY)]
    variadic = next((p for p in params if p.kind is ParamKind.VARIADIC), None)
    if len(args) > len(positional) and variadic is None:
        raise LanguageTypeError(f"{fn.__name__}() takes {plural(len(positional), 'positional argument')} but "
                                f"{len(args)} were given; its parameters are {_signature(params)}")
    bound = {p.name: value for p, value in zip(positional, args)}
    by_name = {p.name: p for p in params if p.kind in (ParamKind.POSITIONAL, ParamKind.KEYWORD_ONLY)}
    for name, value in kwargs.items():
        if name not in by_name:
            near = suggestion(name, by_name)
            raise LanguageTypeError(f"{fn.__name__}() got an unexpected keyword argument {name!r}{near}; its "
                                    f"parameters are {_signature(params)}")
        if name in bound:
            raise LanguageTypeError(f"{fn.__name__}() got multiple values for argument {name!r}: by position and by "
                                    f"name; its parameters are {_signature(params)}")
        bound[name] = value
    if variadic is not None:
        bound[variadic.name] = as_tuple(args[len(positional):])
    return _completed(fn, bound)


def _completed(fn: SourceFunction, bound: dict[str, Any]) -> dict[str, Any]:
    """All parameters in order, defaults filled in."""
    missing = [p.name for p in fn.params if p.name not in bound and not p.has_default]
    if missing:
        names = " and ".join(repr(n) for n in missing)
        raise LanguageTypeError(f"{fn.__name__}() missing {plural(len(missing), 'required argument')}: {names}; its "
                                f"parameters are {_signature(fn.params)}")
    return {p.name: bound[p.name] if p.name in bound else from_python(p.default) for p in fn.params}


def _signature(params: Sequence[Param]) -> str:
    shown = []
    for p in params:
        star = "*" if p.kind is ParamKind.VARIADIC else ""
        shown.append(f"{star}{p.name}{'=' + repr(p.default) if p.has_default else ''}")
    return f"({', '.join(shown)})"
