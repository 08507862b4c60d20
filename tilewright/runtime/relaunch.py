"""`compiled[grid](*all_arguments)`: launches of one compiled kernel, without asking which kernel fits.

Programs that keep what a launch gives back (a cache of their own, as flag-gems has) launch in this way alone, so it has
a native launcher as `kernel[grid]` has, in whose tables this kernel stands and no other.  What native code does not
know comes here: arguments that fit are learnt, others are errors that say what the kernel was compiled for.
Before: a kernel in memory.  Nothing here keeps the kernel alive; what is bound does.
Tests: tests/runtime/test_relaunch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.analysis.written import Written
from tilewright.diagnostics import cut_own_frames
from tilewright.frontend.dependencies import Dependencies
from tilewright.language.function import Param
from tilewright.locks import ForkSafeLock
from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.grid import ANSWERED, normalise
from tilewright.runtime.hooks import HOOKS, LazyDict
from tilewright.runtime.launch import check_writable, device_of, facts_of
from tilewright.runtime.native_launch import NativeLauncher, is_possible
from tilewright.runtime.specialize import Atom, Specializer, Split

if TYPE_CHECKING:
    from tilewright.runtime.launch import CompiledKernel, Facts


class _Known(NamedTuple):
    """What native code asks of a specialisation: here the code is what it is, whatever its globals are now."""

    guards: Dependencies
    written: Written


class Relauncher:
    """Launches one compiled kernel with the arguments that it was compiled for."""

    def __init__(self, specializer: Specializer, atoms: Sequence[Atom]) -> None:
        self._specializer = specializer
        self._atoms = atoms
        self._names = specializer.slot_names(atoms)
        self._native: NativeLauncher | None = None
        self._is_used_again = False
        self._lock = ForkSafeLock()
        self._known: _Known | None = None

    def bind(self, kernel: CompiledKernel, grid: Any) -> Callable[..., CompiledKernel]:
        """What `kernel[grid]` gives."""
        if self._native is not None and not callable(grid):
            bound: Callable[..., CompiledKernel] = self._native.bind(kernel, grid)
            return bound

        def launch(*args: Any) -> CompiledKernel:
            try:
                self.launch(kernel, grid, -1, args)
                return kernel
            except BaseException as error:
                cut_own_frames(error)
                raise

        return launch

    def launch(self, kernel: CompiledKernel, grid: Any, key: int, args: Sequence[Any]) -> None:
        """Launch in Python, and let native code do the next one like it; `key`: see `native_launch`, or -1."""
        sizes = normalise(kernel.name, grid, None, is_answer=key == ANSWERED)
        split = self._fitting(kernel, args)
        facts = self._facts(kernel, split)
        with HOOKS.launching(LazyDict({"name": kernel.name, "function": kernel, "stream": None})):
            kernel.launch(sizes, split.slots, split.pointers)
        if kernel.record and not knobs.overrides():
            self._learn(kernel, key, args, split, facts)

    def _fitting(self, kernel: CompiledKernel, args: Sequence[Any]) -> Split:
        """The arguments as the kernel gets them; an error if it was compiled for others."""
        rules = self._specializer.rules
        if len(args) != len(rules):
            raise TypeError(f"{kernel.name}: a compiled kernel takes all {len(rules)} arguments "
                            f"({', '.join(r.name for r in rules)}), not {len(args)}")
        split = self._specializer.split(args)
        for rule, have, want in zip(rules, split.atoms, self._atoms, strict=True):
            if have != want and have != _aligned(want):
                raise ValueError(f"{kernel.name}: parameter {rule.name!r} is {have}, but this kernel was compiled for "
                                 f"{want}; launch the @jit function instead")
        device = device_of(kernel.name, self._names, split.pointers)
        if split.pointers and device != kernel.device:
            raise ValueError(f"{kernel.name}: compiled for {kernel.device}, and the tensors are on {device}; launch "
                             "the @jit function instead")
        check_writable(kernel.name, self._names, split.pointers, kernel.written)
        return split

    def _facts(self, kernel: CompiledKernel, split: Split) -> Facts:
        """What holds of these tensors; an error if the kernel was compiled for less."""
        facts = facts_of(split.pointers, kernel.written)
        if (kernel.facts.disjoint and not facts.disjoint) or (facts.wide and not kernel.facts.wide):
            raise ValueError(f"{kernel.name}: these tensors overlap or are larger than those it was compiled for; "
                             "launch the @jit function instead")
        return facts

    def _learn(self, kernel: CompiledKernel, key: int, args: Sequence[Any], split: Split, facts: Facts) -> None:
        with self._lock:
            if self._native is None:
                if self._is_used_again:     # a single launch is not worth it
                    self._native = self._native_launcher()
                self._is_used_again = True
            if self._native is None:
                return
            self._native.learn_kinds(args)
            if key <= 0:
                self._native.learn_shape(len(args), ())
                return
            if self._known is None:
                self._known = _Known(Dependencies((), ()), kernel.written)
            constants = [v for v, rule in zip(args, self._specializer.rules, strict=True) if rule.is_constexpr]
            self._native.learn(key, len(args), (), constants, self._known, split.atoms, facts, kernel)

    def _native_launcher(self) -> NativeLauncher | None:
        """A native launcher for this kernel; None where there is none."""
        launchers = DEVICES.cpu(knobs.current()).launchers()
        rules = self._specializer.rules
        params = [Param(rule.name, k) for k, rule in enumerate(rules)]
        if launchers is None or not is_possible(params):
            return None
        native = NativeLauncher(launchers, params, rules, _launch_slowly, *knobs.overrides_variable(),
                                keeps_kernels=False)
        HOOKS.watch(native)
        return native


def _aligned(atom: Atom) -> Atom:
    """The same of a multiple of 16, which code for any number takes."""
    return atom + "D" if isinstance(atom, str) else atom


def _launch_slowly(kernel: CompiledKernel, grid: Any, key: int, /, *args: Any) -> CompiledKernel:
    """Called for what native code does not know."""
    try:
        kernel.relauncher.launch(kernel, grid, key, args)
        return kernel
    except BaseException as error:
        cut_own_frames(error)
        raise
