"""The knobs: one typed table, and the only place of the package that reads the environment.

A knob has a name, the environment variables that set it (`TILEWRIGHT_X` wins over `TRITON_X` of the same meaning), a
kind, a default, and whether it changes generated code.  `scope(name=value)` overrides knobs in a block of code, in the
current context only (other threads are not touched).  `read` looks at the override, then the environment, then the
default.  A kernel takes a `snapshot` of the environment when it is decorated, as triton does for `TRITON_INTERPRET`;
an override by `scope` counts at the launch.  docs/knobs.md is made from the table (`tilewright knobs --page`).
Tests: tests/runtime/test_knobs.py.
"""

from __future__ import annotations

import difflib
import functools
import math
import os
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilewright.diagnostics import is_own
from tilewright.runtime.absent_knobs import ABSENT, AbsentKnobError
from tilewright.runtime.hooks import CHAINS, HOOKS, SINGLES


@dataclass(frozen=True, slots=True)
class Knob:
    """One row of the table; `kind` is bool, int, float or str, `default` is what counts when no variable is set."""

    name: str
    variables: tuple[str, ...]
    kind: type
    default: Any
    affects_code: bool
    doc: str
    triton: str = ""        # where triton has it: `triton.knobs.runtime.debug` is "runtime.debug"


TABLE: Mapping[str, Knob] = MappingProxyType({k.name: k for k in (
    Knob("interpret", ("TILEWRIGHT_INTERPRET", "TRITON_INTERPRET"), bool, False, False,
         "Run kernels step by step in Python (the eager engine) instead of compiling them.", "runtime.interpret"),
    Knob("debug", ("TILEWRIGHT_DEBUG", "TRITON_DEBUG"), bool, False, True,
         "Turn `tl.device_assert` and `assert` on in kernels that do not say `debug=` themselves.", "runtime.debug"),
    Knob("default_fp_fusion", ("TILEWRIGHT_DEFAULT_FP_FUSION", "TRITON_DEFAULT_FP_FUSION"), bool, False, True,
         "Let a multiplication and an addition become one fma when a launch does not say `enable_fp_fusion=`.",
         "language.default_fp_fusion"),
    Knob("force_disable_fp_fusion", ("TILEWRIGHT_FORCE_DISABLE_FP_FUSION", "TRITON_FORCE_DISABLE_FP_FUSION"), bool,
         False, True, "Never let a multiplication and an addition become one fma, whatever a launch says.",
         "language.force_disable_fp_fusion"),
    Knob("f32_default", ("TILEWRIGHT_F32_DEFAULT", "TRITON_F32_DEFAULT"), str, "", True,
         "Precision of float32 `tl.dot` that does not say `input_precision=` (ieee, tf32, tf32x3, bf16x3, bf16x6).",
         "language.fp32_default"),
    Knob("allow_non_constexpr_globals",
         ("TILEWRIGHT_ALLOW_NON_CONSTEXPR_GLOBALS", "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"), bool, False, True,
         "Let kernels read any global as a constant.", "compilation.allow_non_constexpr_globals"),
    Knob("check_bounds", ("TILEWRIGHT_CHECK_BOUNDS",), bool, True, True,
         "Test loads and stores of compiled CPU kernels against the extents of their tensors."),
    Knob("debug_info", ("TILEWRIGHT_DEBUG_INFO",), bool, False, True,
         "Compile kernels with line tables and make them known to debuggers, so that gdb shows their Python lines "
         "(on Linux; LLVM takes 6-9 % longer)."),
    Knob("disable_line_info", ("TILEWRIGHT_DISABLE_LINE_INFO", "TRITON_DISABLE_LINE_INFO"), bool, False, True,
         "Compile without line tables, also where `debug_info` asks for them.", "compilation.disable_line_info"),
    Knob("perf", ("TILEWRIGHT_PERF",), str, "", False,
         "Tell Linux's perf of loaded kernels: map writes their names to /tmp/perf-PID.map; dump writes names, code "
         "and, with `debug_info`, Python lines to jit-PID.dump in the folder for temporary files, for `perf record -k "
         "1` and `perf inject --jit`."),
    Knob("num_threads", ("TILEWRIGHT_NUM_THREADS",), int, 0, False,
         "Threads that run the programs of a grid on the CPU; 0 means all cores of this process."),
    Knob("host", ("TILEWRIGHT_HOST",), str, "", False,
         "How kernels are loaded and run on the CPU: linux (own threads and loader), portable (Python threads and "
         "llvmlite's loader), or empty for the best of them."),
    Knob("cpu", ("TILEWRIGHT_CPU",), str, "", True,
         "Instructions that compiled code may use: x86-64, x86-64-v2, avx2, avx512, or empty for all of this machine."),
    Knob("timeout", ("TILEWRIGHT_TIMEOUT",), float, 0.0, False,
         "Seconds after which a launch on the CPU, compiled, step by step or checked, is ended with an error that "
         "names the loop; 0 is no limit."),
    Knob("catch_faults", ("TILEWRIGHT_CATCH_FAULTS",), bool, True, False,
         "Turn a memory fault (SIGSEGV, SIGBUS) in a compiled kernel into a `MemoryFaultError`: on x86-64 Linux a "
         "handler of these signals is installed above those that are there."),
    Knob("check", ("TILEWRIGHT_CHECK",), bool, False, False,
         "Run kernels in checked mode, in which every access to memory is tested (`kernel[grid](..., check=True)`)."),
    Knob("verify", ("TILEWRIGHT_VERIFY",), int, 1, False,
         "IR verification: 0 none, 1 after the frontend and before code generation, 2 after every pass."),
    Knob("dump", ("TILEWRIGHT_KERNEL_DUMP", "TRITON_KERNEL_DUMP"), bool, False, False,
         "Write every stage of each compiled kernel into `dump_dir`.", "compilation.dump_ir"),
    Knob("dump_dir", ("TILEWRIGHT_DUMP_DIR", "TRITON_DUMP_DIR"), str, "tilewright-dump", False,
         "Directory for `dump`.", "cache.dump_dir"),
    Knob("disk_cache", ("TILEWRIGHT_DISK_CACHE",), bool, True, False,
         "Keep compiled kernels on disk, and read them from there."),
    Knob("cache_dir", ("TILEWRIGHT_CACHE_DIR", "TRITON_CACHE_DIR"), str, "", False,
         "Folder of the disk cache, which has to be this user's own; empty means `tilewright` in `cache_home`.",
         "cache.dir"),
    Knob("cache_home", ("TILEWRIGHT_CACHE_HOME", "XDG_CACHE_HOME"), str, "", False,
         "Folder for the caches of this user's programs; empty means `~/.cache`.",
         "cache.home_dir"),
    Knob("cuda_home", ("TILEWRIGHT_CUDA_HOME", "CUDA_HOME", "CUDA_PATH"), str, "", False,
         "Folder of the CUDA toolkit, whose assemblers make code for NVIDIA GPUs; empty means /usr/local/cuda."),
    Knob("ptxas", ("TILEWRIGHT_PTXAS_PATH", "TRITON_PTXAS_PATH"), str, "", False,
         "The assembler for NVIDIA GPUs; empty means what is found (nvJitLink's library, or ptxas).",
         "nvidia.ptxas"),
    Knob("tensor_maps", ("TILEWRIGHT_TENSOR_MAPS",), bool, True, True,
         "Let GPUs of compute capability 9.0 and later copy blocks of tensor descriptors by hardware (TMA)."),
    Knob("own_ptx", ("TILEWRIGHT_OWN_PTX",), bool, True, True,
         "Write PTX for NVIDIA GPUs without LLVM, where the kernel has nothing that only LLVM knows."),
    Knob("cache_size", ("TILEWRIGHT_CACHE_SIZE",), int, 1024, False,
         "Size of the disk cache in MiB; above it, what was used longest ago is removed."),
    Knob("print_autotuning", ("TILEWRIGHT_PRINT_AUTOTUNING", "TRITON_PRINT_AUTOTUNING"), bool, False, False,
         "Say which config `autotune` has chosen, for which key, and how long it took.", "autotuning.print"),
    Knob("cache_autotuning", ("TILEWRIGHT_CACHE_AUTOTUNING", "TRITON_CACHE_AUTOTUNING"), bool, False, False,
         "Keep what `autotune` has found on disk, and take it from there, also for tuners that do not say "
         "`cache_results=True`.", "autotuning.cache"),
    Knob("always_compile", ("TILEWRIGHT_ALWAYS_COMPILE", "TRITON_ALWAYS_COMPILE"), bool, False, False,
         "Compile also what the disk cache has.", "compilation.always_compile"),
    Knob("compile_in_process", ("TILEWRIGHT_COMPILE_IN_PROCESS",), bool, False, False,
         "Run LLVM in this process instead of a child; where LLVM ends its process, it ends this one."),
    Knob("compile_processes", ("TILEWRIGHT_COMPILE_PROCESSES",), int, 0, False,
         "How many compile children may run at once; 0 means a core each."),
    Knob("compile_timeout", ("TILEWRIGHT_COMPILE_TIMEOUT",), int, 300, False,
         "Seconds that LLVM may take for a kernel; 0 is no limit."),
    Knob("version", ("TILEWRIGHT_TRITON_VERSION",), str, "3.6.0", False,
         "`__version__` that the package shows under the name `triton`."),
)})

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_overrides: ContextVar[Mapping[str, Any]] = ContextVar("tilewright_knobs", default=_NOTHING)
_TRUE = frozenset({"1", "true", "on", "yes", "y"})
_NUMBERS: Mapping[type, str] = MappingProxyType({int: "a whole number", float: "a number"})
_OURS, _TESTS = "TILEWRIGHT_", "TILEWRIGHT_TEST_"       # beginnings of variables, ours and those of our tests
_FALSE = frozenset({"0", "false", "off", "no", "n", ""})


def parse(knob: Knob, text: str, variable: str) -> Any:
    """The value of `knob` that `text`, found in the environment as `variable`, stands for."""
    word = text.strip()
    if knob.kind is bool:
        if word.lower() in _TRUE | _FALSE:
            return word.lower() in _TRUE
        raise ValueError(f"{variable}={text!r}: expected one of 1, true, on, yes or 0, false, off, no")
    if knob.kind in _NUMBERS:
        try:
            value = knob.kind(word)
        except ValueError:
            value = None
        if value is None or not 0 <= value < math.inf:
            raise ValueError(f"{variable}={text!r}: expected {_NUMBERS[knob.kind]}, 0 or more")
        return value
    return word


@functools.cache
def tell_of_unknown_variables() -> None:
    """Warn, once a process, of variables that look like ours and set nothing."""
    known = {variable for knob in TABLE.values() for variable in knob.variables}
    for variable in sorted(os.environ):
        if variable.startswith(_OURS) and not variable.startswith(_TESTS) and variable not in known:
            near = difflib.get_close_matches(variable, known, 1, 0.8)
            hint = f"did you mean {near[0]}?" if near else "`tilewright knobs` lists what there is"
            warnings.warn(f"the environment has {variable}, which sets nothing; {hint}", RuntimeWarning,
                          stacklevel=_level_of_program())


def _level_of_program() -> int:
    """The `stacklevel`, for the function that asks, of the program's line that came here."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_own(frame):
        frame, level = frame.f_back, level + 1
    return level


def from_environment(name: str) -> Any:
    """The knob's value by environment and default, overrides left out."""
    knob = TABLE[name]
    for variable in knob.variables:
        text = os.environ.get(variable)
        if text is not None:
            return parse(knob, text, variable)
    return knob.default


def read(name: str) -> Any:
    """The knob's value now: override, else environment, else default."""
    overrides = _overrides.get()
    return overrides[name] if name in overrides else from_environment(name)


def snapshot() -> Mapping[str, Any]:
    """All knobs by environment and default (a decorated kernel keeps this)."""
    tell_of_unknown_variables()
    return MappingProxyType({name: from_environment(name) for name in TABLE})


def overrides() -> Mapping[str, Any]:
    """What `scope` overrides here and now; the same empty mapping object when nothing is."""
    return _overrides.get()


def current() -> Mapping[str, Any]:
    """All knobs, here and now."""
    return MappingProxyType({**snapshot(), **overrides()})


def overrides_variable() -> tuple[ContextVar[Mapping[str, Any]], Mapping[str, Any]]:
    """The variable that `overrides` reads, and its value when nothing is overridden, for native launchers."""
    return _overrides, _NOTHING


@contextmanager
def scope(**values: Any) -> Iterator[None]:
    """Override knobs inside a `with` block: `with knobs.scope(interpret=True): ...`."""
    for name, value in values.items():
        _check(name, value)
    token = _overrides.set(MappingProxyType({**_overrides.get(), **values}))
    try:
        yield
    finally:
        _overrides.reset(token)


def assign(name: str, value: Any) -> None:
    """Override a knob from now on in the current context: until the block of `scope` around it ends, or for good."""
    _check(name, value)
    _overrides.set(MappingProxyType({**_overrides.get(), name: value}))


def unassign(name: str) -> None:
    """Let the environment count again for a knob."""
    _overrides.set(MappingProxyType({n: v for n, v in _overrides.get().items() if n != name}))


def _check(name: str, value: Any) -> None:
    if name not in TABLE:
        raise KeyError(f"no knob {name!r}; there are {', '.join(TABLE)}")
    kind = TABLE[name].kind
    allowed: Any = int | float if kind is float else kind
    if not isinstance(value, allowed) or (kind is not bool and isinstance(value, bool)):
        raise TypeError(f"knob {name} takes {kind.__name__}, not {type(value).__name__}")
    if kind in _NUMBERS and not 0 <= value < math.inf:
        raise ValueError(f"knob {name} takes {_NUMBERS[kind]}, 0 or more, not {value}")


# The hooks of each group, and what `runtime.hooks` calls them.
_HOOK_NAMES: Mapping[str, Mapping[str, str]] = {
    "runtime": {name: name for name in (*CHAINS, *SINGLES) if not name.endswith("_listener")},
    "compilation": {"listener": "compilation_listener"},
    "autotuning": {"listener": "autotuning_listener"},
}


def _fp_fusion_enabled(requested: bool | None = None) -> bool:
    """Whether a launch that asks for `enable_fp_fusion=requested` has products and sums fused."""
    wanted = read("default_fp_fusion") if requested is None else requested
    return bool(wanted) and not read("force_disable_fp_fusion")


_FUNCTIONS: Mapping[str, Any] = MappingProxyType({"language.fp_fusion_enabled": _fp_fusion_enabled})


class Group:
    """Knobs under the names that triton has for them: `knobs.runtime.debug`.

    Reading gives what counts here and now; assigning overrides it in the current context (`assign`), deleting ends
    that; `with group.scope():` ends at its end what is assigned inside.  `knobs.runtime` has the hooks as well, and
    `knobs.compilation` and `knobs.autotuning` a `listener`; they hold for the whole process (`runtime.hooks`).
    """

    def __init__(self, name: str) -> None:
        own = {k.triton.partition(".")[2]: k.name for k in TABLE.values() if k.triton.partition(".")[0] == name}
        self.__dict__["_name"], self.__dict__["_own"] = name, own

    def _knob(self, attribute: str) -> str:
        reason = ABSENT.get(self._name, {}).get(attribute)
        if reason is not None:
            raise AbsentKnobError(f"knobs.{self._name}.{attribute} is not in Tilewright: {reason}")
        if attribute not in self._own:
            raise AttributeError(f"no knob {self._name}.{attribute}; there are "
                                 f"{', '.join(f'{self._name}.{a}' for a in self._own)}")
        name: str = self._own[attribute]
        return name

    def _hooks(self) -> Mapping[str, str]:
        return _HOOK_NAMES.get(self._name, {})

    def __getattr__(self, attribute: str) -> Any:
        hook = self._hooks().get(attribute)
        if hook is not None:
            return HOOKS.get(hook)
        function = _FUNCTIONS.get(f"{self._name}.{attribute}")
        return read(self._knob(attribute)) if function is None else function

    def __setattr__(self, attribute: str, value: Any) -> None:
        hook = self._hooks().get(attribute)
        if hook is None:
            assign(self._knob(attribute), value)
        else:
            HOOKS.set(hook, value)

    def __delattr__(self, attribute: str) -> None:
        hook = self._hooks().get(attribute)
        if hook is not None:
            HOOKS.set(hook, None)
        else:
            unassign(self._knob(attribute))

    def __dir__(self) -> list[str]:
        return sorted((*self._own, *self._hooks(), "knobs", "reset", "scope"))

    @property
    def knobs(self) -> dict[str, Any]:
        """The group's knobs and their values here and now."""
        return {attribute: read(name) for attribute, name in self._own.items()}

    def reset(self) -> Group:
        """Let the environment count again for all knobs of the group; hooks stay."""
        for name in self._own.values():
            unassign(name)
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Undo at the end what is assigned inside."""
        with scope(), HOOKS.scope():
            yield


# `knobs.runtime`, `knobs.compilation`, ...
GROUPS: Mapping[str, Group] = MappingProxyType({
    name: Group(name)
    for name in dict.fromkeys((*(k.triton.partition(".")[0] for k in TABLE.values() if k.triton), *ABSENT))})


class _Module(types.ModuleType):
    """This module: knobs can be assigned (`knobs.debug = True`) and deleted as those of groups can, and no others."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ or name.startswith("_"):
            super().__setattr__(name, value)
        else:
            assign(_known(name), value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            unassign(_known(name))


def _known(name: str) -> str:
    """`name`, which must be that of a knob."""
    if name in GROUPS:
        example = next((k.triton for k in TABLE.values() if k.triton.startswith(f"{name}.")), f"{name}.name")
        raise AttributeError(f"knobs.{name} is a group of knobs; assign to one of them, as in knobs.{example} = ...")
    if name not in TABLE:
        raise AttributeError(f"no knob {name!r}; there are {', '.join((*TABLE, *GROUPS))}")
    return name


sys.modules[__name__].__class__ = _Module


def __getattr__(name: str) -> Any:
    """`knobs.interpret` reads the knob `interpret`; `knobs.runtime` is the group of that name."""
    if name in TABLE:
        return read(name)
    if name in GROUPS:
        return GROUPS[name]
    raise AttributeError(f"no knob {name!r}; there are {', '.join((*TABLE, *GROUPS))}")
