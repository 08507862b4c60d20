"""`KernelInterface`: what can be launched as `kernel[grid](*args)`.

Programs (and torch) subclass it for launchers of their own.  Tests: tests/runtime/test_config.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class KernelInterface:
    """A subclass defines `run(*args, grid, warmup, **kwargs)`; indexing with a grid gives the function to call."""

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launch on `grid`, or compile only when `warmup` is true."""
        raise NotImplementedError(f"{type(self).__name__} does not define run()")

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Compile for these arguments and launch nothing."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)
