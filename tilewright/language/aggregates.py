"""`aggregate`: classes of values for kernels, with named fields and methods (semantics §10).

    @triton.aggregate
    class Range:
        start: tl.tensor
        size: tl.constexpr

        @triton.jit
        def indices(self):
            return self.start + tl.arange(0, self.size)

In a kernel `Range(pid * 64, 64)` makes one.  Fields are given in order or by name, or set by an `__init__` that is a
plain function or a constexpr function.  An aggregate never changes; `tl.aggregate_replace` makes another one.  Loops
and branches carry its run-time fields.  Tests: tests/lang/test_values_aggregates.py.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tilewright.diagnostics import has_users_frames
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin
from tilewright.language.constexpr import constexpr, unwrap
from tilewright.language.errors import LanguageAttributeError, LanguageTypeError
from tilewright.language.function import ConstexprFunction, SourceFunction
from tilewright.language.structures import structure
from tilewright.language.tensor import tensor
from tilewright.language.values import describe, is_literal, to_tensor

Method = SourceFunction | ConstexprFunction


class aggregate_value(structure):
    """Base of the classes that `aggregate` makes; the fields are the parts."""

    annotations: ClassVar[Mapping[str, Any]] = {}
    methods: ClassVar[Mapping[str, Method]] = {}
    init: ClassVar[Sequence[Callable[..., None]]] = ()

    def __getattr__(self, name: str) -> Any:
        cls = type(self)
        if name in cls.annotations:
            return self[list(cls.annotations).index(name)]
        if name in cls.methods:
            return types.MethodType(cls.methods[name], self)
        raise LanguageAttributeError(f"{cls.__name__} has no field or method {name!r}; it has "
                                     f"{', '.join([*cls.annotations, *cls.methods])}")

    @classmethod
    def construct(cls, builder: Builder, args: Sequence[Any], kwargs: Mapping[str, Any]) -> aggregate_value:
        """The value of `cls(*args, **kwargs)` in a kernel."""
        fields = types.SimpleNamespace()
        try:
            if cls.init:
                cls.init[0](fields, *args, **kwargs)
            else:
                parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in cls.annotations]
                vars(fields).update(inspect.Signature(parameters).bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise LanguageTypeError(f"{cls.__name__}: {error}") from (error if has_users_frames(error) else None)
        return cls.of(builder, vars(fields))

    @classmethod
    def of(cls, builder: Builder, values: Mapping[str, Any]) -> aggregate_value:
        """The aggregate with these fields, each as its annotation says."""
        if values.keys() != cls.annotations.keys():
            wrong = sorted(values.keys() ^ cls.annotations.keys())
            raise LanguageTypeError(f"the fields of {cls.__name__} are {', '.join(cls.annotations)}; missing or "
                                    f"unknown: {', '.join(wrong)}")
        return cls([_field(builder, f"{cls.__name__}.{name}", annotation, values[name])
                    for name, annotation in cls.annotations.items()])


def _field(builder: Builder, name: str, annotation: Any, value: Any) -> Any:
    """A field's value, checked against its annotation."""
    plain = unwrap(value)
    if annotation is constexpr or annotation in ("constexpr", "tl.constexpr"):
        if isinstance(plain, tensor):
            raise LanguageTypeError(f"{name} is a constexpr, but its value is {describe(plain)}")
        return value if isinstance(value, constexpr) else constexpr(plain)
    if isinstance(annotation, type) and issubclass(annotation, structure) and not isinstance(plain, annotation):
        raise LanguageTypeError(f"{name} must be of the class {annotation.__name__}, not {describe(plain)}")
    if is_literal(plain):
        return to_tensor(builder, plain)
    return plain


def aggregate(cls: type) -> type[aggregate_value]:
    """Make a class with annotated fields a class of values for kernels."""
    annotations = inspect.get_annotations(cls)
    if not annotations:
        raise TypeError(f"{cls.__name__} has no annotated fields, such as `x: tl.tensor`")
    methods = {name: value for name, value in vars(cls).items() if isinstance(value, Method)}
    init = vars(cls).get("__init__")
    if isinstance(init, SourceFunction):
        raise TypeError(f"{cls.__name__}.__init__ cannot be a @jit function; leave the decorator out")
    methods.pop("__init__", None)
    function = init.fn if isinstance(init, ConstexprFunction) else init
    return type(cls.__name__, (aggregate_value,), {
        "annotations": annotations, "methods": methods, "init": () if function is None else (function,),
        "__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__})


@builtin
def aggregate_replace(instance: Any, *, _builder: Builder, **changes: Any) -> aggregate_value:
    """An aggregate like `instance` with other values for the fields named in `changes`."""
    value = unwrap(instance)
    if not isinstance(value, aggregate_value):
        raise LanguageTypeError(f"tl.aggregate_replace takes an aggregate, not {describe(instance)}")
    cls = type(value)
    unknown = [name for name in changes if name not in cls.annotations]
    if unknown:
        raise LanguageTypeError(f"{cls.__name__} has no field {unknown[0]!r}; it has {', '.join(cls.annotations)}")
    fields = dict(zip(cls.annotations, value, strict=True))
    return cls.of(_builder, {**fields, **changes})
