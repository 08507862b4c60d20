"""The same work in numba, as people write it there: explicit loops, fast-math where sums are to be vectors.

`FUNCTIONS` is empty where numba is not installed.  With one thread the loops are serial, with more the outer one is
parallel.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

Function = Callable[..., None]


def _made() -> Mapping[str, Function]:
    if importlib.util.find_spec("numba") is None:
        return {}
    import numba
    threads = int(os.environ.get("TILEWRIGHT_NUM_THREADS", "1"))
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    compiled = numba.njit(parallel=threads > 1, fastmath=True)
    span = numba.prange if threads > 1 else range

    @compiled
    def add(x: Any, y: Any, out: Any) -> None:
        for i in span(x.size):
            out[i] = x[i] + y[i]

    @compiled
    def affine_relu(x: Any, out: Any, scale: Any, bias: Any) -> None:
        for i in span(x.size):
            out[i] = max(x[i] * scale + bias, scale * 0)

    @compiled
    def gather(table: Any, index: Any, out: Any) -> None:
        for i in span(index.size):
            for j in range(table.shape[1]):
                out[i, j] = table[index[i], j]

    @numba.njit
    def scatter_add(x: Any, index: Any, out: Any) -> None:
        out[:] = 0
        for i in range(x.size):
            out[index[i]] += x[i]

    @compiled
    def softmax(x: Any, out: Any) -> None:
        for i in span(x.shape[0]):
            row = x[i]
            largest = row[0]
            for j in range(row.size):
                largest = max(largest, row[j])
            total = largest * 0
            for j in range(row.size):
                out[i, j] = math.exp(row[j] - largest)
                total += out[i, j]
            for j in range(row.size):
                out[i, j] /= total

    @compiled
    def layer_norm(x: Any, weight: Any, bias: Any, out: Any, eps: Any) -> None:
        for i in span(x.shape[0]):
            row = x[i]
            mean = eps * 0
            for j in range(row.size):
                mean += row[j]
            mean /= row.size
            square = eps * 0
            for j in range(row.size):
                square += (row[j] - mean) * (row[j] - mean)
            scale = 1 / math.sqrt(square / row.size + eps)
            for j in range(row.size):
                out[i, j] = (row[j] - mean) * scale * weight[j] + bias[j]

    @compiled
    def rms_norm(x: Any, weight: Any, out: Any, eps: Any) -> None:
        for i in span(x.shape[0]):
            row = x[i]
            square = eps * 0
            for j in range(row.size):
                square += row[j] * row[j]
            scale = 1 / math.sqrt(square / row.size + eps)
            for j in range(row.size):
                out[i, j] = row[j] * scale * weight[j]

    @compiled
    def row_sum(x: Any, out: Any) -> None:
        for i in span(x.shape[0]):
            total = x[i, 0] * 0
            for j in range(x.shape[1]):
                total += x[i, j]
            out[i] = total

    return {"add": add, "affine_relu": affine_relu, "gather": gather, "scatter_add": scatter_add, "softmax": softmax,
            "layer_norm": layer_norm, "rms_norm": rms_norm, "row_sum": row_sum}


FUNCTIONS = _made()


def rival(name: str, *args: Any) -> dict[str, Callable[[], None]]:
    """{"numba": a call of `FUNCTIONS[name]`} on NumPy views of torch tensors, or nothing."""
    if name not in FUNCTIONS:
        return {}
    function = FUNCTIONS[name]
    arrays = [a.numpy() if hasattr(a, "numpy") else a for a in args]
    return {"numba": lambda: function(*arrays)}
