"""`KernelInterface`: what can be launched as `kernel[grid](*args)`.

Programs (and torch) subclass it for launchers of their own.

Inside a function that torch compiles, a launch does not happen: Dynamo, which reads this code in place of running it,
is led to `launch_in_graph`, which puts an operator into torch's graph.  torch is asked only where the program has
imported it.
Tests: tests/runtime/test_config.py, tests/torch/test_compile.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import WeakValueDictionary

from tilewright.diagnostics import cut_own_frames

if TYPE_CHECKING:
    from typing_extensions import Self

MODULES = sys.modules      # asked at every launch
_NUMBERS = count()


class GraphLauncher(Protocol):
    """What puts a launch into a graph."""

    def __call__(self, kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any: ...


def in_torch_graph() -> bool:
    """Whether Dynamo reads this (it takes the answer of torch as true); never true when Python runs it."""
    torch = MODULES["torch"] if "torch" in MODULES else None      # noqa: SIM401 - Dynamo reads this form
    # Another thread may import torch just now.
    return torch is not None and hasattr(torch, "compiler") and bool(torch.compiler.is_dynamo_compiling())


def graph_test() -> Callable[[], bool]:
    """The cheapest `in_torch_graph`: torch's own function, if torch is there already."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    test: Callable[[], bool] = in_torch_graph if compiler is None else compiler.is_dynamo_compiling
    return test


def parameters_of(fn: Any, decorator: str) -> list[str]:
    """The names of a kernel's parameters; a TypeError if `fn`, below `decorator`, is no kernel."""
    names = getattr(fn, "arg_names", None)
    if names is None:
        what = f"the plain function {fn.__name__}" if hasattr(fn, "__name__") else repr(fn)
        raise TypeError(f"{decorator} takes a kernel, not {what}; write @{decorator}(...) above @jit")
    return list(names)


class KernelInterface:
    """A subclass defines `run(*args, grid, warmup, **kwargs)`; indexing with a grid gives the function to call.

    `name_in_graphs` is a text of its own for each kernel: Dynamo takes texts for constants, and guards them, in every
    version, other objects only in some.  `by_name_in_graphs` gives the kernel.
    """

    launch_in_graph: ClassVar[GraphLauncher]        # set by the package's face, which knows what is above the runtime
    by_name_in_graphs: ClassVar[WeakValueDictionary[str, KernelInterface]] = WeakValueDictionary()
    name_in_graphs: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self.name_in_graphs = f"kernel {next(_NUMBERS)}"
        KernelInterface.by_name_in_graphs[self.name_in_graphs] = self
        return self

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launch on `grid`, or compile only when `warmup` is true."""
        raise NotImplementedError(f"{type(self).__name__} does not define run()")

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Compile for these arguments and launch nothing."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        if in_torch_graph():
            return lambda *args, **kwargs: self.launch_in_graph(self, grid, args, kwargs)

        def launch(*args: Any, **kwargs: Any) -> Any:
            try:
                return self.run(*args, grid=grid, warmup=False, **kwargs)
            except BaseException as error:
                cut_own_frames(error)
                raise

        return launch
