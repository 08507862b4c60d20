"""What `kernel.warmup(...)` returns where kernels are interpreted: an object with the face of a compiled kernel.

Programs look at its resources and launch it, as they do with compiled code; a launch runs the eager engine.
Tests: tests/runtime/test_resources.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.diagnostics import cut_own_frames
from tilewright.language.options import Options
from tilewright.runtime.launch import KernelMetadata
from tilewright.runtime.resources import KernelResources, fast_memory_of


class InterpretedKernel(KernelResources):
    """`kernel[grid](*all_arguments)` interprets the function again; compile-time arguments are among them."""

    def __init__(self, name: str, launch: Callable[[Any, tuple[Any, ...]], Any], options: Options) -> None:
        self.name = name
        self.asm: Mapping[str, str | bytes] = {}
        self.metadata = KernelMetadata(
            name, "interpreter", options.num_warps, options.num_stages, options.num_ctas, options.maxnreg,
            options.debug, options.enable_fp_fusion, fast_memory_of(0), ())
        self._launch = launch

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any) -> Any:
            try:
                return self._launch(grid, args)
            except BaseException as error:
                cut_own_frames(error)
                raise

        return launch

    def __repr__(self) -> str:
        return f"<InterpretedKernel {self.name}>"


class _Interprets(type):
    """Says yes for kernels that would be interpreted now."""

    def __instancecheck__(cls, instance: object) -> bool:
        interprets = getattr(instance, "interprets", None)
        return callable(interprets) and bool(interprets())


class InterpretedFunction(metaclass=_Interprets):
    """`isinstance(kernel, InterpretedFunction)`: whether launches of it go to the eager engine."""
