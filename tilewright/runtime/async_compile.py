"""Compiling several kernels at once: what `kernel.warmup(...)` does inside of `with AsyncCompileMode(executor):`.

Each warm-up hands its compilation to the executor, of threads, and gives a `FutureKernel`.  The frontend of all of them
shares Python's lock; LLVM, most of the time, runs in compile children of which each thread has one of its own.
Semantics of triton 3.9.  Tests: tests/runtime/test_async_compile.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar, Token, copy_context
from typing import TYPE_CHECKING, Any

from tilewright.diagnostics import TritonError, cut_own_frames

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future  # loads much, and is loaded where there is an executor

active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("tilewright_async_compile", default=None)


class FutureKernel:
    """A kernel that is being compiled; `result()` waits for it."""

    def __init__(self, finalize_compile: Callable[[Any], object], cleanup_compile: Callable[[], object],
                 future: Future[Any]) -> None:
        """`finalize_compile(kernel)` is called once with what `future` gives, `cleanup_compile()` where it fails."""
        self.finalize_compile = finalize_compile
        self.cleanup_compile = cleanup_compile
        self.future = future
        self.kernel: Any = None

    def result(self, ignore_errors: bool = False) -> Any:
        """The compiled kernel; the error of its compilation, or None for that with `ignore_errors`."""
        if self.kernel is not None:
            return self.kernel
        try:
            kernel = self.future.result()
        except Exception as error:
            self.cleanup_compile()
            if ignore_errors:
                return None
            if isinstance(error, TritonError):
                error.__traceback__ = None      # frames of the thread
            cut_own_frames(error)
            raise
        self.finalize_compile(kernel)
        self.kernel = kernel
        return kernel


class AsyncCompileMode:
    """`with AsyncCompileMode(executor):` warm-ups compile in `executor`; at the end of the block all are waited for.

    The first error is raised there, unless `ignore_errors`, or the block ends by an error of its own.  RuntimeError for
    a mode inside of a mode, TypeError for an executor of processes, which cannot be handed a kernel.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        if type(executor).__name__ == "ProcessPoolExecutor":
            raise TypeError("AsyncCompileMode takes an executor of threads, such as ThreadPoolExecutor(): LLVM runs in "
                            "processes of its own in any case")
        self.executor = executor
        self.ignore_errors = ignore_errors
        self.raw_futures: list[Future[Any]] = []
        self.future_kernels: dict[Hashable, FutureKernel] = {}
        self._token: Token[AsyncCompileMode | None] | None = None

    def submit(self, key: Hashable, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], object],
               cleanup_fn: Callable[[], object] = lambda: None) -> FutureKernel:
        """The kernel of `key`, which `compile_fn()` makes in the executor if it is not being made already."""
        known = self.future_kernels.get(key)
        if known is not None:
            return known
        future = self.executor.submit(copy_context().run, compile_fn)       # knobs are overridden by context
        self.raw_futures.append(future)
        made = self.future_kernels[key] = FutureKernel(finalize_fn, cleanup_fn, future)
        return made

    def __enter__(self) -> AsyncCompileMode:
        if active_mode.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active; end its block first")
        self._token = active_mode.set(self)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        assert self._token is not None
        active_mode.reset(self._token)
        failed: Exception | None = None
        for kernel in self.future_kernels.values():
            try:
                kernel.result(self.ignore_errors or error is not None)
            except Exception as raised:
                failed = failed or raised
        if failed is not None:
            try:
                raise failed
            except Exception:
                cut_own_frames(failed)
                raise
