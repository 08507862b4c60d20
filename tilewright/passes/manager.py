"""Pass records, and running a list of them.

A pass is a frozen record: a name, a pure function `Module -> Module`, the passes that must come before it where both
are in a list, and one sentence that says why.  Before and after each pass the module obeys `ir.verify`.
Tests: tests/passes/test_manager.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.diagnostics import InternalError
from tilewright.ir.node import Module
from tilewright.ir.ops.table import Stage
from tilewright.ir.verify import VerifyError, verify

# What `run_passes` calls with a pass's name and the module before or after it.
Dump = Callable[[str, Module], None]


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass.  `after` names passes that come earlier in every list that has them; `why` gives the reason."""

    name: str
    run: Callable[[Module], Module]
    after: tuple[str, ...] = ()
    why: str = ""
    stage: Stage = Stage.TILE      # the stage of the module that it returns


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a pass took, verification apart, and whether it changed the module."""

    name: str
    seconds: float
    changed: bool


def run_passes(module: Module, passes: Sequence[Pass], *, check: int = 0, before: Dump | None = None,
               dump: Dump | None = None, stop_after: str | None = None,
               timings: list[Timing] | None = None) -> Module:
    """`module` after all of `passes`, or up to and with the first called `stop_after`.

    `check` 0 verifies nothing, 1 the last module, 2 the module after each pass that changed it (and the first).
    `before` and `dump` are called before and after each pass; `timings` gets a line for each.
    """
    if stop_after is not None and stop_after not in {p.name for p in passes}:
        raise ValueError(f"no pass is called {stop_after!r}; there are {', '.join(p.name for p in passes)}")
    stage = Stage.TILE
    if check >= 2:
        _verify(module, stage, "before the first pass")
    for step in passes:
        if before is not None:
            before(step.name, module)
        start = time.perf_counter()
        after = step.run(module)
        if timings is not None:
            timings.append(Timing(step.name, time.perf_counter() - start, after is not module))
        stage = step.stage
        if check >= 2 and after is not module:
            _verify(after, stage, f"after pass {step.name}")
        module = after
        if dump is not None:
            dump(step.name, module)
        if step.name == stop_after:
            break
    if check == 1:
        _verify(module, stage, "after the passes")
    return module


def verify_tile_ir(module: Module, when: str) -> None:
    """`InternalError` if `module` is no tile IR; `when` is part of its text."""
    _verify(module, Stage.TILE, when)


def _verify(module: Module, stage: Stage, when: str) -> None:
    try:
        verify(module, stage)
    except VerifyError as error:
        raise InternalError(f"{when}: {error}") from error


def order_faults(passes: Sequence[Pass]) -> list[str]:
    """What is wrong with the order of `passes`: a pass whose first place is before one that it must come after."""
    first: dict[str, int] = {}
    for index, step in enumerate(passes):
        first.setdefault(step.name, index)
    return [f"{step.name} stands before {earlier}: {step.why}"
            for step in passes for earlier in step.after
            if earlier in first and first[earlier] > first[step.name]]
