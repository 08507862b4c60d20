"""Every integer that a module computes in the interpreter, to compare with what an analysis says of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.passes import executing
from tilewright.interpret import batched
from tilewright.ir.node import Module, Value


def observe(module: Module, seed: int, monkeypatch, see: Callable[[Value, np.ndarray], None]) -> None:
    """Run `module` and show `see` the operands and results of each op that executes."""
    original = batched.Engine.evaluate

    def evaluate(self, op, frame):
        for operand in op.operands:
            see(operand, frame.get(operand))
        results = original(self, op, frame)
        for value, array in zip(op.results, results):
            see(value, array)
        return results

    with monkeypatch.context() as patch:
        patch.setattr(batched.Engine, "evaluate", evaluate)
        executing.run_on_random_memory(module, seed)


def along(array: np.ndarray, dim: int) -> np.ndarray:
    """(rows, n): every line of a batch of tiles along `dim`; a scalar is a line of one."""
    if array.ndim == 1:
        return array[:, None]
    return np.moveaxis(array, dim + 1, -1).reshape(-1, array.shape[dim + 1])
