"""`autotune`: run a kernel with the fastest of several configs.

The first launch with a new key (the values of the `key` arguments and the dtypes of all tensors) compiles every config,
several at once, and times each; the winner is kept in memory, on request also on disk (`tunings`), and used from then
on.  What the kernel writes is put back before *every* timed run and before the final one, outside of the timing, so a
kernel that works in place is applied exactly once.  A kernel that stores through a pointer which it loaded may write
what nobody can put back: tuning then warns.
In the eager engine nothing is timed: the first config that `prune_configs_by` leaves is used.

`reset_to_zero`, `restore_value`, `pre_hook` and `post_hook` act while configs are timed, and before the launch that
ends the tuning; launches with a known key run only the hook of their config (semantics of triton).
Tests: tests/runtime/test_autotune.py.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import numpy as np

from tilewright.diagnostics import (
    AutotunerError,
    CompileTimeAssertionFailure,
    FewerStagesWarning,
    OutOfResources,
    PTXASError,
    shows_users_frames,
)
from tilewright.language.function import ParamKind
from tilewright.language.structures import part_name
from tilewright.locks import NO_FORK
from tilewright.runtime import knobs
from tilewright.runtime.arguments import CPU, Pointer, Readers
from tilewright.runtime.async_compile import AsyncCompileMode, FutureKernel, active_mode
from tilewright.runtime.bench import do_bench, prepared_times
from tilewright.runtime.config import Config
from tilewright.runtime.descriptor import TensorDescriptor, class_of, parts_of
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.driver import driver, usable_cores
from tilewright.runtime.hooks import HOOKS
from tilewright.runtime.interface import KernelInterface, in_torch_graph, parameters_of
from tilewright.runtime.launch import CUDA, CompiledKernel
from tilewright.runtime.tunings import Tuning, tuning_of
from tilewright.targets.base import MemoryCopy

QUANTILES = (0.5, 0.2, 0.8)
Hook = Callable[..., Any]
# what leaves a config out: it needs more than the device has, or does not want to be compiled
_UNFIT = (OutOfResources, CompileTimeAssertionFailure, FewerStagesWarning, PTXASError)


class Saved:
    """Copies of the bytes that some tensors reach, kept where the tensors are."""

    def __init__(self, pointers: Mapping[str, Pointer], on_gpu: bool) -> None:
        self.on_gpu = on_gpu
        self._copies: list[MemoryCopy] = []
        for p in pointers.values():
            if p.high > p.low:
                target = DEVICES.target(p.device, knobs.snapshot())
                self._copies.append(target.copy(p.low, p.high - p.low))

    def restore(self) -> None:
        """Put the bytes back where they were."""
        for copy in self._copies:
            copy.restore()


class Autotuner(KernelInterface):
    """A kernel `fn` with configs; see the module's docstring.

    Libraries subclass it: `_bench`, `prune_configs`, `nargs` and the hooks have triton's meaning for them.
    """

    def __init__(self, fn: Any, arg_names: Sequence[str], configs: Sequence[Config], key: Sequence[str],
                 reset_to_zero: Sequence[str] | None, restore_value: Sequence[str] | None,
                 pre_hook: Hook | None = None, post_hook: Hook | None = None,
                 prune_configs_by: Mapping[str, Any] | None = None, warmup: float | None = None,
                 rep: float | None = None, use_cuda_graph: bool = False, do_bench: Callable[..., Any] | None = None,
                 cache_results: bool = False) -> None:
        """The parameters are those of triton's class, for subclasses: `autotune` explains them."""
        self.fn = fn
        self.arg_names: list[str] = list(arg_names)
        self.__name__ = getattr(fn, "__name__", "kernel")
        self.configs = list(configs) or [Config({})]
        self.keys = list(key)
        self.reset_to_zero, self._restored = list(reset_to_zero or ()), list(restore_value or ())
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook: Hook = self._reset if pre_hook is None else pre_hook
        self.post_hook: Hook = _nothing if post_hook is None else post_hook
        prune = dict(prune_configs_by or {})
        self.early_config_prune, self.perf_model = prune.get("early_config_prune"), prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.configs_timings: dict[Config, list[float]] = {}
        self.best_config: Config | None = None
        self.nargs: dict[str, Any] | None = None      # the arguments by name, while they are tuned for
        self.bench_time: float | None = None          # seconds that the last tuning took
        self.cache_results = cache_results
        self.num_warmups, self.num_reps = warmup, rep
        self._times = (25 if warmup is None else warmup, 100 if rep is None else rep)
        self.use_cuda_graph = use_cuda_graph
        self._given_bench = do_bench
        self._readers = Readers()
        for what, names in (("key", self.keys), ("reset_to_zero", self.reset_to_zero),
                            ("restore_value", self._restored)):
            unknown = [name for name in names if name not in self.arg_names]
            if unknown:
                raise ValueError(f"{what} names {', '.join(map(repr, unknown))}, but the parameters of "
                                 f"{self.__name__} are {', '.join(self.arg_names)}")

    @property
    def restore_value(self) -> list[str]:
        """The parameters to put back between timed runs: those named, and those that the kernel was found to write.

        Others than this tuner ask for it: torch's compiler times configs of its own accord, and restores only these.
        """
        found: set[str] = getattr(self.base_fn, "found_written", set())
        return [*self._restored, *(n for n in self.arg_names if n in found and n not in self._restored)]

    @property
    def do_bench(self) -> Callable[..., Any]:
        """The clock: what was given for it, else `testing.do_bench`."""
        return do_bench if self._given_bench is None else self._given_bench

    @property
    def base_fn(self) -> Any:
        """The @jit function under all decorators."""
        fn = self.fn
        while isinstance(fn, KernelInterface) and hasattr(fn, "fn") and hasattr(fn.fn, "arg_names"):
            fn = fn.fn
        return fn

    # -- launching --------------------------------------------------------------------------------------------------

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the best config, after finding it if the key is new."""
        if in_torch_graph():
            return self.launch_in_graph(self, grid, args, kwargs)
        if warmup:
            return self.warmup(*args, grid=grid, **kwargs)
        named = self._named(args, kwargs)
        if len(self.configs) == 1:
            config, tuned = self.configs[0], False
        else:
            config, tuned = self._chosen(args, kwargs, named, grid)
        self.best_config = config
        if tuned:
            self.pre_hook(dict(named), reset_only=True)
        if config.pre_hook is not None:
            config.pre_hook({**named, **config.all_kwargs()})
        return self.fn.run(*args, grid=grid, **kwargs, **_set_by(config, kwargs))

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> list[Any]:
        """Compile every config that pruning leaves, and launch nothing."""
        named = self._named(args, kwargs)
        return [self.fn.run(*args, grid=grid, warmup=True, **kwargs, **_set_by(config, kwargs))
                for config in self._pruned(named, {**kwargs, "grid": grid, "warmup": True})]

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a launch by name.  An error if a config sets one of them: of triton's class, which is
        TypeError where there is one config."""
        named = {**dict(zip(self.arg_names, args)), **kwargs}
        clash = sorted({name for config in self.configs for name in config.kwargs} & named.keys())
        if clash and len(self.configs) == 1:
            raise TypeError(f"{self.__name__}() got multiple values for keyword argument {clash[0]!r}: from the launch "
                            "and from its config; leave it out of the launch")
        if clash:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(clash)}. They are given in a launch of "
                             f"{self.__name__}, but its configs set them; leave them out")
        return named

    def _chosen(self, args: Sequence[Any], kwargs: Mapping[str, Any], named: Mapping[str, Any],
                grid: Any) -> tuple[Config, bool]:
        """The config for these arguments, and whether it was found by timing just now."""
        key = self._key(named)
        if key in self.cache:
            return self.cache[key], False
        configs = self._pruned(named, {**kwargs, "grid": grid, "warmup": False})
        self._check_complete(configs, named)
        if len(configs) == 1 or self.base_fn.interprets():
            self.cache[key] = configs[0]
            return configs[0], False
        tuning = self._kept(key, configs, named, kwargs)
        found = tuning and tuning.read()
        if found:
            self.configs_timings = found
            self.cache[key] = min(found, key=found.__getitem__)
            self._tell(key, None)
            return self.cache[key], False
        self.cache[key] = self._tuned(key, configs, args, kwargs, named, grid)
        if tuning is not None:
            tuning.write(self.configs_timings)
        self._tell(key, self.bench_time)
        return self.cache[key], True

    def _check_complete(self, configs: Sequence[Config], named: Mapping[str, Any]) -> None:
        """TypeError for a config without a parameter that nobody else gives either."""
        given, fn = set(named), self.fn
        while isinstance(fn, KernelInterface) and fn is not self.base_fn:
            given |= set(getattr(fn, "values", ()))       # of heuristics
            fn = fn.fn  # type: ignore[attr-defined]
        wanted = [p.name for p in self.base_fn.params if not p.has_default and p.kind is not ParamKind.VARIADIC]
        for config in configs:
            missing = [name for name in wanted if name not in given and name not in config.kwargs]
            if missing:
                raise TypeError(f"{self.__name__}: the config ({config}) sets no {', '.join(missing)}, and neither "
                                f"does the launch; write Config({{{missing[0]!r}: ...}})")

    def _tell(self, key: tuple[Any, ...], duration: float | None) -> None:
        """Tell the listener of a choice; `duration` is None for one that was on disk."""
        listener = HOOKS.get("autotuning_listener")
        if listener is not None:
            plain = tuple(part[1] if isinstance(part, tuple) else part for part in key)
            listener(fn=self.base_fn, key=plain, best_config=self.cache[key], configs_timings=self.configs_timings,
                     duration=duration, cache_hit=duration is None)

    def _kept(self, key: tuple[Any, ...], configs: Sequence[Config], named: Mapping[str, Any],
              kwargs: Mapping[str, Any]) -> Tuning | None:
        """What is on disk of this tuning, if it is wanted there and can be."""
        settings = self.base_fn.settings()
        if not (self.cache_results or settings["cache_autotuning"]):
            return None
        devices = [pointer.device for pointer in self._pointers(named).values()]
        options = {name: value for name, value in kwargs.items() if name not in self.arg_names}
        return tuning_of(self.base_fn, devices[0] if devices else CPU, options, key, configs)

    def check_disk_cache(self, tuning_key: tuple[Any, ...], configs: Sequence[Config],
                         bench_fn: Callable[[], object]) -> bool:
        """Whether the best config for `tuning_key` was on disk; else `bench_fn` has found it, and it is there now.

        For subclasses that tune by a `run` of their own: `bench_fn()` sets `cache[tuning_key]` and `configs_timings`.
        """
        tuning = tuning_key and tuning_of(self.base_fn, _device_of_driver(), {}, tuning_key, configs)
        found = tuning.read() if tuning else None
        if found:
            self.configs_timings = found
            self.cache[tuning_key] = min(found, key=found.__getitem__)
            return True
        bench_fn()
        if tuning:
            tuning.write(self.configs_timings)
        return False

    def _key(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        values = [(type(named[name]), named[name]) for name in self.keys if name in named]
        return (*values, *(str(v.dtype) for v in named.values() if hasattr(v, "dtype")))

    # -- tuning -----------------------------------------------------------------------------------------------------

    def _tuned(self, key: tuple[Any, ...], configs: Sequence[Config], args: Sequence[Any], kwargs: Mapping[str, Any],
               named: Mapping[str, Any], grid: Any) -> Config:
        """The fastest config; memory is afterwards as it was."""
        start = time.perf_counter()
        pointers = self._pointers(named)
        saved = self._saved(configs, args, kwargs, pointers, grid)
        timings: dict[Config, list[float]] = {}
        for config in configs:
            timings[config] = self._timed(config, args, kwargs, named, grid, saved)
            saved.restore()
        self.configs_timings = timings
        self.bench_time = time.perf_counter() - start
        best = min(timings, key=timings.__getitem__)    # the first of equal ones
        if knobs.read("print_autotuning"):
            shown = ", ".join(str(part[1]) if isinstance(part, tuple) else part for part in key)
            print(f"autotune: {self.__name__} for the key ({shown}) runs with {best} ({timings[best][0]:.3g} ms), "
                  f"chosen among {len(configs)} configs in {self.bench_time:.2f} s")
        return best

    def _saved(self, configs: Sequence[Config], args: Sequence[Any], kwargs: Mapping[str, Any],
               pointers: Mapping[str, Pointer], grid: Any) -> Saved:
        """Copies of what any of the configs may write, and of what `restore_value` names."""
        written: set[str] = set(self.restore_value)
        on_gpu = any(p.device != CPU for p in pointers.values())
        hooked = any(config.pre_hook is not None for config in configs)     # a hook may write any of the tensors
        before = Saved(pointers if hooked else {}, on_gpu)
        for kernel in self._compiled(configs, args, kwargs, grid, before):
            if kernel is not None:
                written.update(kernel.metadata.written_params)
                if kernel.written.anything:
                    warnings.warn(f"tuning of {self.__name__} is unproven: it stores through a pointer that it loaded "
                                  "from memory, which is not put back between timed runs", stacklevel=5)
                    break
        return Saved({name: p for name, p in pointers.items() if name in written}, on_gpu)

    def _compiled(self, configs: Sequence[Config], args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any,
                  before: Saved) -> Iterator[CompiledKernel | None]:
        """The kernels of `configs`, in their order; None for one that cannot be built for lack of resources.

        With more than two cores several are compiled at once, one core being left for Python.  Hooks are called one
        after the other, and what they write is put back.
        """
        workers = min(len(configs), usable_cores() - 1)
        if workers < 2 or active_mode.get() is not None:
            for config in configs:
                kernel = self._unless_unfit(partial(self._warm, config, args, kwargs, grid))
                before.restore()
                yield kernel
            return
        with NO_FORK:
            from concurrent.futures import ThreadPoolExecutor
        begun: list[Callable[[], Any]] = []
        with (_fewer_stages_are_errors(), ThreadPoolExecutor(workers) as executor,
              AsyncCompileMode(executor, ignore_errors=True)):
            for config in configs:
                begun.append(self._begun(config, args, kwargs, grid))
                before.restore()
        for finish in begun:
            yield self._unless_unfit(finish)

    @staticmethod
    def _unless_unfit(make: Callable[[], Any]) -> CompiledKernel | None:
        try:
            made = make()
        except _UNFIT:
            return None
        return made if isinstance(made, CompiledKernel) else None

    def _warm(self, config: Config, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Any:
        """What is compiled for a config, once its hook has run, which may set the blocks of descriptors; raises one of
        `_UNFIT` if that needs more than the device has."""
        with _fewer_stages_are_errors():
            finish = self._begun(config, args, kwargs, grid)
        return finish()

    def _begun(self, config: Config, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Callable[[], Any]:
        """The same, begun: what comes gives the kernel, or raises the error."""
        if config.pre_hook is not None:
            config.pre_hook({**self._named(args, kwargs), **config.all_kwargs()})
        wanted = kwargs.get("num_stages", config.num_stages)
        try:
            begun = self.fn.run(*args, grid=grid, warmup=True, **kwargs, **_set_by(config, kwargs))
        except _UNFIT as error:
            return partial(_raise, error)

        def finish() -> Any:
            made = begun.result() if isinstance(begun, FutureKernel) else begun
            if isinstance(made, CompiledKernel) and made.metadata.num_stages < wanted:
                raise FewerStagesWarning(f"{made.name}: num_stages={wanted} does not fit")  # compiled before the tuning
            return made

        return finish

    def _timed(self, config: Config, args: Sequence[Any], kwargs: Mapping[str, Any], named: Mapping[str, Any],
               grid: Any, saved: Saved) -> list[float]:
        """Quantiles of the time of one config; infinite if it cannot run."""

        def prepare() -> None:
            saved.restore()
            if config.pre_hook is not None:
                config.pre_hook({**named, **config.all_kwargs()})
            self.pre_hook(dict(named), reset_only=False)

        def call() -> None:
            error: Exception | None = None
            try:
                self.fn.run(*args, grid=grid, **kwargs, **_set_by(config, kwargs))
            except Exception as raised:
                error = raised
                raise
            finally:
                self.post_hook(dict(named), exception=error)

        def prepared_call() -> None:
            prepare()
            call()

        try:
            self._warm(config, args, kwargs, grid)
            if self._given_bench is not None:
                found = self._given_bench(prepared_call, quantiles=QUANTILES)
                return [float(t) for t in found] if isinstance(found, Sequence) else [float(found)] * 3
            times = prepared_times(call, prepare, *self._times, on_gpu=saved.on_gpu)
            return [float(q) for q in np.quantile(times, QUANTILES)]
        except _UNFIT:
            return [math.inf] * 3

    def _bench(self, *args: Any, config: Config, grid: Any, warmup: bool = False, **kwargs: Any) -> list[float]:
        """What one config takes (quantiles, in ms), with memory put back: for subclasses that tune by a `run` of
        their own."""
        named = {**dict(zip(self.arg_names, args)), **kwargs}
        saved = self._saved([config], args, kwargs, self._pointers(named), grid)
        try:
            return self._timed(config, args, kwargs, named, grid, saved)
        finally:
            saved.restore()

    def _reset(self, named: Mapping[str, Any], reset_only: bool = False) -> None:
        """The hook before a run where the program gives none."""
        for name in self.reset_to_zero:
            if named.get(name) is not None:
                _zero(named[name])

    def _pointers(self, named: Mapping[str, Any]) -> dict[str, Pointer]:
        """The tensors among the arguments, in the memory of a target; elements of tuples are `name[0]`, the base of a
        descriptor has the descriptor's name."""
        found: dict[str, Pointer] = {}

        def look(name: str, value: Any) -> None:
            if isinstance(value, tuple | TensorDescriptor):
                for index, item in enumerate(parts_of(value)):
                    look(part_name(name, class_of(value), index), item)
                return
            reader = self._readers.find(type(value), value)
            pointer = reader(value) if reader is not None else None
            if pointer is not None and pointer.writable and (pointer.device == CPU or pointer.device.startswith(CUDA)):
                found[name] = pointer

        for name, value in named.items():
            look(name, value)
        return found

    # -- pruning ----------------------------------------------------------------------------------------------------

    def _pruned(self, named: Mapping[str, Any], kwargs: Mapping[str, Any]) -> list[Config]:
        self.nargs = dict(named)
        try:
            return list(self.prune_configs(kwargs))
        finally:
            self.nargs = None

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """The configs that are worth timing for the arguments `nargs`; `kwargs` are the launch's keywords, `grid` among
        them.  A subclass may choose by itself."""
        named = dict(self.nargs or {})
        configs = list(self.configs)
        early, model = self.early_config_prune, self.perf_model
        if early is not None:
            configs = list(early(configs, named, **kwargs))
            if not configs:
                raise AutotunerError(f"early_config_prune of {self.__name__} left no config; return at least one")
        if model is None:
            return configs
        top = self.configs_top_k
        count = max(1, int(len(self.configs) * top) if isinstance(top, float) else top)
        if len(configs) <= count:
            return configs
        meta = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
        costs = {config: model(**{**named, **meta, **config.all_kwargs()}) for config in configs}
        return sorted(configs, key=costs.__getitem__)[:count]


def _set_by(config: Config, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a config adds to those of a launch, whose options have the last word."""
    return {name: value for name, value in config.all_kwargs().items() if name in config.kwargs or name not in kwargs}


def _raise(error: Exception) -> NoReturn:
    raise error


@contextmanager
def _fewer_stages_are_errors() -> Iterator[None]:
    """Inside, a kernel whose stages do not fit is none: there is a config for fewer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewerStagesWarning)
        yield


def _device_of_driver() -> str:
    """The device that the program works on, where there are no tensors to say it."""
    active = driver.active
    return CPU if active.get_current_target().backend == CPU else f"{CUDA}:{active.get_current_device()}"


def _nothing(named: Mapping[str, Any], exception: Exception | None = None) -> None:
    """The hook after a run where the program gives none."""


def _zero(tensor: Any) -> None:
    """Fill a tensor or array with zeros."""
    if hasattr(tensor, "detach"):
        tensor.detach().zero_()
    else:
        tensor[...] = 0


@shows_users_frames
def autotune(configs: Sequence[Config], key: Sequence[str], prune_configs_by: Mapping[str, Any] | None = None,
             reset_to_zero: Sequence[str] | None = None, restore_value: Sequence[str] | None = None,
             pre_hook: Hook | None = None, post_hook: Hook | None = None, warmup: float | None = None,
             rep: float | None = None, use_cuda_graph: bool = False, do_bench: Callable[..., Any] | None = None,
             cache_results: bool = False) -> Callable[[Any], Autotuner]:
    """Decorator: launch with the fastest of `configs`, found anew for each value of the `key` arguments.

    An empty list of configs stands for one that sets nothing, `Config({})`.
    `prune_configs_by` may have `early_config_prune(configs, named_args, **kwargs)`, `perf_model(**args)` and `top_k` (a
    number, or a share up to 1.0).  Before every timed run what the kernel may write, and what `restore_value` names, is
    put back as it was; then the tensors named in `reset_to_zero` are zeroed, or `pre_hook(args, reset_only=False)` is
    called instead; `post_hook(args, exception=...)` follows the run.  `warmup` and `rep` are milliseconds;
    `do_bench(fn, quantiles=...)` replaces the clock.  `use_cuda_graph` has no meaning on a CPU.  Results are kept in
    memory, and with `cache_results=True` on disk, if no config has a `pre_hook`.  Unknown names are a ValueError.
    """
    wrong = next((config for config in configs if not hasattr(config, "all_kwargs")), None)
    if wrong is not None:
        raise TypeError(f"configs of autotune are Config objects, not {wrong!r}; write Config({{'BLOCK': 64}}, "
                        "num_warps=4)")
    return shows_users_frames(lambda fn: Autotuner(
        fn, parameters_of(fn, "autotune"), configs, key, reset_to_zero, restore_value, pre_hook, post_hook,
        prune_configs_by, warmup, rep, use_cuda_graph, do_bench, cache_results))
