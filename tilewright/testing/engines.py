"""Launching one kernel on each engine, for tests: compiled for the CPU, eager, batched.

`launch(engine, kernel, grid, *args, **kwargs)` does what `kernel[grid](*args, **kwargs)` does.  The batched interpreter
runs the module as the frontend made it or, as `batched-passes`, as the standard passes left it.
Tests: tests/testing/test_engines.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.interpret import batched
from tilewright.interpret.memory import Memory
from tilewright.lowering import lower
from tilewright.passes import standard
from tilewright.passes.manager import run_passes
from tilewright.runtime import knobs
from tilewright.runtime.checked import number
from tilewright.runtime.grid import normalise
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.launch import check_on_host, check_writable, facts_of

ENGINES = ("cpu", "eager", "batched", "batched-passes")
ON_MACHINE = "ptx"      # slower, so tests run a sample on it (tests/conftest.py)


def launch(engine: str, kernel: JITFunction, grid: Any, *args: Any, **kwargs: Any) -> None:
    """Launch `kernel` on one of `ENGINES`, or `checked`: in checked mode, `ptx`: code for a GPU on the
    PTX machine, `cuda`: on a GPU, with copies."""
    if engine == "cpu":
        with knobs.scope(interpret=False, check=False):
            kernel[grid](*args, **kwargs)
    elif engine == "eager":
        with knobs.scope(interpret=True, check=False):
            kernel[grid](*args, **kwargs)
    elif engine in ("batched", "batched-passes"):
        run_batched(kernel, grid, args, kwargs, with_passes=engine == "batched-passes")
    elif engine == ON_MACHINE:
        from tilewright.testing import ptx_machine
        ptx_machine.run(kernel, grid, args, kwargs)
    elif engine == "cuda":
        from tilewright.testing import on_gpu
        on_gpu.run(kernel, grid, args, kwargs)
    elif engine == "checked":
        with knobs.scope(check=True):
            kernel[grid](*args, **kwargs)
    else:
        raise ValueError(f"no engine {engine!r}; there are {', '.join(ENGINES)}")


def run_batched(kernel: JITFunction, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
                with_passes: bool = False, write: Callable[[str], object] | None = None, wide: bool = False) -> None:
    """Launch on the batched interpreter; `write` receives what the kernel prints, `wide` as if some tensor were."""
    values, given = kernel.bind(args, kwargs)
    split = kernel.specializer.split(values)
    sizes = normalise(kernel.__name__, grid, dict(zip(kernel.arg_names, values, strict=True)))
    names = kernel.slot_names(split)
    check_on_host(kernel.__name__, names, split.pointers)
    signature = kernel.specializer.signature(split.atoms, values, False, False)
    lowered = lower(kernel, signature, kernel.options(given), check=2)
    check_writable(kernel.__name__, names, split.pointers, lowered.written)
    facts = facts_of(split.pointers, lowered.written)
    module = lowered.with_facts(facts.disjoint, facts.wide or wide).module
    if with_passes:
        module = run_passes(module, standard(lowered.options.enable_fp_fusion), check=2)
    numbers = [number(slot, v.type) for slot, v in zip(split.slots, module.entry.params, strict=True)]
    memory = Memory([p.extent(names[slot]) for slot, p in split.pointers], keep=args)
    batched.run(module, sizes, numbers, memory, write=write)
