"""`with AsyncCompileMode(executor)`: warm-ups compile in the executor, all at once."""

from __future__ import annotations

import threading
import traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright import AsyncCompileMode, CompilationError, FutureKernel
from tilewright.runtime import knobs
from tilewright.runtime.launch import CompiledKernel
from tilewright.tools.tensor_descriptor import TensorDescriptor


def scale_source(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def wrong_source(x, n, BLOCK: tl.constexpr):
    tl.store(x, missing)  # noqa: F821


@pytest.fixture
def scale():
    with knobs.scope(disk_cache=False):
        yield triton.jit(scale_source)


@pytest.fixture
def executor():
    with ThreadPoolExecutor(4) as made:
        yield made


@pytest.fixture
def compiled():
    """The names and compile-time values of what the process compiles."""
    seen = []

    def listen(**told):
        seen.append(told["compile"]["constants"]["BLOCK"])

    with knobs.GROUPS["runtime"].scope():
        knobs.GROUPS["runtime"].jit_post_compile_hook = listen
        yield seen


def described_source(d, BLOCK: tl.constexpr):
    d.store([0], d.load([0]) + 1)


def test_a_descriptor_is_taken_as_it_was(executor):
    """Its blocks are others when the thread comes to it."""
    begun = threading.Event()

    class Late(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            def wait():
                begun.wait(30)
                return fn(*args, **kwargs)

            return super().submit(wait)

    x = np.zeros(64, np.float32)
    d = TensorDescriptor.from_tensor(x, [16])
    with knobs.scope(disk_cache=False), Late(2) as late, AsyncCompileMode(late):
        kernel = triton.jit(described_source)
        pending = []
        for block in (16, 32):
            d.block_shape = [block]
            pending.append(kernel.warmup(d, BLOCK=block, grid=(1,)))
        d.block_shape = [64]
        begun.set()
        texts = [p.result().asm["ttir"] for p in pending]
    assert ["tile<16xf32>" in t and "tile<64xf32>" not in t for t in texts] == [True, False]
    assert "tile<32xf32>" in texts[1]


@pytest.mark.unchecked("what was compiled is looked at")
def test_warm_ups_give_what_is_being_compiled(scale, executor, compiled):
    x = np.ones(8, np.float32)
    with AsyncCompileMode(executor):
        pending = [scale.warmup(x, 8, BLOCK=b, grid=(1,)) for b in (8, 16, 8)]
        assert all(isinstance(p, FutureKernel) for p in pending) and pending[0] is pending[2] is not pending[1]
        made = pending[1].result()
        assert isinstance(made, CompiledKernel) and made is pending[1].result()
    assert sorted(compiled) == [8, 16]
    assert scale[(1,)](x, 8, BLOCK=16) is made and sorted(compiled) == [8, 16] and (x == 2).all()
    with AsyncCompileMode(executor):
        assert scale.warmup(x, 8, BLOCK=16, grid=(1,)) is made
    assert isinstance(scale.warmup(x, 8, BLOCK=32, grid=(1,)), CompiledKernel)


def test_specialisations_of_one_kernel_are_compiled_at_once(scale, executor):
    """Each waits, at its end, for the other one to come there."""
    both, threads = threading.Barrier(2, timeout=60), set()

    def listen(**_):
        both.wait()
        threads.add(threading.current_thread())

    with knobs.GROUPS["compilation"].scope():
        knobs.GROUPS["compilation"].listener = listen
        with AsyncCompileMode(executor):
            for block in (8, 16):
                scale.warmup(np.float32, 8, BLOCK=block, grid=(1,))
    assert len(threads) == 2 and threading.current_thread() not in threads


def test_launches_wait_for_themselves_only(scale, executor):
    x = np.ones(8, np.float32)
    with AsyncCompileMode(executor):
        scale.warmup(np.float32, 8, BLOCK=8, grid=(1,))
        scale[(1,)](x, 8, BLOCK=8)
        assert (x == 2).all()


def test_configs_of_a_tuner(scale, executor, compiled):
    tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (8, 16, 32)], key=["n"])(scale)
    with AsyncCompileMode(executor):
        assert [type(p) for p in tuned.warmup(np.float32, 8, grid=(1,))] == [FutureKernel] * 3
    assert sorted(compiled) == [8, 16, 32]


def test_what_counts_is_the_context_of_the_warm_up(scale, executor):
    with AsyncCompileMode(executor), knobs.scope(default_fp_fusion=True, debug=True):
        pending = scale.warmup(np.float32, 8, BLOCK=8, grid=(1,))
    assert pending.result().metadata.enable_fp_fusion and pending.result().metadata.debug


def test_errors(scale, executor):
    wrong = triton.jit(wrong_source)
    with pytest.raises(CompilationError, match="missing is not defined") as caught, AsyncCompileMode(executor):
        pending = wrong.warmup(np.float32, 8, BLOCK=8, grid=(1,))
        fine = scale.warmup(np.float32, 8, BLOCK=8, grid=(1,))
    assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} == {__file__}
    assert isinstance(fine.result(), CompiledKernel) and pending.result(ignore_errors=True) is None
    with pytest.raises(CompilationError, match="missing is not defined"):
        pending.result()
    with AsyncCompileMode(executor, ignore_errors=True):
        wrong.warmup(np.float32, 8, BLOCK=8, grid=(1,))
    with pytest.raises(KeyError, match="of the block"), AsyncCompileMode(executor):
        wrong.warmup(np.float32, 8, BLOCK=8, grid=(1,))
        raise KeyError("of the block")


def test_wrong_uses(executor):
    with AsyncCompileMode(executor), pytest.raises(RuntimeError, match="Another AsyncCompileMode is already active"):
        AsyncCompileMode(executor).__enter__()
    with AsyncCompileMode(executor):
        pass
    with ProcessPoolExecutor(1) as processes, pytest.raises(TypeError, match="takes an executor of threads"):
        AsyncCompileMode(processes)


def test_clean_up_after_a_compilation_that_failed(executor):
    seen = []
    kernel = FutureKernel(seen.append, lambda: seen.append("cleaned"), executor.submit(lambda: 1 // 0))
    with pytest.raises(ZeroDivisionError):
        kernel.result()
    assert seen == ["cleaned"]
