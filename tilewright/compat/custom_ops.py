"""Operators that a program defines (`torch.library.custom_op`, `triton_op`), where `cuda` means the CPU.

torch takes its modes off for the time of an operator, but what the operator calls is the program's code: it runs in
the mode again.  A kernel for the device `cuda` is registered for the CPU, and is the one that counts if both are there.
Not covered: `torch.library.Library.impl`, `torch.library.impl`.
Tests: tests/compat/test_on_cpu.py.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any


def kernels_on_cpu(mode: Any) -> tuple[Any, str, Any]:
    """What registers an operator's kernels for the CPU: owner, name and stand-in."""
    operator = importlib.import_module("torch._library.custom_ops").CustomOpDef
    registered = operator.register_kernel
    for_cuda: weakref.WeakSet[Any] = weakref.WeakSet()

    def register_kernel(self: Any, device_types: str | Sequence[str] | None, fn: Any = None, /) -> Any:
        if fn is None:
            return lambda kernel: register_kernel(self, device_types, kernel)
        names = [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)
        if "cuda" in names:
            for_cuda.add(self)
        elif self in for_cuda and "cpu" in names:
            names.remove("cpu")
        cpu_named = dict.fromkeys("cpu" if name == "cuda" else name for name in names)
        for name in cpu_named:
            registered(self, name, _in_mode(mode, fn))
        return fn

    return operator, "register_kernel", register_kernel


def _in_mode(mode: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    return run
