"""`heuristics`: meta-parameters that are computed from the other arguments at each launch.

    @heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @jit
    def kernel(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr): ...

A rule may also give an option of the launch, such as `num_warps`.  They run in the order of the dict; each sees the
arguments by name, the keywords (with grid and warmup) and what the earlier ones computed.  A computed value replaces a
keyword of the same name, and an option that a config of `autotune` has.
Tests: tests/runtime/test_heuristics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.diagnostics import shows_users_frames
from tilewright.runtime.interface import KernelInterface, in_torch_graph, parameters_of
from tilewright.runtime.launch_options import NAMES, did_you_mean

Rule = Callable[[Mapping[str, Any]], Any]


class Heuristics(KernelInterface):
    """A kernel (or tuned kernel) `fn` with rules for some of its parameters."""

    def __init__(self, fn: Any, values: Mapping[str, Rule]) -> None:
        self.fn = fn
        self.arg_names: list[str] = parameters_of(fn, "heuristics")
        self.values = dict(values)
        self.__name__ = getattr(fn, "__name__", "kernel")
        unknown = [name for name in self.values if name not in self.arg_names and name not in NAMES]
        if unknown:
            raise ValueError(f"heuristics for {', '.join(map(repr, unknown))}, but the parameters of {self.__name__} "
                             f"are {', '.join(self.arg_names)}, and options of a launch are {', '.join(sorted(NAMES))}")

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Compute the values, then run the kernel."""
        if in_torch_graph():
            return self.launch_in_graph(self, grid, args, kwargs)
        seen = _Arguments(self.__name__, {**dict(zip(self.arg_names, args)), **kwargs, "grid": grid, "warmup": warmup})
        for name, rule in self.values.items():
            seen.asking = name
            seen[name] = kwargs[name] = rule(seen)
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)


class _Arguments(dict[str, Any]):
    """What a rule may ask for; a name that there is not is told with those that there are."""

    def __init__(self, kernel: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._kernel = kernel
        self.asking = ""        # the parameter whose rule runs

    def __missing__(self, name: Any) -> Any:
        if not isinstance(name, str):
            raise KeyError(name)
        raise RuleKeyError(f"{self._kernel}: the rule of heuristics for {self.asking!r} asks for {name!r}, but the "
                           f"arguments are {', '.join(self)}{did_you_mean(name, self)}")


class RuleKeyError(KeyError):
    """A name that a rule asked for in vain; shown without the quotes that a KeyError has."""

    def __str__(self) -> str:
        return str(self.args[0])


@shows_users_frames
def heuristics(values: Mapping[str, Rule]) -> Callable[[Any], Heuristics]:
    """Decorator: `values` maps names of parameters to functions of the arguments (a dict by name)."""
    if not isinstance(values, Mapping) or not all(map(callable, values.values())):
        raise TypeError("heuristics takes a dict from names of parameters to functions of the arguments, such as "
                        f"{{'EVEN': lambda args: args['n'] % 16 == 0}}, not {values!r}")
    return shows_users_frames(lambda fn: Heuristics(fn, values))
