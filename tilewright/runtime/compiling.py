"""From the arguments of a launch to a compiled kernel: keys, what is known of each, and its compilation.

A key is what a launch is known by, its facts left out.  An unknown one is lowered to tile IR; what that writes,
together with the arguments' extents, decides the launch facts, and for each combination of facts there is one compiled
kernel.  What the code read beside its arguments is guarded by identity.
Before: bound values, split by the specializer.  After: a kernel in memory, the same one for the same key and facts.
Tests: tests/runtime/test_jit.py, test_hooks.py, test_async_compile.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.diagnostics import NoDriverError
from tilewright.frontend.dependencies import dependencies
from tilewright.language.options import Options, Signature
from tilewright.locks import ForkSafeLock
from tilewright.runtime import knobs
from tilewright.runtime.async_compile import AsyncCompileMode, FutureKernel
from tilewright.runtime.binding import BoundFunction
from tilewright.runtime.build import Build, stage_writer
from tilewright.runtime.descriptor import kept_as_now
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.hooks import HOOKS, JitFunctionInfo
from tilewright.runtime.launch import CompiledKernel, Facts, device_of, facts_of
from tilewright.runtime.launch_options import make_options
from tilewright.runtime.specialize import Split, typed
from tilewright.targets.base import Target


class Entry:
    """What is known of one key: how it is built, what it read, and a compiled kernel for each combination of facts."""

    __slots__ = ("build", "guards", "kernels", "written")

    def __init__(self, build: Build) -> None:
        self.build = build
        self.guards = build.guards
        self.written = build.written
        self.kernels: dict[Facts, CompiledKernel] = {}


class Specialization:
    """What a `repr=` function gets: the kernel's name and its compile-time arguments by name."""

    def __init__(self, name: str, constants: Mapping[str, Any], signature: Signature) -> None:
        self.name = name
        self.constants = constants
        self.signature = signature


class CompilingFunction(BoundFunction):
    """A function with its compiled kernels.  `JITFunction` makes the attributes."""

    debug: bool | None
    found_written: set[str]     # parameters that some specialisation of it may write
    _repr: Callable[[Specialization], str] | None
    _settings: Mapping[str, Any]
    _entries: dict[Any, Entry]
    _lock: ForkSafeLock

    def settings(self) -> Mapping[str, Any]:
        """The knobs that count for a launch now."""
        return {**self._settings, **knobs.overrides()}

    def options(self, given: Mapping[str, Any]) -> Options:
        """The compiler's options for a launch with these option keywords."""
        return make_options(self.__name__, given, self.debug, self.settings())

    def written_by(self, *args: Any, **kwargs: Any) -> tuple[frozenset[str], bool]:
        """The parameters that a launch with these arguments may write through, and whether it may write elsewhere.

        Elements of tuples are `name[0]`; dtypes stand for tensors.  Makes tile IR, and no machine code.
        """
        values, given = self.bind(args, kwargs)
        split = self.specializer.split(values, mock=True)
        names = self.slot_names(split)
        written = self._entry(values, given, split, device_of(self.__name__, names, split.pointers)).written
        return frozenset(names[slot] for slot in written.params), written.anything

    def _compiled(self, values: Sequence[Any], given: Mapping[str, Any], split: Split, device: str,
                  warmup: bool = False) -> CompiledKernel | None:
        """The kernel for these arguments, from the cache or compiled now; None if a hook wants no compilation."""
        entry = self._entry(values, given, split, device)
        facts = facts_of(split.pointers, entry.written)
        kernel = entry.kernels.get(facts)
        if kernel is not None:
            return kernel
        if not HOOKS.watches_compilations:
            return self._finished(entry, facts, values, split, device)
        told = self._told(split, values, given, device, warmup)
        if HOOKS.before_compiling(told):
            return None
        kernel = self._finished(entry, facts, values, split, device)
        HOOKS.after_compiling(told)
        return kernel

    def _submitted(self, mode: AsyncCompileMode, values: Sequence[Any], given: Mapping[str, Any], split: Split,
                   device: str) -> CompiledKernel | FutureKernel | None:
        """The same in the executor of `mode`, unless the kernel is there already.  Nothing is locked meanwhile, so that
        several specialisations are made at once; what is made twice is kept once."""
        key = self._key(split, given, device)
        known = self._entries.get(key)
        if known is not None and not known.guards.hold():
            known = None
        kernel = known and known.kernels.get(facts_of(split.pointers, known.written))
        if kernel:
            return kernel
        told = self._told(split, values, given, device, True)
        if HOOKS.before_compiling(told):
            return None
        entries: list[Entry] = []
        values = [kept_as_now(value) for value in values]

        def make() -> CompiledKernel:
            entry = known or self._new_entry(values, given, split, device)
            entries.append(entry)
            return self._made(entry, facts_of(split.pointers, entry.written), values, split, device)

        def keep(made: CompiledKernel) -> None:
            with self._lock:
                entry = self._entries.get(key)
                if entry is None or not entry.guards.hold():
                    entry = self._entries[key] = entries[0]
                entry.kernels.setdefault(made.facts, made)
            HOOKS.after_compiling(told)

        return mode.submit((self, key, tuple((p.low, p.high) for _, p in split.pointers)), make, keep)

    def _told(self, split: Split, values: Sequence[Any], given: Mapping[str, Any], device: str,
              warmup: bool) -> Mapping[str, Any]:
        """What the hooks of the compiler are told of a compilation."""
        key, options = self._key(split, given, device), self.options(given)
        rules = self.specializer.rules
        signature = {r.name: "constexpr" if a[0] == "=" else a.removesuffix("D") if isinstance(a, str) else a
                     for r, a in zip(rules, split.atoms, strict=True)}
        constants = {r.name: v for r, a, v in zip(rules, split.atoms, values, strict=True) if a[0] == "="}
        chosen = {name: getattr(options, name) for name in ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")}
        name = self._kernel_name(split, values)
        shown = ", ".join(f"{n}: {t}" for n, t in signature.items())
        return {"key": repr(key), "repr": f"{name}[{', '.join(f'{n}: {v}' for n, v in chosen.items())}]({shown})",
                "fn": JitFunctionInfo(self.fn.__module__, self.__name__, self),
                "compile": {"key": repr(key), "signature": signature, "constants": constants, **chosen},
                "is_manual_warmup": warmup}

    def _entry(self, values: Sequence[Any], given: Mapping[str, Any], split: Split, device: str) -> Entry:
        """What is known of these arguments' key."""
        key = self._key(split, given, device)
        entry = self._entries.get(key)
        if entry is None or not entry.guards.hold():
            entry = self._found(key, values, given, split, device)
        return entry

    @staticmethod
    def _key(split: Split, given: Mapping[str, Any], device: str) -> Any:
        """What a launch is known by, the launch facts left out."""
        overridden = knobs.overrides()
        inspection = HOOKS.inspection()
        return (split.atoms, _options_key(given) if given else (), _code_key(overridden) if overridden else (), device,
                None if inspection is None else inspection.memory_key)

    def _found(self, key: Any, values: Sequence[Any], given: Mapping[str, Any], split: Split, device: str) -> Entry:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.guards.hold():
                return entry
            entry = self._entries[key] = self._new_entry(values, given, split, device)
            return entry

    def _new_entry(self, values: Sequence[Any], given: Mapping[str, Any], split: Split, device: str) -> Entry:
        settings = self.settings()
        signature = self.specializer.signature(split.atoms, values, False, False)
        target = self._target(device, split, settings)
        build = Build(self, signature, self.options(given), dependencies(self, values), target,
                      DEVICES.store(settings), lambda: DEVICES.compiler_key(settings, target.name),
                      reads=not settings["always_compile"], check=settings["verify"],
                      inspection=HOOKS.inspection())
        entry = Entry(build)
        names = self.specializer.slot_names(split.atoms)
        self.found_written.update(names[slot] for slot in entry.written.params)
        return entry

    def _target(self, device: str, split: Split, settings: Mapping[str, Any]) -> Target:
        try:
            return DEVICES.target(device, settings)
        except NoDriverError as error:
            slot = next(slot for slot, p in split.pointers if p.device == device)
            raise NoDriverError(
                f"{self.__name__}: parameter {self.slot_names(split)[slot]!r} is on {device}, but {error}; pass a "
                "tensor in the CPU's memory: x.cpu()") from None

    def _finished(self, entry: Entry, facts: Facts, values: Sequence[Any], split: Split,
                  device: str) -> CompiledKernel:
        with self._lock:
            if facts not in entry.kernels:
                entry.kernels[facts] = self._made(entry, facts, values, split, device)
            return entry.kernels[facts]

    def _made(self, entry: Entry, facts: Facts, values: Sequence[Any], split: Split, device: str) -> CompiledKernel:
        build = entry.build
        code = build.code(*facts, dump=stage_writer(self.__name__, self.settings()))
        with HOOKS.loading(code.name, code.binary):
            return CompiledKernel(code, build.target, build.options, self.specializer, split.atoms, facts,
                                  entry.written, self._kernel_name(split, values), device)

    def _kernel_name(self, split: Split, values: Sequence[Any]) -> str:
        if self._repr is None:
            return self.__name__
        constants = {rule.name: value for rule, atom, value in
                     zip(self.specializer.rules, split.atoms, values, strict=True) if atom[0] == "="}
        signature = self.specializer.signature(split.atoms, values, False, False)
        return str(self._repr(Specialization(self.__name__, constants, signature)))


def _options_key(given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((name, *(typed(tuple(sorted(value.items()))) if isinstance(value, dict) else typed(value)))
                 for name, value in given.items())


def _code_key(overridden: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((name, value) for name, value in sorted(overridden.items()) if knobs.TABLE[name].affects_code)
