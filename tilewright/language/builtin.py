"""`@builtin`: a name of the language, called by the frontend and the eager engine with a builder.

    @builtin
    def arange(start, end, *, _builder): ...

`arange.call(builder, args, kwargs)` checks the arguments against the signature and runs the meaning.  Called as a
plain function it takes the builder of a tensor among its arguments (that is how it works in a debugger), and without
one says that it belongs in a kernel.  Tests: tests/lang/test_surface.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.computed import computed
from tilewright.language.builder import Builder
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.tensor import tensor

TRITON_BUILTIN = "__triton_builtin__"


class Builtin:
    """A `tl.*` function; see the module's docstring."""

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        functools.update_wrapper(self, function)
        self.__triton_builtin__ = True
        self.function = function
        self.name = name or function.__name__

    @computed
    def __signature__(self) -> inspect.Signature:
        """What users may pass; made when it is first asked for, since importing makes hundreds of builtins."""
        full = inspect.signature(self.function)
        return full.replace(parameters=[p for n, p in full.parameters.items() if n != "_builder"])

    def call(self, builder: Builder, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        """The meaning of a call with these arguments; a wrong argument list is the user's error."""
        kwargs = {} if kwargs is None else kwargs
        try:
            self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise LanguageTypeError(f"tl.{self.name}: {error}; its signature is {self.name}{self._shown()}") from None
        return self.function(*args, **kwargs, _builder=builder)

    def _shown(self) -> str:
        parameters = self.__signature__.parameters.values()
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
        return str(inspect.Signature(bare))

    def bind(self, receiver: tensor) -> BoundBuiltin:
        """The method of a tensor."""
        return BoundBuiltin(self, receiver)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("_semantic", None)
        builder = _builder_among((*args, *kwargs.values()))
        if builder is None:
            raise LanguageValueError(f"tl.{self.name} works only inside a kernel. Did you forget to add @triton.jit ? "
                                     "(A plain Python function calls it outside of any kernel.)")
        return self.call(builder, args, kwargs)

    def __repr__(self) -> str:
        return f"<builtin tl.{self.name}>"


class BoundBuiltin:
    """A method of a tensor: `x.sum`."""

    def __init__(self, builtin: Builtin, receiver: tensor) -> None:
        self.builtin = builtin
        self.receiver = receiver
        self.name = self.__name__ = builtin.name

    def call(self, builder: Builder, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        return self.builtin.call(builder, (self.receiver, *args), kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(self.receiver.builder, args, kwargs)

    def __repr__(self) -> str:
        return f"<method {self.name} of {self.receiver}>"


def _builder_among(values: Sequence[Any]) -> Builder | None:
    for value in values:
        if isinstance(value, tensor):
            return value.builder
        if isinstance(value, list | tuple):
            found = _builder_among(value)
            if found is not None:
                return found
    return None


def builtin(fn: Callable[..., Any]) -> Builtin:
    """Make `fn`, which takes `_builder` by keyword, a name of the language."""
    return Builtin(fn)


class _Method:
    """A builtin as an attribute of a class: bound to an instance, or itself when the class is asked."""

    def __init__(self, member: Builtin) -> None:
        self._member = member

    def __get__(self, receiver: Any, owner: type) -> Builtin | BoundBuiltin:
        return self._member if receiver is None else self._member.bind(receiver)


def tensor_member(member: Builtin, *names: str) -> Builtin:
    """Make a builtin a method of tensors as well, under its own name or under `names`."""
    for name in names or (member.name,):
        tensor.members[name] = member
        setattr(tensor, name, _Method(member))
    return member


def give_methods(cls: Any, members: Mapping[str, Builtin]) -> None:
    """Make builtins the methods of a class of structures."""
    cls.members = dict(members)
    for name, member in members.items():
        setattr(cls, name, _Method(member))


def is_builtin(fn: object) -> bool:
    """Whether `fn` is called with `.call(builder, args, kwargs)`."""
    return isinstance(fn, Builtin | BoundBuiltin)
