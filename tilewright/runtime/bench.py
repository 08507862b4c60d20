"""Timing of calls: `do_bench`, `do_bench_cudagraph`.

A call is timed by CUDA events when torch is loaded and has initialised CUDA, else by the clock.  Between timed calls a
buffer larger than the last cache is written, so that no call finds its data in the cache by accident.
Tests: tests/testing/test_bench.py.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.imported import imported

CACHE_BYTES = 64 << 20      # on the CPU; beyond the last-level cache of common machines
_ESTIMATES = 5
_REPLAYS = 10


def do_bench(fn: Callable[[], Any], warmup: float = 25, rep: float = 100,
             grad_to_none: Iterable[Any] | None = None, quantiles: Sequence[float] | None = None,
             return_mode: str = "mean") -> Any:
    """How long `fn()` takes, in milliseconds.

    `warmup` and `rep` are milliseconds for warming up and for timing; `grad_to_none` are torch tensors whose `.grad`
    is dropped before each call.  With `quantiles` a list of those is returned (or one number for one), else what
    `return_mode` says: min, max, mean, median, or all (a list of every time).
    """
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ValueError(f"return_mode is min, max, mean, median or all, not {return_mode!r}")
    grads = None if grad_to_none is None else list(grad_to_none)
    torch = _torch_with_cuda()
    if torch is not None:
        return summarise(_times_on_cuda(torch, fn, lambda: _drop_grads(grads), warmup, rep), quantiles, return_mode)
    cache = np.zeros(CACHE_BYTES, np.int8)

    def prepare() -> None:
        _drop_grads(grads)
        cache.fill(0)

    return summarise(times_of(fn, prepare, warmup, rep), quantiles, return_mode)


def do_bench_cudagraph(fn: Callable[[], Any], rep: float = 20, grad_to_none: Iterable[Any] | None = None,
                       quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """How long `fn()` takes on a GPU without the time of launching it, in milliseconds: replays of a CUDA graph.

    `rep` is milliseconds; the rest is as for `do_bench`, which is what times `fn` where no GPU is in use.
    """
    torch = _torch_with_cuda()
    if torch is None:
        return do_bench(fn, rep / 4, rep, grad_to_none, quantiles, return_mode)
    grads = None if grad_to_none is None else list(grad_to_none)
    return summarise(_times_of_graphs(torch, fn, rep, grads), quantiles, return_mode)


def _times_of_graphs(torch: Any, fn: Callable[[], Any], rep: float, grads: Sequence[Any] | None) -> list[float]:
    """The time of one call in each of ten replays of a graph that holds as many calls as take `rep` together."""
    def call() -> None:
        _drop_grads(grads)
        fn()

    def replayed(graph: Any) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    def captured(count: int) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        torch.cuda.synchronize()
        return graph

    with torch.cuda.stream(torch.cuda.Stream()):
        call()                              # compiles, which a capture may not
        torch.cuda.synchronize()
        few = captured(_ESTIMATES)
        replayed(few)
        estimate = max(replayed(few) / _ESTIMATES, 1e-4)
        count = max(1, math.floor(rep / estimate / _REPLAYS))
        graph = captured(count)
        return [replayed(graph) / count for _ in range(_REPLAYS)]


def _torch_with_cuda() -> Any:
    """torch, if the user has loaded it and it works with CUDA already; nothing is initialised here."""
    torch = imported("torch")
    return torch if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized() else None


def _counts(estimate_ms: float, warmup: float, rep: float) -> tuple[int, int]:
    estimate_ms = max(estimate_ms, 1e-4)
    return math.floor(warmup / estimate_ms), max(1, math.floor(rep / estimate_ms))


def _drop_grads(tensors: Iterable[Any] | None) -> None:
    for tensor in tensors or ():
        tensor.grad = None


def times_of(fn: Callable[[], Any], prepare: Callable[[], Any], warmup: float, rep: float) -> list[float]:
    """Milliseconds of each timed call of `fn`; `prepare` is called before every call, outside of the timing.

    `warmup` and `rep` include it, however: preparing may take a thousand times as long as a small kernel, and whoever
    asks for 100 ms does not want to wait for minutes.
    """
    def prepared() -> None:
        prepare()
        fn()

    prepared()
    spent = sum(_timed(prepared) for _ in range(_ESTIMATES))
    n_warmup, n_rep = _counts(spent / _ESTIMATES, warmup, rep)
    for _ in range(n_warmup):
        prepared()
    times = []
    for _ in range(n_rep):
        prepare()
        times.append(_timed(fn))
    return times


def prepared_times(fn: Callable[[], Any], prepare: Callable[[], Any], warmup: float, rep: float,
                   on_gpu: bool) -> list[float]:
    """`times_of`, by CUDA events where `fn` launches on a GPU and torch is there to make them."""
    torch = _torch_with_cuda() if on_gpu else None
    return times_of(fn, prepare, warmup, rep) if torch is None else _times_on_cuda(torch, fn, prepare, warmup, rep)


def _timed(fn: Callable[[], Any]) -> float:
    start = time.perf_counter()
    fn()
    return (time.perf_counter() - start) * 1e3


def _times_on_cuda(torch: Any, fn: Callable[[], Any], prepare: Callable[[], Any], warmup: float,
                   rep: float) -> list[float]:
    """Times between two events around each call; `prepare` goes on the stream before the first of them."""
    cache = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def event() -> Any:
        return torch.cuda.Event(enable_timing=True)

    prepare()
    fn()
    first, last = event(), event()
    first.record()
    for _ in range(_ESTIMATES):
        prepare()
        cache.zero_()
        fn()
    last.record()
    torch.cuda.synchronize()
    n_warmup, n_rep = _counts(first.elapsed_time(last) / _ESTIMATES, warmup, rep)
    for _ in range(n_warmup):
        prepare()
        fn()
    pairs = [(event(), event()) for _ in range(n_rep)]
    for start, end in pairs:
        prepare()
        cache.zero_()
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


def summarise(times: Sequence[float], quantiles: Sequence[float] | None, return_mode: str) -> Any:
    """Times as the caller wants them."""
    if quantiles is not None:
        found = [float(q) for q in np.quantile(times, quantiles)]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return list(times)
    if return_mode in ("min", "max"):
        return min(times) if return_mode == "min" else max(times)
    return statistics.fmean(times) if return_mode == "mean" else statistics.median(times)
