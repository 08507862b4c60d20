"""A launch in checked mode: `kernel[grid](..., check=True)`, or with the knob `check` (`TILEWRIGHT_CHECK=1`).

`check=["out"]` also says that nothing has written the tensor `out` yet (it was allocated by `empty`), so that reading
an element of it before the kernel has written it is an error.  Nothing is compiled; the kernel's IR runs as the
passes leave it that change results (`widen`, `contract`).  Tests: tests/check/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.frontend.dependencies import dependencies
from tilewright.interpret import sanitizer
from tilewright.interpret.footprint import View
from tilewright.interpret.sanitizer import CheckedProgram
from tilewright.ir import fp
from tilewright.ir.types import Pointer as PointerType
from tilewright.ir.types import Scalar, Type, storage_dtype
from tilewright.lowering import lower
from tilewright.passes.contract import CONTRACT
from tilewright.passes.widen import WIDEN
from tilewright.runtime.arguments import Pointer, element_of_dtype
from tilewright.runtime.descriptor import parts_of
from tilewright.runtime.grid import Grid
from tilewright.runtime.launch import Facts, check_writable, facts_of
from tilewright.runtime.specialize import Atom, Split

if TYPE_CHECKING:
    from tilewright.runtime.jit import JITFunction


def unwritten_arguments(kernel: str, check: Any, names: Sequence[str]) -> frozenset[str]:
    """The arguments that `check=` names as not written yet."""
    if check is None or isinstance(check, bool):
        return frozenset()
    if isinstance(check, str) or not all(isinstance(name, str) for name in check):
        raise TypeError(f"{kernel}: check is True, False, or a list of the parameters that nothing has written yet, "
                        f"not {check!r}")
    for name in check:
        if name not in names:
            raise ValueError(f"{kernel}: check names {name!r}, but the tensors are {', '.join(names)}")
    return frozenset(check)


class CheckedKernel:
    """The tile IR of one specialisation, kept for its next launches: what it reads beside its arguments is guarded."""

    def __init__(self, kernel: JITFunction, values: Sequence[Any], given: Mapping[str, Any], split: Split) -> None:
        signature = kernel.specializer.signature(split.atoms, values, False, False)
        self.guards = dependencies(kernel, values)
        self.lowered = lower(kernel, signature, kernel.options(given))
        self._programs: dict[Facts, CheckedProgram] = {}

    def program(self, facts: Facts) -> CheckedProgram:
        """What runs under these launch facts."""
        program = self._programs.get(facts)
        if program is None:
            module = WIDEN.run(self.lowered.with_facts(*facts).module)
            if self.lowered.options.enable_fp_fusion:
                module = CONTRACT.run(module)
            program = self._programs[facts] = CheckedProgram(module)
        return program


def launch(kernel: JITFunction, grid: Grid, values: Sequence[Any], given: Mapping[str, Any], split: Split) -> None:
    """Run all programs of `grid` on the checking interpreter."""
    names = kernel.slot_names(split)
    tensors = [names[slot] for slot, _ in split.pointers]
    unwritten = unwritten_arguments(kernel.__name__, given.get("check"), tensors)
    made = kernel.checked_kernel(values, {name: v for name, v in given.items() if name != "check"}, split)
    written = made.lowered.written
    check_writable(kernel.__name__, names, split.pointers, written)
    program = made.program(facts_of(split.pointers, written))
    numbers = [number(slot, v.type) for slot, v in zip(split.slots, program.module.entry.params, strict=True)]
    objects = [thing for atom, value in zip(split.atoms, values, strict=True) for thing in tensors_in(atom, value)]
    views = [view(p, names[slot], thing) for (slot, p), thing in zip(split.pointers, objects, strict=True)]
    sanitizer.run(program, grid, numbers, views, unwritten, keep=values, timeout_s=kernel.settings()["timeout"])


def tensors_in(atom: Atom, value: Any) -> Iterator[Any]:
    """The tensors of one bound value, in the order of their slots."""
    if isinstance(atom, str):
        if atom.startswith("*"):
            yield value
    elif atom[0] == "tuple":
        for inner, part in zip(atom[2:], parts_of(value), strict=True):
            yield from tensors_in(inner, part)


def view(pointer: Pointer, name: str, thing: Any) -> View:
    """The footprint of a tensor that the launch sees as `pointer`."""
    thing = thing if pointer.owner is None else pointer.owner
    size = element_of_dtype(thing.dtype)[1]
    shape = getattr(thing, "shape", None)
    if isinstance(thing, np.ndarray):
        strides = tuple(thing.strides)
    elif callable(getattr(thing, "stride", None)):
        strides = tuple(int(s) * size for s in thing.stride())
    else:
        shape, strides = None, ()
    return View(pointer.extent(name), None if shape is None else tuple(int(n) for n in shape), strides, size)


def number(pattern: int, kind: Type) -> Any:
    """The number that a slot's 64-bit pattern stands for, as the batched interpreter takes it."""
    if isinstance(kind, PointerType) or (isinstance(kind, Scalar) and kind.is_int):
        return pattern
    assert isinstance(kind, Scalar)
    dtype = storage_dtype(kind)
    bits = np.array([pattern & ((1 << 8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)
    return float(fp.decode(bits, kind)[0])
