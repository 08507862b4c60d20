"""How many programs of a kernel an SM should hold."""

import pickle
import re

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import launch_code, tile_ir
from tests.targets.nvidia.test_matrix import attention, product
from tilewright.diagnostics import CompilationError, OutOfResources, PTXASError
from tilewright.language.options import Options
from tilewright.targets.llvm.machine import FROM_PTX, Assembler, Compiler, Machine, refused_by_assembler
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.assemble import find_assembler
from tilewright.targets.nvidia.pressure import counts_of_programs, fits, programs_per_sm

TARGET = NvidiaTarget(90, assemble=False)
needs_assembler = pytest.mark.skipif(find_assembler() is None, reason="no ptxas or nvJitLink on this machine")


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
    return programs_per_sm(TARGET.laid_out(module, Options(num_warps=num_warps)), num_warps, TARGET.capability)


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
    assert counts_of_programs(module, warps, TARGET.capability) == counts


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


# --- what products of warpgroups need

SINGLE_PRODUCTS = [(64, 32, 32, 4), (64, 64, 64, 4), (64, 64, 64, 8), (128, 64, 64, 16), (64, 128, 64, 16),
                   (128, 128, 64, 32), (256, 32, 32, 8), (128, 32, 64, 4), (256, 32, 32, 4)]


def product_arguments(M, N, K, dtype=np.float16):
    return np.zeros((M, K), dtype), np.zeros((K, N), dtype), np.zeros((M, N), np.float32)


@needs_assembler
@pytest.mark.parametrize("M, N, K, warps", SINGLE_PRODUCTS)
def test_products_of_warpgroups_get_the_registers_that_they_need(M, N, K, warps):
    """With fewer ptxas refuses them (C7602), or makes one wait for the other (C7512)."""
    code = launch_code(product, product_arguments(M, N, K), {"M": M, "N": N, "K": K, "num_warps": warps},
                       NvidiaTarget(90))
    assert "wgmma" in code.texts["ptx"]
    assert (code.metadata["spill_bytes"], code.metadata["advisories"]) == (0, [])


@pytest.mark.parametrize("M, N, K, warps, programs", [
    (64, 32, 32, 4, 10),        # 16 sums and 26: 48 as they are given out, of 65536 / 128
    (64, 64, 64, 8, 5), (64, 64, 64, 4, 8), (256, 32, 32, 8, 4)])
def test_so_many_programs_leave_a_product_its_registers(M, N, K, warps, programs):
    module = TARGET.laid_out(tile_ir(product, *product_arguments(M, N, K), M=M, N=N, K=K), Options(num_warps=warps))
    assert counts_of_programs(module, warps, TARGET.capability)[0] == programs
    elsewhere = NvidiaTarget(80, assemble=False)
    module = elsewhere.laid_out(tile_ir(product, *product_arguments(M, N, K), M=M, N=N, K=K), Options(num_warps=warps))
    assert counts_of_programs(module, warps, elsewhere.capability)[0] >= programs      # no warpgroups there


@needs_assembler
@pytest.mark.parametrize("M, N, D, warps", [(64, 32, 64, 4), (64, 64, 32, 4), (128, 32, 64, 8), (64, 128, 32, 8)])
def test_products_of_rows_in_registers_get_these_as_well(M, N, D, warps):
    q, out = np.zeros((M, D), np.float16), np.zeros((M, D), np.float32)
    k, v = np.zeros((N, D), np.float16), np.zeros((N, D), np.float16)
    code = launch_code(attention, (q, k, v, out), {"M": M, "N": N, "D": D, "num_warps": warps}, NvidiaTarget(90))
    assert (code.metadata["spill_bytes"], code.metadata["advisories"]) == (0, [])


# --- what an SM holds besides registers


@pytest.mark.parametrize("number, warps, programs", [
    (80, 1, 32), (80, 4, 16), (80, 32, 2), (86, 1, 16), (86, 4, 12), (86, 32, 1), (89, 1, 24), (120, 1, 24),
    (120, 2, 24), (120, 4, 12), (120, 16, 3), (120, 32, 1)])
def test_no_more_programs_are_asked_for_than_an_sm_holds(number, warps, programs):
    """Else ptxas says "out of range" and ignores it, whatever the registers: a thread then gets 32, or spills."""
    target = NvidiaTarget(number)
    x, weight = np.zeros(8, np.float32), np.zeros(8, np.float32)
    code = launch_code(normal, (x, weight, x.copy(), 8), {"N": 32 * warps, "num_warps": warps}, target)
    assert f".minnctapersm {programs}\n" in code.texts["ptx"]


# --- what an assembler refuses for want of registers

WANTS_28 = ("ptxas fatal   : (C7602) Insufficient registers (24) to compile instruction at line 127 in function k. "
            "Try to compile with register target of 28 or higher.\nptxas fatal   : Ptx assembly aborted\n")
WANTS_MORE = ("ptxas fatal   : Register allocation failed with register count of '24'. Compile the program with a "
              "higher register target\n")


class Refuses(Spills):
    """It refuses the code in these words until so few programs shall fit on an SM, and then has nothing to say."""

    def __init__(self, log, until=0):
        super().__init__(registers=40)
        self.log, self.refusal, self.until = b"Used 40 registers", log, until

    def products(self, request, name, meanwhile=None):
        made = super().products(request, name, meanwhile)
        if meanwhile is not None:
            meanwhile()
        programs = re.search(r"minnctapersm (\d+)|minctasm\"=\"(\d+)", request.text)
        if programs is None or int(programs[1] or programs[2]) > self.until:
            raise refused_by_assembler(name, self.refusal)
        return made


def refused(monkeypatch, log, until, **options):
    monkeypatch.setattr(NvidiaTarget, "assembler", Assembler("library"))
    compiler = Refuses(log, until)
    x = np.zeros(8, np.float32)
    code = NvidiaTarget(90, compiler).compile(tile_ir(scale, x, x, 8, N=1024), Options(**options))
    return code, compiler.asked


@pytest.mark.parametrize("log", [WANTS_28, WANTS_MORE])
@pytest.mark.parametrize("until", [1, 2])
def test_what_is_refused_for_want_of_registers_is_assembled_again_with_fewer_programs(log, until, monkeypatch):
    code, asked = refused(monkeypatch, log, until)       # 12, 1
    assert asked == 2 and ".minnctapersm 1\n" in code.texts["ptx"] and "laid-out" in code.texts


def test_programs_that_leave_too_few_registers_are_passed_over(monkeypatch):
    """What is asked for is known from the refusal: 128 registers are those of 4 programs of 4 warps, not of 7 or 6."""
    monkeypatch.setattr(NvidiaTarget, "assembler", Assembler("library"))
    compiler = Refuses(WANTS_28.replace("28", "128"), until=4)
    target = NvidiaTarget(90, compiler)
    target._made('"nvvm.minctasm"="7"', (7, 6, 4, 1), "kernel", Options(num_warps=4))
    assert compiler.asked == 2


@pytest.mark.parametrize("options, text", [
    ({"maxnreg": 24}, "registers, Required: 28, Hardware limit: 24.*scale.*maxnreg=24.*maxnreg=28"),
    ({"num_warps": 32}, "registers, Required: 65, Hardware limit: 64.*scale.*num_warps=32.*fewer warps")])
def test_registers_that_are_too_few_are_told(options, text, monkeypatch):
    log = WANTS_28 if "maxnreg" in options else WANTS_MORE
    with pytest.raises(OutOfResources, match=text) as caught:
        refused(monkeypatch, log, 0, **options)
    assert caught.value.name == "registers"


def test_other_refusals_are_faults(monkeypatch):
    with pytest.raises(CompilationError, match="ptxas refuses the code of scale: line 8; error: Unknown symbol"):
        refused(monkeypatch, "line 8; error: Unknown symbol 'register'", 0)


@needs_assembler
@pytest.mark.parametrize("library", [False, True])
def test_assemblers_say_what_they_need(library, monkeypatch):
    found = find_assembler()
    if not (found.library if library else found.ptxas):
        pytest.skip("no such assembler")
    target = NvidiaTarget(90)
    monkeypatch.setattr(NvidiaTarget, "assembler",
                        Assembler(found.library if library else "", "" if library else found.ptxas))
    options = {"M": 64, "N": 16, "K": 32, "num_warps": 4, "maxnreg": 24}
    with pytest.raises(OutOfResources, match="Hardware limit: 24.*maxnreg=24"):
        launch_code(product, product_arguments(64, 16, 32), options, target)


def test_what_the_assembler_refuses_is_an_error_of_tritons_class_and_of_the_kernel():
    error = refused_by_assembler("kernel", "ptxas fatal   : no such register\n")
    assert isinstance(error, PTXASError) and isinstance(error, CompilationError)
    for seen in (error, pickle.loads(pickle.dumps(error))):
        assert str(seen) == "ptxas refuses the code of kernel: ptxas fatal   : no such register"
        assert seen.log.strip() in seen.error_message
