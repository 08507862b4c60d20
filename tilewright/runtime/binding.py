"""From the arguments of a call to a value for each parameter: how kernels are bound.

Before: what a launch, a warm-up or a question gives.  After: the value of each parameter in order, and the options
among the keyword arguments, or the TypeError that Python would raise, with the kernel's parameters in it.
Tests: tests/runtime/test_jit.py, tests/errors/launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.computed import computed
from tilewright.language.function import ParamKind
from tilewright.runtime.described import DescribedFunction
from tilewright.runtime.launch_options import NAMES, did_you_mean, unknown_keyword
from tilewright.runtime.specialize import Specializer, Split


class BoundFunction(DescribedFunction):
    """A function whose parameters are bound as a call of it would bind them."""

    @computed
    def specializer(self) -> Specializer:
        return Specializer(self.__name__, self.params)

    @computed
    def arg_names(self) -> list[str]:
        return [p.name for p in self.params]

    @computed
    def _is_variadic(self) -> bool:
        return any(p.kind is ParamKind.VARIADIC for p in self.params)

    @computed
    def _most_positional(self) -> int:
        return sum(p.kind in (ParamKind.POSITIONAL, ParamKind.POSITIONAL_ONLY) for p in self.params)

    def slot_names(self, split: Split) -> list[str]:
        """The parameter that each slot belongs to; elements of tuples are `name[0]`."""
        return self.specializer.slot_names(split.atoms)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """The value of each parameter, and the options of the launch."""
        params, values = self.params, list(args)
        if len(values) > self._most_positional:
            values = self._spread_positional(values)
        elif not kwargs and len(values) == len(params) and not self._is_variadic:
            return values, kwargs
        taken = 0
        for param in params[len(values):]:
            if param.name in kwargs:
                values.append(kwargs[param.name])
                taken += 1
            elif param.has_default:
                values.append(param.default)
            elif param.kind is ParamKind.VARIADIC:
                values.append(())
            else:
                raise self._missing(args, kwargs)
        if taken == len(kwargs):
            return values, {}
        return values, self._options_among(args, kwargs)

    def _options_among(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keyword arguments that are no parameters; an error if one is given twice or is no option."""
        names = self.arg_names
        given: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name in names[:len(args)]:
                raise TypeError(f"{self.__name__}() got multiple values for argument {name!r}: by position and by "
                                f"name; its parameters are {', '.join(names)}")
            if name in names:
                continue
            if name not in NAMES:
                raise unknown_keyword(self.__name__, name, names)
            given[name] = value
        return given

    def _spread_positional(self, values: list[Any]) -> list[Any]:
        """Positional values beyond the parameters: into `*args` if there is one, else an error."""
        count = self._most_positional
        if self._is_variadic:
            return [*values[:count], tuple(values[count:])]
        raise TypeError(f"{self.__name__}() takes {count} positional argument{'s' if count != 1 else ''} but "
                        f"{len(values)} were given; its parameters are {', '.join(self.arg_names)}")

    def _missing(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError:
        names = [p.name for p in self.params[len(args):]
                 if p.name not in kwargs and not p.has_default and p.kind is not ParamKind.VARIADIC]
        listed = ", ".join(map(repr, names))
        stray = [name for name in kwargs if name not in self.arg_names and name not in NAMES]
        hint = f"; {stray[0]!r}, which was given, is none of them{did_you_mean(stray[0], names)}" if stray else ""
        return TypeError(f"{self.__name__}() missing {len(names)} required argument{'s' if len(names) != 1 else ''}: "
                         f"{listed}; its parameters are {', '.join(self.arg_names)}{hint}")
