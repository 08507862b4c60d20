"""The launch hooks of triton's knobs, which this version does not have: reading shows that none is set, setting raises.

They are for profilers that follow launches; a launch that did not call them would make a profile with holes.
Tests: tests/runtime/test_knobs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

# group of knobs -> names of its hooks
NAMES: Mapping[str, frozenset[str]] = MappingProxyType({"runtime": frozenset({
    "launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook", "kernel_load_end_hook", "jit_cache_hook",
    "jit_post_compile_hook", "add_stages_inspection_hook"})})


class NoHooks:
    """An empty chain of hooks, false in a condition."""

    calls: tuple[()] = ()

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return False

    def add(self, func: Callable[..., Any]) -> None:
        refuse(self._name)

    def remove(self, func: Callable[..., Any]) -> None:
        """It is not there."""


def refuse(name: str) -> NoReturn:
    """The error of setting a hook."""
    raise NotImplementedError(f"knobs.{name}: launches do not call hooks in this version; wrap the launch itself, or "
                              "use the hooks of autotune (pre_hook=, post_hook=)")
