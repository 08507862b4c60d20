"""A process that may not use AMX compiles for a machine without it, and finds nothing that was made for one."""

import dataclasses
import os
import subprocess
import sys

import pytest

from tests.targets.cpu.harness import BF16, F32, Options, target
from tests.targets.cpu.test_dot import product
from tests.targets.cpu.test_tiles import MACHINE, needs_tiles
from tests.targets.cpu_host.kernels import KINDS, make
from tilewright.diagnostics import NotOnThisTargetError
from tilewright.targets.cpu.host import tile_permission
from tilewright.targets.cpu.host.tile_permission import permitted, without_tiles
from tilewright.targets.cpu.target import CpuTarget


def test_without_it_the_machine_is_another_one(monkeypatch):
    monkeypatch.setattr(tile_permission, "may_use_tiles", lambda: False)
    here = permitted(MACHINE)
    assert MACHINE.isa.tiles and not here.isa.tiles
    assert here.isa == dataclasses.replace(MACHINE.isa, tiles=False)
    assert CpuTarget(here).key() != CpuTarget(MACHINE).key()
    assert permitted(here) == here == without_tiles(MACHINE)


def test_nobody_is_asked_for_a_machine_without_tiles(monkeypatch):
    monkeypatch.setattr(tile_permission, "may_use_tiles", lambda: pytest.fail("asked"))
    machine = without_tiles(MACHINE)
    assert permitted(machine) is machine


@pytest.mark.parametrize("kind", KINDS)
def test_code_for_tiles_is_not_loaded_without_it(monkeypatch, kind):
    code = CpuTarget(MACHINE).compile(product(16, 16, 32, BF16, F32), Options())
    monkeypatch.setattr(tile_permission, "may_use_tiles", lambda: False)
    with pytest.raises(NotOnThisTargetError, match="compiled for a machine with AMX"):
        make(kind, 1).load(code)


SMALL_STACK = """
import ctypes, sys
class Stack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(4096)
stack = Stack(ctypes.addressof(memory), 0, 4096)
if ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None):
    sys.exit("no such stack")
"""
PRODUCT = """
import os
import numpy as np
import tilewright, tilewright.language as tl
@tilewright.jit
def kernel(x, y, o):
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    tl.store(o + at, tl.dot(tl.load(x + at), tl.load(y + at)))
x, y, o = np.full((64, 64), 3, np.int8), np.full((64, 64), -5, np.int8), np.zeros((64, 64), np.int32)
if FORKS:
    kernel[(1,)](x, y, o)
    if os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
text = kernel[(1,)](x, y, o).asm["asm"]
assert (o == -15 * 64).all()
print("tdpbssd" in text)
"""


def run(text, tmp_path):
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache"), "TILEWRIGHT_CPU": ""}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_tiles
def test_a_signal_stack_that_is_too_small(tmp_path):
    """Linux refuses then, if it lets there be such a stack; the code in the cache that other processes use stays."""
    plain = PRODUCT.replace("FORKS", "False")
    assert run("import sys" + plain, tmp_path) == ["True"]
    assert run(SMALL_STACK + plain, tmp_path) == ["False"]
    assert run("import sys" + plain, tmp_path) == ["True"]


@needs_tiles
def test_a_forked_process_may_use_them(tmp_path):
    assert run("import sys" + PRODUCT.replace("FORKS", "True"), tmp_path) == ["True"]


@needs_tiles
def test_faulthandler_beside_it(tmp_path):
    """Its signal stack is large enough, whoever comes first."""
    plain = PRODUCT.replace("FORKS", "False")
    assert run("import sys, faulthandler\nfaulthandler.enable()" + plain, tmp_path) == ["True"]
    assert run("import sys, faulthandler" + plain + "faulthandler.enable()\n", tmp_path) == ["True"]


@needs_tiles
def test_the_host_was_asked():
    assert target().machine.isa.tiles and tile_permission.may_use_tiles()
