"""Python's built-in functions that a kernel may call, and what they mean there.

On compile-time values they are Python's own.  On tensors a few are the language's (`min`, `max`, `abs`, `print`), the
others refuse and say what to write.  Tests: tests/frontend/test_python_builtins.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tilewright.language as tl
from tilewright.frontend.attributes import AttributeErrorInKernel, attribute
from tilewright.frontend.values import from_python, is_number, is_static, is_tuple, to_python, type_name
from tilewright.language.core import Builder, constexpr, tensor
from tilewright.language.errors import LanguageTypeError, LanguageValueError, as_written

Arguments = Sequence[Any]
Keywords = Mapping[str, Any]


def _static(name: str, args: Arguments, instead: str) -> list[Any]:
    for value in args:
        if not is_static(value):
            raise LanguageTypeError(f"{name}() works on compile-time values in a kernel, not on {type_name(value)}; "
                                    f"{instead}")
    return [to_python(value) for value in args]


def _converted(convert: type, instead: str) -> Callable[[Builder, Arguments, Keywords], Any]:
    def call(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
        named = {k: to_python(v) for k, v in kwargs.items()}
        return constexpr(convert(*_static(convert.__name__, args, instead), **named))

    return call


def _folded(python: Callable[..., Any], language: str) -> Callable[[Builder, Arguments, Keywords], Any]:
    """`min` and `max`: Python's on constants; `tl.minimum`, `tl.maximum` pair by pair if a tensor takes part."""

    def call(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
        if kwargs:
            raise LanguageTypeError(f"{python.__name__}() takes no keywords in a kernel")
        of_tuple = len(args) == 1 and is_tuple(args[0])
        items = list(args[0]) if of_tuple else list(args)
        if len(items) < (1 if of_tuple else 2):
            raise LanguageTypeError(f"{python.__name__}() takes two or more values in a kernel; for the extreme of a "
                                    f"tile use tl.{python.__name__}(x, axis=...)")
        if all(map(is_static, items)):
            return constexpr(python(_orderable(python.__name__, to_python(v)) for v in items))
        result = items[0]
        for item in items[1:]:
            result = getattr(tl, language).call(builder, (result, item), {})
        return result

    return call


def _orderable(name: str, value: Any) -> Any:
    if isinstance(value, float) and (math.isnan(value) or (value == 0 and math.copysign(1, value) < 0)):
        raise LanguageValueError(f"{name}() of compile-time values does not take {value}: Python orders it by "
                                 f"position; use tl.{name}imum")
    return value


def _length(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    (value,) = args
    if isinstance(value, tensor):
        cure = ("use x.shape[0], or len(x.shape) for the number of dimensions" if value.shape else
                "pass the sizes of an array as arguments")
        kind = "tensor" if value.shape else "scalar"
        raise LanguageTypeError(f"len() of {type_name(value)}: a {kind} has no length; {cure}")
    return constexpr(len(value))


def _sequence(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    if not args:
        return from_python(())
    (value,) = args
    if isinstance(value, tensor):
        raise LanguageTypeError(f"{type_name(value)} is no sequence; a tensor cannot be taken apart element by element")
    return from_python(tuple(items_of(value)))


def items_of(value: Any) -> Sequence[Any]:
    """The elements of a compile-time sequence: a tuple, a string, a range with known bounds (`tl.static_range` too)."""
    if is_tuple(value):
        return tuple(value)
    if isinstance(value, constexpr) and isinstance(value.value, str):
        return [constexpr(c) for c in value.value]
    if isinstance(value, tl.range | tl.static_range):
        return [constexpr(i) for i in static_range_of(value)]
    raise LanguageTypeError(f"{type_name(value)} cannot be iterated at compile time; allowed are tuples, lists and "
                            "ranges with compile-time bounds")


def static_range_of(bounds: Any) -> range:
    """A Python range of compile-time bounds."""
    parts = []
    for name, value in (("start", bounds.start), ("end", bounds.end), ("step", bounds.step)):
        if not is_static(value):
            raise LanguageTypeError(f"the {name} of this range must be known at compile time, but it is "
                                    f"{type_name(value)}; a loop over tl.range may have run-time bounds")
        number = to_python(value)
        if isinstance(number, float) or not hasattr(number, "__index__"):
            raise LanguageTypeError(f"the {name} of a range must be an int, not {number!r}")
        parts.append(int(number))
    if parts[2] == 0:
        raise LanguageValueError("the step of a range must not be zero")
    return range(*parts)


def _range(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    return tl.range(*args, **kwargs)


def _is_instance(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    value, classes = args
    kinds = tuple(to_python(c) for c in classes) if is_tuple(classes) else (to_python(classes),)
    inner = value.value if isinstance(value, constexpr) else value
    return constexpr(isinstance(value, kinds) or isinstance(inner, kinds))


def _get(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    value, name, *default = args
    try:
        return attribute(value, to_python(name))
    except AttributeErrorInKernel:
        if default:
            return default[0]
        raise


def _has(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    value, name = args
    try:
        attribute(value, to_python(name))
    except AttributeErrorInKernel:
        return constexpr(False)
    return constexpr(True)


def _absolute(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    (value,) = args
    return constexpr(abs(to_python(value))) if is_static(value) else tl.abs.call(builder, args, kwargs)


def _print(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    """`tl.device_print` by Python's name; what `print` could do more is said in its own words."""
    wrong = [name for name in kwargs if name != "hex"]
    if wrong:
        raise LanguageTypeError(f"print has no {wrong[0]}= in a kernel; it is print(text, *tensors, hex=False), and "
                                "prints a line an element")
    if not args or not is_static(args[0]) or not isinstance(to_python(args[0]), str):
        raise LanguageTypeError(f"print in a kernel takes a text first{', not ' + type_name(args[0]) if args else ''}: "
                                f'write print("x", {as_written("print.0", "x")}); with TRITON_INTERPRET=1 it takes '
                                'anything')
    for value in args[1:]:
        if is_static(value) and not is_number(value):
            raise LanguageTypeError(f"print in a kernel shows numbers after its text, not {type_name(value)}; join it "
                                    "to the text, or use tl.static_print")
    return tl.device_print.call(builder, args, kwargs)


def _type(builder: Builder, args: Arguments, kwargs: Keywords) -> Any:
    (value,) = args
    return type(value.value) if isinstance(value, constexpr) else type(value)


def call_python(builder: Builder, function: Any, args: Arguments, kwargs: Keywords) -> Any:
    """The value of a call of one of Python's functions in `PYTHON_CALLS`."""
    least, most = _COUNTS.get(function, (0, len(args)))
    if not least <= len(args) <= most:
        allowed = str(least) if least == most else f"{least} to {most}"
        raise LanguageTypeError(f"{function.__name__}() takes {allowed} argument{'' if allowed == '1' else 's'} in a "
                                f"kernel, not {len(args)}")
    return PYTHON_CALLS[function](builder, args, kwargs)


_COUNTS: Mapping[Any, tuple[int, int]] = {
    len: (1, 1), list: (0, 1), tuple: (0, 1), range: (1, 3), float: (0, 1), int: (0, 2), bool: (0, 1), str: (0, 1),
    isinstance: (2, 2), getattr: (2, 3), hasattr: (2, 2), abs: (1, 1), type: (1, 1),
}
PYTHON_CALLS: Mapping[Any, Callable[[Builder, Arguments, Keywords], Any]] = {
    print: _print,
    min: _folded(min, "minimum"),
    max: _folded(max, "maximum"),
    len: _length,
    list: _sequence,
    tuple: _sequence,
    range: _range,
    float: _converted(float, "use x.to(tl.float32)"),
    int: _converted(int, "use x.to(tl.int32)"),
    bool: _converted(bool, "compare it, as in x != 0"),
    str: _converted(str, "print it with tl.device_print"),
    isinstance: _is_instance,
    getattr: _get,
    hasattr: _has,
    abs: _absolute,
    type: _type,
}

DEBUGGER = "run with TRITON_INTERPRET=1: there a debugger stops at this line"
REFUSED_BUILTINS: Mapping[str, str] = {
    "sum": "use tl.sum(x, axis=...)",
    "pow": "write x * x, or use tl.exp2(y * tl.log2(x))",
    "round": "use tl.floor(x + 0.5)",
    "divmod": "use // and %",
    "any": "use tl.reduce_or, or compare a tl.sum with 0",
    "all": "use tl.min of the mask as int32",
    "sorted": "use tl.sort",
    "open": "a kernel has no files",
    "breakpoint": DEBUGGER,
    "super": "a kernel has no classes",
    "dict": "use separate variables or a namedtuple",
    "set": "use separate variables or a tuple",
    "zip": "loop over indices: for i in tl.static_range(len(t))",
    "enumerate": "loop over indices: for i in tl.static_range(len(t))",
    "map": "write a list comprehension over a tuple",
    "filter": "write a list comprehension over a tuple with `if`",
}
