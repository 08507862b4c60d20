"""What a program may ask of a GPU: what is refused before code is generated, and stages that are lowered to fit."""

import inspect
import pickle
import warnings

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import tile_ir
from tests.targets.nvidia.test_passes import add
from tests.targets.nvidia.test_pipeline import matmul
from tilewright.diagnostics import CompilationError, FewerStagesWarning, OutOfResources, SingleCtaWarning
from tilewright.ir.walk import ops_in
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget, resources
from tilewright.targets.nvidia import generate as generate_module
from tilewright.targets.nvidia.assemble import find_assembler
from tilewright.targets.nvidia.capability import capability
from tilewright.targets.nvidia.passes.staging import buffer_bytes_of
from tilewright.targets.nvidia.pressure import registers_held
from tilewright.targets.nvidia.resources import _tell_of_one_cta, stages_that_fit

TARGET = NvidiaTarget(90, assemble=False)
needs_assembler = pytest.mark.skipif(find_assembler() is None, reason="no ptxas or nvJitLink on this machine")


def vector_add():
    x = np.zeros(64, np.float32)
    return tile_ir(add, x, x.copy(), x.copy(), 64, BLOCK=64)


def product(BM=128, BN=128, BK=64, dtype=np.float16):
    a, b, c = (np.zeros((256, 256), dtype) for _ in range(3))
    return tile_ir(matmul, a, b, c, 256, 256, 256, 256, 256, 256, BM=BM, BN=BN, BK=BK)


@triton.jit
def transposes(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i[:, None] * N + i[None, :], tl.trans(tl.load(x + i[:, None] * N + i[None, :])))


def test_scratch_beyond_the_limit(monkeypatch):
    """No number of stages helps, and none is tried; nothing is generated."""
    monkeypatch.setattr(generate_module, "generate", None)
    module = tile_ir(transposes, np.zeros(1, np.float64), np.zeros(1, np.float64), N=256)
    text = ("out of resource: shared memory, Required: 524288, Hardware limit: 232448. transposes takes so much, "
            f"524288 of it where threads exchange data at test_resources.py:{line_of(transposes, 'tl.load')}; smaller "
            "blocks take less.")
    with pytest.raises(OutOfResources) as caught:
        TARGET.compile(module, Options(num_warps=8))
    assert str(caught.value) == text
    assert (caught.value.required, caught.value.limit, caught.value.name) == (524288, 227 << 10, "shared memory")


def line_of(kernel, text):
    """The line of this file in which the text of `kernel` has `text` first."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(k for k, line in enumerate(lines) if text in line)


@triton.jit
def sums_of_products(a, b, c, out, K, B: tl.constexpr, M: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, M)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        left, right = tl.load(a + i[:, None] * K + k + i[None, :]), tl.load(b + (k + i)[:, None] * B + i[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + i[:, None] * B + i[None, :], total)
    tl.store(c + j[:, None] + j[None, :] * M, tl.load(c + j[:, None] * M + j[None, :]))


@pytest.mark.parametrize("asked", [1, 3])
def test_no_number_of_stages_makes_it_fit(monkeypatch, asked):
    """Nothing is generated for any of them, and the last one tells what takes most."""
    monkeypatch.setattr(generate_module, "generate", None)
    a, b, out = np.zeros((64, 256), np.float16), np.zeros((256, 64), np.float16), np.zeros((64, 64), np.float32)
    module = tile_ir(sums_of_products, a, b, np.zeros((256, 256), np.float64), out, 256, B=64, M=256)
    with pytest.raises(OutOfResources, match="524288 of it where threads exchange data at test_resources.py") as caught:
        TARGET.compile(module, Options(num_stages=asked, num_warps=8))
    assert caught.value.required == 524288 and caught.value.name == "shared memory"


def test_text_is_generated_once(monkeypatch):
    """However many numbers of stages are tried."""
    made, generate = [], generate_module.generate

    def counted(*args, **kwargs):
        made.append(args)
        return generate(*args, **kwargs)

    monkeypatch.setattr(generate_module, "generate", counted)
    with pytest.warns(FewerStagesWarning, match="101376; it is compiled with num_stages=3"):
        NvidiaTarget(86, assemble=False).compile(product(), Options(num_stages=4))
    with pytest.warns(FewerStagesWarning, match="num_stages=8.*num_stages=7"):
        TARGET.compile(product(), Options(num_stages=8))
    assert len(made) == 2


def test_errors_survive_pickle():
    error = pickle.loads(pickle.dumps(OutOfResources(2, 1, "registers", "Do less.")))
    assert (error.required, error.limit, error.name) == (2, 1, "registers") and str(error).endswith("Do less.")
    assert "num_stages" in str(OutOfResources(2, 1, "registers"))      # as triton makes it, of three arguments


@pytest.mark.parametrize("asked, made, warns", [(3, 3, False), (7, 7, False), (8, 7, True)])
def test_stages_are_lowered_with_one_warning(asked, made, warns):
    """32 KiB a stage, of 227."""
    module = product()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        code = TARGET.compile(module, Options(num_stages=asked))
    told = [w for w in seen if issubclass(w.category, FewerStagesWarning)]
    assert len(told) == warns and code.metadata["num_stages"] == made
    assert code.metadata["shared"] <= 227 << 10
    if warns:
        assert str(told[0].message) == (
            "matmul: num_stages=8 takes 262144 bytes of shared memory, and a program may have 232448; it is compiled "
            "with num_stages=7. Give num_stages=7, or smaller blocks")


def test_an_error_instead_of_the_warning():
    """What a tuner asks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewerStagesWarning)
        with pytest.raises(FewerStagesWarning, match="num_stages=8"):
            TARGET.compile(product(), Options(num_stages=8))


def test_smaller_gpus_have_fewer_stages():
    with pytest.warns(FewerStagesWarning, match="101376; it is compiled with num_stages=3"):
        code = NvidiaTarget(86, assemble=False).compile(product(), Options(num_stages=4))
    assert code.metadata["num_stages"] == 3


def test_buffers_are_counted_as_the_generator_takes_them():
    staged = TARGET.laid_out(product(), Options(num_stages=3))
    assert buffer_bytes_of(staged) == 3 * (32 << 10)
    assert TARGET.compile(product(), Options(num_stages=3)).metadata["shared"] >= 3 * (32 << 10)
    assert buffer_bytes_of(TARGET.laid_out(vector_add(), Options())) == 0


def fit(wanted, buffers, scratch, limit=227 << 10):
    asked = []

    def needs(stages):
        taken = buffers * stages if stages > 1 else 0
        asked.append(stages)
        yield taken
        yield taken + scratch

    return stages_that_fit("k", wanted, needs, capability(90)), asked


def test_search():
    assert fit(1, 0, 100) == (1, [1]) and fit(0, 0, 0)[0] == 1
    with pytest.warns(FewerStagesWarning, match="num_stages=4 takes 400000 bytes.*num_stages=2"):
        assert fit(4, 100000, 0) == (2, [4, 3, 2])
    with pytest.warns(FewerStagesWarning):
        assert fit(3, 70000, 30000)[0] == 2         # the buffers of three fit, but not with scratch
    with pytest.raises(OutOfResources, match="300000, Hardware.*k takes so much even with num_stages=1 .400000 with n"):
        fit(2, 50000, 300000)
    with pytest.raises(OutOfResources, match="k takes so much; smaller"):
        fit(2, 0, 300000)


@pytest.mark.parametrize("options, text", [
    (Options(num_warps=3), "num_warps is a power of two from 1 to 32, not 3"), (Options(num_warps=64), "not 64"),
    (Options(maxnreg=0), "maxnreg is from 1 to 255"),
    (Options(maxnreg=256), "maxnreg is from 1 to 255 registers a thread, not 256")])
def test_options_that_are_refused(options, text):
    with pytest.raises(CompilationError, match=text):
        TARGET.compile(vector_add(), options)


def test_programs_of_several_ctas_run_on_one_with_one_warning():
    _tell_of_one_cta.cache_clear()
    plain = TARGET.compile(vector_add(), Options()).texts["ptx"]
    with pytest.warns(SingleCtaWarning, match="each program runs on one CTA") as seen:
        assert [TARGET.compile(vector_add(), Options(num_ctas=n)).texts["ptx"] for n in (2, 4)] == [plain, plain]
    assert len(seen) == 1


def test_registers_that_no_block_has():
    with pytest.raises(OutOfResources, match="registers, Required: 131072, Hardware limit: 65536.*128 registers .maxnr"
                                             "eg. for each of 1024 threads .num_warps=32.*maxnreg up to 64"):
        TARGET.compile(vector_add(), Options(num_warps=32, maxnreg=128))
    assert ".maxnreg 64" in TARGET.compile(vector_add(), Options(num_warps=32, maxnreg=64)).texts["ptx"]


@needs_assembler
@pytest.mark.parametrize("num_warps", [1, 2, 4, 8, 16, 32])
def test_any_number_of_warps_has_registers(num_warps):
    facts = NvidiaTarget(90).compile(vector_add(), Options(num_warps=num_warps)).metadata
    assert facts["threads"] == 32 * num_warps and facts["registers"] * facts["threads"] <= 1 << 16


@needs_assembler
def test_maxnreg_limits_registers():
    module = product(128, 64, 32)
    free = NvidiaTarget(90).compile(module, Options()).metadata
    limited = NvidiaTarget(90).compile(module, Options(maxnreg=64)).metadata
    assert free["registers"] > 64 >= limited["registers"] and limited["local_bytes"] > 0 == free["local_bytes"]


def test_stages_of_a_loop_count():
    @triton.jit
    def total(a, b, out, K, N: tl.constexpr):
        i = tl.arange(0, N)
        c = tl.zeros((N, N), tl.float32)
        for k in tl.range(0, K, N, num_stages=8):
            c = tl.dot(tl.load(a + i[:, None] * K + k + i[None, :]), tl.load(b + (k + i)[:, None] * N + i[None, :]), c)
        tl.store(out + i[:, None] * N + i[None, :], c)

    a, b, out = np.zeros((128, 256), np.float16), np.zeros((256, 128), np.float16), np.zeros((128, 128), np.float32)
    with pytest.warns(FewerStagesWarning, match="num_stages=8.*num_stages=3"):
        staged = TARGET.laid_out(tile_ir(total, a, b, out, 256, N=128), Options(num_stages=1))
    assert {op.attrs["count"] for op in ops_in(staged.entry.body) if op.name == "shared_alloc"} == {3}


@triton.jit
def product_of_one(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + i[None, :])
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(a, a.T))


@triton.jit
def softmax(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    e = tl.exp(tl.load(x + i))
    tl.store(out + i, e / tl.sum(e, 0))


@triton.jit
def copied(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) + 1)


F16, F32 = np.zeros(1, np.float16), np.zeros(1, np.float32)


@pytest.mark.parametrize("capability", [80, 90, "90a"])
@pytest.mark.parametrize("kernel, x, size, warps", [(product_of_one, F16, 512, 4), (softmax, F32, 1 << 17, 1)])
def test_tiles_of_many_times_the_registers(monkeypatch, capability, kernel, x, size, warps):
    """Nothing is generated, let alone assembled."""
    monkeypatch.setattr(generate_module, "generate", None)
    module = tile_ir(kernel, x, F32.copy(), N=size)
    text = (f"registers, Required: [0-9]+, Hardware limit: 255. {kernel.__name__} holds tiles of .*more warps "
            f".num_warps={warps} now., take fewer")
    with pytest.raises(OutOfResources, match=text) as caught:
        NvidiaTarget(capability).compile(module, Options(num_warps=warps))
    assert caught.value.required > 8 * caught.value.limit == 8 * 255


def test_what_is_made_piece_by_piece_takes_no_registers():
    """8192 elements a thread; the largest tile that triton has."""
    assert "st.global" in TARGET.compile(tile_ir(copied, F32, F32.copy(), N=1 << 20), Options()).texts["ptx"]


def test_registers_that_are_held():
    def held(kernel, x, size, warps):
        return registers_held(TARGET.laid_out(tile_ir(kernel, x, F32.copy(), N=size), Options(num_warps=warps)))

    assert held(softmax, F32, 1 << 12, 4) == 32 and held(softmax, F32, 1 << 12, 1) == 128
    assert held(copied, F32, 1 << 12, 1) == 0
    assert held(product_of_one, F16, 128, 4) == 192         # the sums, and both operands, two to a register


def test_text_that_no_assembler_is_given(monkeypatch):
    @triton.jit
    def unrolled(x, out, N: tl.constexpr):
        i = tl.arange(0, 32)
        total = tl.load(x + i)
        for k in tl.static_range(N):
            total += tl.load(x + i + 33 * k)
        tl.store(out + i, total)

    module = tile_ir(unrolled, F32, F32.copy(), N=200)
    lines = TARGET.compile(module, Options()).texts["llir"].count("\n")
    monkeypatch.setattr(resources, "MOST_LINES", lines)
    TARGET.compile(module, Options())
    monkeypatch.setattr(resources, "MOST_LINES", lines - 1)
    with pytest.raises(OutOfResources, match=f"instructions, Required: {lines}, Hardware limit: {lines - 1}. unrolled "
                                             "comes to so many.*range instead of tl.static_range"):
        TARGET.compile(module, Options())
