"""Running a module on random memory in the batched interpreter, for comparisons before and after a pass."""

from __future__ import annotations

import numpy as np

from tilewright.interpret import batched
from tilewright.interpret.memory import Memory
from tilewright.ir import fp
from tilewright.ir.node import Module
from tilewright.ir.types import Pointer, Scalar, storage_dtype

ELEMENTS = 2048      # of each array
MIDDLE = 1024        # where its pointer points, so that negative offsets are in bounds
GRID = (3, 2)


def random_array(rng: np.random.Generator, t: Scalar) -> np.ndarray:
    if t.is_float:
        # small whole numbers and quarters: most sums and products are exact, and there are equal ones
        return np.asarray(fp.encode(rng.integers(-32, 32, ELEMENTS) / 4.0, t))
    if t.bits == 1:
        return rng.integers(0, 2, ELEMENTS).astype(np.bool_)
    return rng.integers(-100, 100, ELEMENTS).astype(storage_dtype(t))


def run_on_random_memory(module: Module, seed: int) -> tuple[list[bytes], str]:
    """The contents of all arrays, and what was printed, after a run with arguments that depend on `seed` alone."""
    rng = np.random.default_rng(seed)
    arrays, args = {}, []
    for index, param in enumerate(module.entry.params):
        t = param.type
        if isinstance(t, Pointer):
            assert isinstance(t.element, Scalar)
            array = random_array(rng, t.element)
            arrays[f"{index}"] = array
            args.append(array.ctypes.data + MIDDLE * array.itemsize)
        elif t.is_float:
            args.append(float(rng.integers(-32, 32)) / 4.0)
        else:
            facts = module.entry.param_facts
            args.append(int(rng.integers(0, 2 if t.bits == 1 else 6)) * (facts[index].divisible_by if facts else 1))
    printed: list[str] = []
    batched.run(module, GRID, args, Memory.of_arrays(arrays), write=printed.append)
    return [a.tobytes() for a in arrays.values()], "".join(printed)
