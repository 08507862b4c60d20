"""Functions that programs (profilers, torch) have called around compilations, loads and launches.

They are reached as `knobs.runtime.launch_enter_hook` and so on, and hold for the whole process: a launch on another
thread calls them too.  Chains (`HookChain`) take functions by `add` and give them back by `remove`; the two hooks of
the compiler are one function or None each.  While a hook of launches or of stages is set, native launchers leave
launches to Python.  Semantics of triton 3.6, `kernel_unload_hook` of 3.9.  Tests: tests/runtime/test_hooks.py.
"""

from __future__ import annotations

import hashlib
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from tilewright.locks import ForkSafeLock

Hook = Callable[..., Any]


class Pausable(Protocol):
    """What launches without Python and has to stop that while there are hooks."""

    def pause(self, paused: bool) -> None: ...


class HookChain:
    """Functions called one after the other, in reverse if `reversed`; false while there are none."""

    def __init__(self, changed: Callable[[], None] = lambda: None, reversed: bool = False) -> None:
        self.calls: list[Hook] = []
        self.reversed = reversed
        self._changed = changed

    def add(self, func: Hook) -> None:
        """Call `func` from now on; a function that is there already is not called twice."""
        if func not in self.calls:
            self.calls.append(func)
            self._changed()

    def remove(self, func: Hook) -> None:
        """Call `func` no more."""
        if func in self.calls:
            self.calls.remove(func)
            self._changed()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for call in (self.calls[::-1] if self.reversed else list(self.calls)):
            call(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self.calls)


class LazyDict:
    """What a launch hook gets: `get()` gives a mapping, in which what costs time is computed when it is asked for."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)
        self.extras: list[tuple[Callable[..., Mapping[str, Any]], tuple[Any, ...]]] = []

    def add(self, func: Callable[..., Mapping[str, Any]], args: tuple[Any, ...]) -> None:
        """Add what `func(*args)` gives."""
        self.extras.append((func, args))

    def get(self) -> dict[str, Any]:
        """All entries."""
        for func, args in self.extras:
            self.data.update(func(*args) or {})
        self.extras.clear()
        return self.data


class JitFunctionInfo(NamedTuple):
    """Which function a hook of the compiler is called for."""

    module: str
    name: str
    jit_function: Any


CHAINS = ("launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook", "kernel_load_end_hook",
          "kernel_unload_hook")
SINGLES = ("jit_cache_hook", "jit_post_compile_hook", "add_stages_inspection_hook", "compilation_listener",
           "autotuning_listener")


class Inspection(NamedTuple):
    """Who looks at the stages of compilations, and what its code is known by: None if that is for this process only."""

    hook: Hook
    key: str | None

    @property
    def memory_key(self) -> Any:
        """What code that it may have changed is known by in this process."""
        return id(self.hook) if self.key is None else self.key


class Hooks:
    """The hooks of this process."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._natives: weakref.WeakSet[Any] = weakref.WeakSet()
        self._chains = {name: HookChain(self._changed, reversed=name in ("launch_exit_hook", "kernel_load_end_hook"))
                        for name in CHAINS}
        self._singles: dict[str, Hook | None] = dict.fromkeys(SINGLES)
        self._judge: Hook | None = None

    def get(self, name: str) -> Any:
        """The chain, or the function or None, of that name."""
        return self._chains[name] if name in self._chains else self._singles[name]

    def set(self, name: str, value: Any) -> None:
        """Assign a hook: a function, a chain whose functions are taken over, or None for none."""
        if name in self._singles:
            self._singles[name] = _function(name, value)
            self._changed()
            return
        given = value.calls if isinstance(value, HookChain) else [f for f in [_function(name, value)] if f]
        self._chains[name].calls[:] = given
        self._changed()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Undo at the end what is assigned or added inside."""
        chains, singles = {n: list(c.calls) for n, c in self._chains.items()}, dict(self._singles)
        try:
            yield
        finally:
            for name, calls in chains.items():
                self._chains[name].calls[:] = calls
            self._singles.update(singles)
            self._changed()

    # -- launches

    @property
    def watches_launches(self) -> bool:
        """Whether a launch has to call anybody."""
        return bool(self._chains["launch_enter_hook"] or self._chains["launch_exit_hook"])

    @property
    def wants_python(self) -> bool:
        """Whether launches are not to be native ones."""
        return (self.watches_launches or self._judge is not None
                or self._singles["add_stages_inspection_hook"] is not None)

    def judge_arguments(self, judge: Hook | None) -> None:
        """Call `judge(kernel's name, names, values)` before every launch from now on; None ends it.  It may raise."""
        self._judge = judge
        self._changed()

    def before_launching(self, kernel: str, names: Sequence[str], values: Sequence[Any]) -> None:
        """Let the arguments of a launch be judged, if somebody does."""
        if self._judge is not None:
            self._judge(kernel, names, values)

    def watch(self, native: Pausable) -> None:
        """Let `native` launch only while no launch hook is set."""
        with self._lock:
            self._natives.add(native)
            native.pause(self.wants_python)

    def forget(self, native: Pausable) -> None:
        """`native` launches no more."""
        with self._lock:
            self._natives.discard(native)
            native.pause(True)

    @contextmanager
    def launching(self, told: LazyDict) -> Iterator[None]:
        """Around a launch; after one that fails `launch_exit_hook` is not called."""
        self._chains["launch_enter_hook"](told)
        yield
        self._chains["launch_exit_hook"](told)

    def _changed(self) -> None:
        with self._lock:
            for native in list(self._natives):
                native.pause(self.wants_python)

    # -- compilations

    def before_compiling(self, told: Mapping[str, Any]) -> bool:
        """Whether `jit_cache_hook` wants no compilation (and so no launch)."""
        hook = self._singles["jit_cache_hook"]
        return bool(hook is not None and hook(**told, already_compiled=False))

    def after_compiling(self, told: Mapping[str, Any]) -> None:
        """Tell `jit_post_compile_hook`."""
        hook = self._singles["jit_post_compile_hook"]
        if hook is not None:
            hook(**told, already_compiled=True)

    @property
    def watches_compilations(self) -> bool:
        return self._singles["jit_cache_hook"] is not None or self._singles["jit_post_compile_hook"] is not None

    def inspection(self) -> Inspection | None:
        """Who looks at stages now.

        The hook is called as hook(target, stages, options, language, capability).  One that may be called without
        arguments as well answers (key, hash), which stand for what it does, as in triton 3.9; then what it has changed
        is kept on disk, too.
        """
        hook = self._singles["add_stages_inspection_hook"]
        if hook is None:
            return None
        try:
            inspect.signature(hook).bind()
        except (TypeError, ValueError):
            return Inspection(hook, None)
        key = hook()
        return Inspection(hook, repr(key))

    @contextmanager
    def loading(self, name: str, code: bytes) -> Iterator[None]:
        """Around loading machine code: the hooks get module, function, name, metadata group and hash."""
        start, end = self._chains["kernel_load_start_hook"], self._chains["kernel_load_end_hook"]
        told: tuple[Any, ...] = ()
        if start or end:
            told = (None, None, name, {}, hashlib.sha256(code).hexdigest())
            start(*told)
        yield
        if told:
            end(*told)


    def unloaded(self, name: str, code: bytes) -> None:
        """Tell of machine code that goes, as `loading` does."""
        chain = self._chains["kernel_unload_hook"]
        if chain:
            chain(None, None, name, {}, hashlib.sha256(code).hexdigest())


def _function(name: str, value: Any) -> Hook | None:
    if value is not None and not callable(value):
        raise TypeError(f"knobs.runtime.{name} takes a function or None, not {type(value).__name__}")
    hook: Hook | None = value
    return hook


HOOKS = Hooks()     # profilers want every launch of the process
