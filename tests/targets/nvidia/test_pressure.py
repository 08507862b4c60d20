"""How many programs of a kernel an SM should hold."""

import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import tile_ir
from tilewright.language.options import Options
from tilewright.targets.llvm.machine import FROM_PTX, Assembler, Compiler, Machine
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.pressure import counts_of_programs, fits, programs_per_sm

TARGET = NvidiaTarget(90, assemble=False)


@triton.jit
def scale(x, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0.0) * 2, mask=i < n)


@triton.jit
def carried(x, out, count, N: tl.constexpr):
    i = tl.arange(0, N)
    total, largest = tl.zeros((N,), tl.float32), tl.zeros((N,), tl.float32)
    for k in range(count):
        row = tl.load(x + k * N + i)
        total, largest = total + row, tl.maximum(largest, row)
    tl.store(out + i, total + largest)


def of(kernel, num_warps, *args, **constants):
    module = tile_ir(kernel, *args, **constants)
    return programs_per_sm(TARGET.laid_out(module, Options(num_warps=num_warps)), num_warps)


@pytest.mark.parametrize("size, warps, programs", [
    (1024, 4, 12), (4096, 4, 8), (8192, 4, 4), (8192, 8, 4), (16384, 4, 2), (32768, 4, 2), (128, 1, 32),
    (32768, 32, 1)])
def test_registers_of_tiles_limit_the_programs(size, warps, programs):
    x = np.zeros(8, np.float32)
    assert of(scale, warps, x, x, 8, N=size) == programs


def test_what_goes_round_a_loop_is_counted_together():
    x = np.zeros(8, np.float32)
    assert of(carried, 4, x, x, 8, N=1024) == 9      # 3 x 8 registers
    assert of(carried, 4, x, x, 8, N=2048) == 5      # 3 x 16


@pytest.mark.parametrize("options, wanted", [({}, ".minnctapersm 12"), ({"maxnreg": 40}, ".maxnreg 40")])
def test_the_limit_is_in_the_ptx(options, wanted):
    x = np.zeros(2048, np.float32)
    module = tile_ir(scale, x, x, 2048, N=1024)
    ptx = TARGET.compile(module, Options(**options)).texts["ptx"]
    assert re.findall(r"\.(?:minnctapersm|maxnreg) \d+", ptx) == [wanted]


@triton.jit
def normal(x, weight, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=0.0).to(tl.float32)
    v -= tl.sum(v, 0) / n
    v *= tl.rsqrt(tl.sum(v * v, 0) / n)
    tl.store(out + tl.program_id(0) * n + i, v * tl.load(weight + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("dtype, size, warps, counts", [
    (np.float32, 16384, 32, [2, 1]),        # 16 registers are held, of 32; at once there are 48
    (np.float32, 4096, 8, [4, 1]),       # as many as load 64 KiB
    (np.float32, 32768, 32, [1]), (np.float32, 1024, 4, [16, 15, 14, 12, 1]),
    (np.float16, 8192, 16, [4, 3, 2, 1]), (np.float16, 8192, 8, [4, 3, 2, 1])])
def test_programs_that_wait_are_counted_by_what_they_hold(dtype, size, warps, counts):
    x, weight = np.zeros(8, dtype), np.zeros(8, np.float32)
    module = TARGET.laid_out(tile_ir(normal, x, weight, x.copy(), 8, N=size), Options(num_warps=warps))
    assert counts_of_programs(module, warps) == counts


@triton.jit
def keeps_both(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    narrow = tl.load(x + i)
    v = narrow.to(tl.float32)
    total, most = tl.sum(v, 0), tl.max(v, 0)
    tl.store(out + i, (total / v + most).to(narrow.dtype))


@pytest.mark.parametrize("dtype, has_room", [(np.float16, True), (np.float32, False)])
def test_a_widened_tile_is_counted_as_the_narrow_one(dtype, has_room):
    """64 halves are 32 registers, of 64."""
    x = np.zeros(8, dtype)
    module = TARGET.laid_out(tile_ir(keeps_both, x, x.copy(), N=1 << 16), Options(num_warps=32))
    assert fits(module, 32) == has_room


@triton.jit
def many_numbers(x, out, N: tl.constexpr):
    """Each element needs far more registers than its tiles say."""
    i = tl.arange(0, N)
    v = tl.load(x + i)
    a, b = v.to(tl.float64), v.to(tl.float64)
    for k in tl.static_range(12):
        a, b = tl.exp(a) * tl.sin(b + k), tl.log(b) + tl.cos(a * k)
    tl.store(out + i, (a + b).to(tl.float32))


def test_what_spills_is_assembled_again_without_the_limit():
    target = NvidiaTarget(90)
    if target.assembler is None:
        pytest.skip("no assembler on this machine")
    x = np.zeros(1024, np.float32)
    module = tile_ir(many_numbers, x, x, N=1024)
    code = target.compile(module, Options())
    assert code.metadata["spill_bytes"] == 0 or ".minnctapersm 1\n" in code.texts["ptx"]


class Spills(Compiler):
    """Whatever it is asked, the code spills, at so many registers."""

    def __init__(self, registers):
        self.log = f"Used {registers} registers, 8 bytes spill stores".encode()
        self.asked = 0

    def host(self):
        return Machine("x", "y", "")

    def products(self, request, name, meanwhile=None):
        self.asked += 1
        made = [b"cubin", self.log, b"nothing"]
        return made if request.output == FROM_PTX else [b"ptx", *made]

    def prepare(self):
        pass


@pytest.mark.parametrize("registers, warps, times", [(80, 4, 2), (255, 4, 1), (254, 4, 2), (64, 32, 1)])
def test_code_is_assembled_again_only_where_it_can_have_more_registers(registers, warps, times, monkeypatch):
    compiler = Spills(registers)
    target = NvidiaTarget(90, compiler)
    monkeypatch.setattr(NvidiaTarget, "assembler", Assembler("library"))
    x = np.zeros(8, np.float32)
    target.compile(tile_ir(scale, x, x, 8, N=128 * warps), Options(num_warps=warps))
    assert compiler.asked == times


@pytest.mark.parametrize("programs, times", [((2, 1), 1), ((4, 2, 1), 2), ((4, 3, 1), 3)])
def test_fewer_programs_that_leave_a_thread_no_more_registers_are_not_tried(programs, times, monkeypatch):
    """Four warps can have 255 registers with two programs as with one."""
    compiler = Spills(120)
    target = NvidiaTarget(90, compiler)
    monkeypatch.setattr(NvidiaTarget, "assembler", Assembler("library"))
    target._made(f'"nvvm.minctasm"="{programs[0]}"', programs, "kernel", Options(num_warps=4))
    assert compiler.asked == times
