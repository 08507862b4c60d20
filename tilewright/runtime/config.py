"""`Config`: values of a kernel's meta-parameters and options, as one choice among several.

Tests: tests/runtime/test_config.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook", "ir_override")


class Config:
    """`kwargs` are meta-parameters by name (`{"BLOCK": 128}`), the rest are options of the launch.

    `pre_hook` is called with the launch's arguments by name before the kernel is. Two configs with the same content
    are equal.
    """

    def __init__(self, kwargs: Mapping[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1,
                 maxnreg: int | None = None, pre_hook: Callable[..., Any] | None = None,
                 ir_override: str | None = None) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """The meta-parameters and the options that have a value, as keywords of a launch."""
        options = {name: getattr(self, name) for name in _OPTIONS if name != "pre_hook"}
        return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}

    def _content(self) -> tuple[Any, ...]:
        return (tuple(self.all_kwargs().items()), self.pre_hook)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __str__(self) -> str:
        """`BLOCK: 128, num_warps: 4, ...`"""
        shown = {**self.kwargs, **{name: getattr(self, name) for name in ("num_warps", "num_ctas", "num_stages",
                                                                         "maxnreg")}}
        return ", ".join(f"{name}: {value}" for name, value in shown.items())

    def __repr__(self) -> str:
        return f"Config({self})"
