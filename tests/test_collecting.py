"""The garbage collector rests while something is compiled, and works as before afterwards."""

import gc
import os
import threading

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.collecting import COLLECTOR_RESTS
from tilewright.language.options import Options, RuntimeArg, Signature
from tilewright.language.types import float32, pointer_type
from tilewright.lowering import finish, lower
from tilewright.runtime import knobs
from tilewright.targets.llvm.machine import Compiler, Machine
from tilewright.targets.nvidia.target import NvidiaTarget


@pytest.fixture(autouse=True)
def working():
    assert gc.isenabled()
    yield
    gc.enable()


def test_rests_in_rests():
    with COLLECTOR_RESTS:
        with COLLECTOR_RESTS:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_one_that_did_not_work_does_not():
    gc.disable()
    with COLLECTOR_RESTS:
        pass
    assert not gc.isenabled()


def test_errors_end_it():
    with pytest.raises(ValueError, match="x"), COLLECTOR_RESTS:
        raise ValueError("x")
    assert gc.isenabled()


def test_it_works_again_when_the_last_thread_is_through():
    first, second = threading.Event(), threading.Event()

    def other():
        with COLLECTOR_RESTS:
            first.set()
            second.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    first.wait(30)
    with COLLECTOR_RESTS:
        pass
    assert not gc.isenabled()
    second.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_collects():
    with COLLECTOR_RESTS:
        pid = os.fork()
        if not pid:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitpid(pid, 0)[1] == 0 and not gc.isenabled()


def test_while_it_lowers(monkeypatch):
    seen = []

    @triton.constexpr_function
    def look():
        seen.append(gc.isenabled())
        return 1

    @triton.jit
    def kernel(x):
        tl.store(x, tl.full((), look(), tl.float32))

    lower(kernel, Signature({"x": RuntimeArg(pointer_type(float32), 16)}), Options())
    with knobs.scope(disk_cache=False):
        x = np.zeros(1, np.float32)
        kernel[(1,)](x)
    assert seen and not any(seen) and gc.isenabled() and x[0] == 1


class Waiting(Compiler):
    """Makes the same of whatever it is asked, and looks at the collector before and after what is done meanwhile."""

    def __init__(self):
        self.worked = []

    def prepare(self):
        pass

    def host(self):
        return Machine("nvptx64-nvidia-cuda", "", "", "22.0")

    def products(self, request, name, meanwhile=None):
        self.worked.append(gc.isenabled())
        if meanwhile is not None:
            meanwhile()
        self.worked.append(gc.isenabled())
        return [b"ptx"]


def test_until_the_compiler_works():
    """What is made for it would be looked through on the way to it: it is alive, and in no cycle."""
    @triton.jit
    def kernel(x):
        tl.store(x, 1.0)

    compiler = Waiting()
    target = NvidiaTarget(90, compiler, assemble=False, own_ptx=False)
    lowered = lower(kernel, Signature({"x": RuntimeArg(pointer_type(float32), 16)}), Options())
    assert finish(lowered, target).texts["ptx"] == "ptx"
    assert compiler.worked == [False, True] and gc.isenabled()
