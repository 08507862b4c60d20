"""`jit`: from a Python function to a kernel that is launched as `kernel[grid](*args)`.

A launch binds the arguments (`binding`), turns them into a key (`specialize`), and looks the key up or compiles
(`compiling`).  What the code read beside its arguments (globals, closure cells, callees) is guarded by identity: if one
is another object now, the kernel is compiled again.

Environment variables count when a kernel is decorated, `knobs.scope` counts at the launch.
Tests: tests/runtime/test_jit.py, tests/errors/launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, overload

from tilewright.computed import computed
from tilewright.diagnostics import cut_own_frames, shows_users_frames
from tilewright.frontend.dependencies import dependencies
from tilewright.language.function import Name, SourceFunction
from tilewright.locks import NO_FORK, ForkSafeLock
from tilewright.runtime import knobs
from tilewright.runtime.arguments import CPU
from tilewright.runtime.async_compile import FutureKernel, active_mode
from tilewright.runtime.compiling import CompilingFunction, Entry, Specialization
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.grid import ANSWERED, Grid, normalise
from tilewright.runtime.hooks import HOOKS, LazyDict
from tilewright.runtime.interface import MODULES, KernelInterface, graph_test
from tilewright.runtime.interpreted import InterpretedKernel
from tilewright.runtime.launch import CUDA, CompiledKernel, check_writable, device_of, is_wide
from tilewright.runtime.launch_options import is_checked
from tilewright.runtime.specialize import Split
from tilewright.runtime.spread_launch import MOST_WAYS, Call, Spreader, Way, spread_atoms, spread_rules

if TYPE_CHECKING:
    from tilewright.interpret.eager_run import EagerProgram
    from tilewright.runtime.checked import CheckedKernel
    from tilewright.runtime.native_launch import NativeLauncher


class JITFunction(CompilingFunction, KernelInterface):
    """A kernel, or a function that kernels call.  `kernel[grid](*args, **kwargs)` launches it."""

    def __init__(self, fn: Callable[..., Any], version: object = None,
                 do_not_specialize: Iterable[Name] | None = None,
                 do_not_specialize_on_alignment: Iterable[Name] | None = None, debug: bool | None = None,
                 noinline: bool | None = None, repr: Callable[[Specialization], str] | None = None,
                 launch_metadata: Callable[..., Any] | None = None, source: str | None = None) -> None:
        super().__init__(fn, source=source, noinline=bool(noinline), do_not_specialize=do_not_specialize or (),
                         do_not_specialize_on_alignment=do_not_specialize_on_alignment or ())
        self.version = version
        self.debug = debug
        self.launch_metadata = launch_metadata      # kept for launch hooks
        self._repr = repr
        # torch's compiler puts others in their place, for the time in which it pickles a kernel
        self.__globals__ = fn.__globals__
        self.used_global_vals: dict[Any, Any] = {}
        self.found_written: set[str] = set()        # parameters that some specialisation of it may write
        self.repr: Callable[[Any], str] = repr or (lambda _: self.__name__)
        self._prepare()

    def _prepare(self) -> None:
        """What belongs to this process."""
        self._settings = knobs.snapshot()
        self._entries: dict[Any, Entry] = {}
        self._checked: dict[Any, CheckedKernel] = {}
        self._lock = ForkSafeLock()
        self._natives: dict[Way, NativeLauncher | None] = {}    # None: there is none for such arguments
        self._retired: list[NativeLauncher] = []    # what `kernel[grid]` gave before goes to them still
        self._is_used_again = False
        self._is_read = graph_test()        # asked at every launch; it seldom changes, since Dynamo guards it
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self._bind: Callable[[JITFunction, Any], Callable[..., CompiledKernel | None]] = _bind_in_python
        # CPython 3.11 reads attributes of an object twice as fast if its dict shares no keys with others of the class
        self.__dict__ = {**self.__dict__}

    # -- launching --------------------------------------------------------------------------------------------------

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel | None]:
        # As methods, CPython would look for these in the class first.
        if "torch._dynamo" in MODULES:      # asking that costs half of what torch's own test does
            is_read = self._is_read
            if is_read():
                return KernelInterface.__getitem__(self, grid)      # `super` would be a cell to set up each time
        bind = self._bind
        return bind(self, grid)

    def run(self, *args: Any, grid: Any, warmup: bool = False,
            **kwargs: Any) -> CompiledKernel | InterpretedKernel | None:
        """Launch as `kernel[grid](*args, **kwargs)` does; `warmup=True` compiles only."""
        if self._is_read():
            self.launch_in_graph(self, grid, args, kwargs)
            return None
        try:
            return self.warmup(*args, grid=grid, **kwargs) if warmup else self._bind(self, grid)(*args, **kwargs)
        except BaseException as error:
            cut_own_frames(error)
            raise

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        """Compile for these arguments and launch nothing; dtypes (torch's, NumPy's, tl's) stand for tensors.

        What comes can be asked for resources and launched; inside of an `AsyncCompileMode` it is a `FutureKernel`.
        """
        try:
            return self._warmed_up(args, kwargs)
        except BaseException as error:
            cut_own_frames(error)
            raise

    def _warmed_up(self, args: Sequence[Any],
                   kwargs: Mapping[str, Any]) -> CompiledKernel | InterpretedKernel | FutureKernel | None:
        values, given = self.bind(args, kwargs)
        split = self.specializer.split(values, mock=True)
        if self.interprets():
            return InterpretedKernel(self.__name__, lambda g, a: self._launch(g, -1, a, given), self.options(given))
        device = device_of(self.__name__, self.slot_names(split), split.pointers)
        mode = active_mode.get()
        return (self._compiled(values, given, split, device, warmup=True) if mode is None else
                self._submitted(mode, values, given, split, device))

    def launch_slowly(self, grid: Any, key: int, /, *args: Any, **kwargs: Any) -> CompiledKernel | None:
        """Launch in Python; what native code needs to do it itself is noted.

        `key`: see `native_launch`, or -1; `ANSWERED` if `grid` is what the grid function has returned.
        """
        try:
            return self._launch(grid, key, args, kwargs)
        except BaseException as error:
            cut_own_frames(error)
            raise

    def _launch(self, grid: Any, native_key: int, args: Sequence[Any],
                kwargs: Mapping[str, Any]) -> CompiledKernel | None:
        values, given = self.bind(args, kwargs)
        way, parts = self._spreader.spread(values)
        call = Call(self, args, kwargs, values, given, way, parts)
        native = self._natives.get(way) if way else None
        if native is None or native_key == ANSWERED:
            return self.launch_call(call, grid, 0 if way and native_key > 0 else native_key)    # the key of whole ones
        if callable(grid):      # it is to see the arguments as they are
            grid = normalise(self.__name__, grid, dict(zip(self.arg_names, values, strict=True)))
        launched: CompiledKernel | None = native.bind(call, grid)(*parts, **given)
        return launched

    def launch_call(self, call: Call, grid: Any, native_key: int) -> CompiledKernel | None:
        """Launch in Python; see `launch_slowly`."""
        _, args, kwargs, values, given, _, _ = call
        HOOKS.before_launching(self.__name__, self.arg_names, values)
        split = self.specializer.split(values)
        bound = dict(zip(self.arg_names, values, strict=True)) if callable(grid) else None
        sizes = normalise(self.__name__, grid, bound, is_answer=native_key == ANSWERED)
        device = self._device_of(split)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        if is_checked(given, self.checks()):
            with NO_FORK:
                from tilewright.runtime import checked
            with self._on_host(split, device) as seen:
                checked.launch(self, sizes, values, given, seen)
            return None
        if self.interprets():
            if device == CPU:       # no `with`: a step debugger would show its end, behind the kernel's last line
                self._interpret(sizes, values, given, split)
                return None
            with self._on_host(split, device) as seen:
                self._interpret(sizes, values, given, seen)
            return None
        kernel = self._compiled(values, given, split, device)
        if kernel is None:
            return None
        if not (split.ordinary or all(p.writable for _, p in split.pointers)):
            check_writable(self.__name__, self.slot_names(split), split.pointers, kernel.written)
        if HOOKS.watches_launches:
            with HOOKS.launching(self._told_of_launch(kernel, sizes, values)):
                kernel.launch(sizes, split.slots, split.pointers)
        else:
            kernel.launch(sizes, split.slots, split.pointers)
        if kernel.record and not self.pre_run_hooks and not knobs.overrides():
            self._learn(grid, native_key, call, split, kernel)
        return kernel

    def _device_of(self, split: Split) -> str:
        """`device_of` these arguments; the names of the slots, which an error has, take longer than all else here."""
        if split.ordinary:
            return CPU
        devices = {p.device for _, p in split.pointers}
        if len(devices) == 1 and next(iter(devices)).startswith((CPU, CUDA)):
            return devices.pop()
        return device_of(self.__name__, self.slot_names(split), split.pointers)

    def _told_of_launch(self, kernel: CompiledKernel, grid: Grid, values: Sequence[Any]) -> LazyDict:
        told = LazyDict({"name": kernel.name, "function": kernel, "stream": None})
        if self.launch_metadata is not None:
            told.add(self.launch_metadata, (grid, kernel.metadata, dict(zip(self.arg_names, values, strict=True))))
        return told

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook` with the arguments of every launch of this kernel, before it."""
        self.pre_run_hooks.append(hook)
        for native in filter(None, self._natives.values()):
            HOOKS.forget(native)
            self._retired.append(native)
        self._bind = _bind_in_python
        self._natives.clear()

    @computed
    def _spreader(self) -> Spreader:
        return Spreader(self.params, self.specializer)

    def _learn(self, grid: Any, native_key: int, call: Call, split: Split, kernel: CompiledKernel) -> None:
        """After a launch: let native code do the next one like it."""
        with self._lock:
            native = self._natives.get(call.way)
            is_known = native is not None
            if native is None:
                if self._is_used_again and call.way not in self._natives:   # a single launch is not worth it
                    native = self._native_launcher(call.way)
                self._is_used_again = True
            if native is None:
                return
            native.learn_grid(grid)
            native.learn_kinds(call.parts)
            way = call.way
            positional, names = (call.parts, call.given) if way else (call.args, call.kwargs)
            if native_key <= 0:
                native.learn_shape(len(positional), tuple(names))
                if is_known:        # and nevertheless it was Python's launch
                    native.prepare(kernel)
                return
            entry = self._entries[self._key(split, call.given, kernel.device)]
            rules = spread_rules(self.specializer.rules, way)[1] if way else self.specializer.rules
            constants = [v for v, rule in zip(call.parts, rules, strict=True) if rule.is_constexpr]
            is_new = native.learn(native_key, len(positional), tuple(names), [*constants, *call.given.values()], entry,
                                  spread_atoms(split.atoms, way) if way else split.atoms, kernel.facts, kernel)
            if not is_new:      # so some compile-time value is equal to the one before, and another object
                self._spreader.take_constants_apart()

    def _native_launcher(self, way: Way) -> NativeLauncher | None:
        """A native launcher for arguments made in this way; if all are whole the one that takes over `kernel[grid]`.
        None where there is none."""
        if len(self._natives) >= MOST_WAYS:
            return None
        with NO_FORK:
            from tilewright.runtime.native_launch import (  # by kernels launched more than once
                NativeLauncher,
                is_possible,
            )
        launchers = DEVICES.cpu(self.settings()).launchers()
        params, rules = spread_rules(self.specializer.rules, way) if way else (self.params, self.specializer.rules)
        native = None
        if launchers is not None and is_possible(params):
            native = NativeLauncher(launchers, params, rules, Call.missed if way else JITFunction.launch_slowly,
                                    *knobs.overrides_variable())
            HOOKS.watch(native)
            if not way:
                self._bind = native.bind
                self._is_read = graph_test()        # torch may have come since: its own test is the cheapest
        self._natives[way] = native
        return native

    # -- the eager engine --------------------------------------------------------------------------------------------

    def interprets(self) -> bool:
        """Whether a launch would go to the eager engine now."""
        overridden = knobs.overrides()
        return bool(overridden["interpret"] if "interpret" in overridden else self._settings["interpret"])

    def checks(self) -> bool:
        """Whether a launch that does not say `check=` runs in checked mode now."""
        overridden = knobs.overrides()
        return bool(overridden["check"] if "check" in overridden else self._settings["check"])

    def checked_kernel(self, values: Sequence[Any], given: Mapping[str, Any], split: Split) -> CheckedKernel:
        """What checked mode runs for these arguments, made now if there is none."""
        key = self._key(split, given, CPU)
        known = self._checked.get(key)
        if known is None or not known.guards.hold():
            with NO_FORK:
                from tilewright.runtime.checked import CheckedKernel
            known = self._checked[key] = CheckedKernel(self, values, given, split)
            names = self.slot_names(split)
            self.found_written.update(names[slot] for slot in known.lowered.written.params)
        return known

    def _on_host(self, split: Split, device: str) -> AbstractContextManager[Split]:
        """The same launch in the CPU's memory."""
        if device == CPU:
            return nullcontext(split)
        with NO_FORK:
            from tilewright.runtime.mirror import on_host
        return on_host(split, self._target(device, split, self.settings()))

    def _interpret(self, grid: Grid, values: Sequence[Any], given: Mapping[str, Any], split: Split) -> None:
        signature = self.specializer.signature(split.atoms, values, False, False)
        names = self.slot_names(split)
        extents = [p.extent(names[slot]) for slot, p in split.pointers]
        self._eager.run(signature, self.options(given), grid, split.slots, extents, wide=is_wide(split.pointers),
                        timeout_s=self.settings()["timeout"])

    @computed
    def _eager(self) -> EagerProgram:
        with NO_FORK:
            from tilewright.interpret.eager_run import EagerProgram
        return EagerProgram(self)

    # -- what others ask ----------------------------------------------------------------------------------------------

    @computed
    def signature(self) -> inspect.Signature:
        """The parameters as `inspect` describes them."""
        return inspect.signature(self.fn)

    @property
    def src(self) -> str:
        """The source text from `def` on."""
        return self._src

    @computed
    def _src(self) -> str:
        return self.source

    @property
    def hash(self) -> str:
        """The same as `cache_key`."""
        return self.cache_key

    @property
    def cache_key(self) -> str:
        """A hash of the source, of those of the functions that it calls, and of the globals that they read."""
        with NO_FORK:
            import hashlib  # loads a large library that most processes do not need
        guards = dependencies(self, [None] * len(self.params))
        text = repr([(fn.src if isinstance(fn, JITFunction) else fn.source) for fn in guards.functions])
        reads = repr(sorted((read.function, read.name, repr(read.value)) for read in guards.reads))
        return hashlib.sha256(f"{text} {reads}".encode()).hexdigest()

    # -- pickling -----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What a kernel is, without what it has been compiled to.

        Python pickles a function by its name, under which there is the kernel: so torch takes `fn` out before.
        """
        of_this_process = {"_settings", "_entries", "_checked", "_lock", "_natives", "_retired",
                           "_is_used_again", "_is_read", "_bind", "pre_run_hooks", "specializer", "_spreader", "_eager",
                           "_parsed"}
        known = {"params": self.params, "arg_names": self.arg_names, "_src": self.src} if self.fn is not None else {}
        return {name: value for name, value in {**self.__dict__, **known}.items() if name not in of_this_process}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

def _bind_in_python(kernel: JITFunction, grid: Any) -> Callable[..., CompiledKernel | None]:
    """What `kernel[grid]` gives where no native launcher does, or not yet."""
    def launch(*args: Any, **kwargs: Any) -> CompiledKernel | None:
        bind = kernel._bind
        try:
            if bind is not _bind_in_python:     # the kernel has been launched since
                return bind(kernel, grid)(*args, **kwargs)
            return kernel._launch(grid, -1, args, kwargs)
        except BaseException as error:
            cut_own_frames(error)
            raise

    return launch


@overload
def jit(fn: Callable[..., Any]) -> JITFunction: ...
@overload
def jit(*, version: object = ..., repr: Callable[[Specialization], str] | None = ...,
        launch_metadata: Callable[..., Any] | None = ..., do_not_specialize: Iterable[Name] | None = ...,
        do_not_specialize_on_alignment: Iterable[Name] | None = ..., debug: bool | None = ...,
        noinline: bool | None = ..., source: str | None = ...) -> Callable[[Callable[..., Any]], JITFunction]: ...
@shows_users_frames
def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a Python function a kernel: `@jit` or `@jit(do_not_specialize=["n"])`.

    `do_not_specialize` and `do_not_specialize_on_alignment` name parameters (or give their indices) whose values must
    not lead to new compilations; `debug` turns `tl.device_assert` on; `noinline`, `version` and `launch_metadata` are
    taken as triton takes them; `repr` gives the compiled kernel its name; `source` is the text of a function that was
    made by `exec`.
    """
    if fn is None:
        return shows_users_frames(lambda function: jit(function, **options))
    return JITFunction(fn.fn if isinstance(fn, SourceFunction) else fn, **options)
