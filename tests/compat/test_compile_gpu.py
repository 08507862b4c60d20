"""`compile` for GPUs, on a machine without one: stages under triton's names, resources, and what a launch says."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.backends import backends
from tilewright.compiler import ASTSource, GPUTarget, compile, make_backend
from tilewright.diagnostics import CompilationError, OutOfResources
from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.driver import AHEAD, CompileOnlyDriver, driver
from tilewright.runtime.launch import taken_by
from tilewright.targets.base import CodeObject, LoadedKernel
from tilewright.targets.cpu.target import CpuTarget
from tilewright.targets.nvidia.assemble import find_assembler, find_tool
from tilewright.targets.nvidia.driver.kernel import Resources
from tilewright.targets.nvidia.target import NvidiaTarget

GPU = GPUTarget("cuda", 90, 32)
POINTERS = {"x": "*fp32", "out": "*fp32", "n": "i32"}
needs_assembler = pytest.mark.skipif(find_assembler() is None, reason="no ptxas or nvJitLink on this machine")


@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def source(**changes: Any) -> ASTSource:
    attrs = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]], (2,): [["tt.divisibility", 16]]}
    return ASTSource(**{"fn": doubled, "signature": POINTERS, "constexprs": {"BLOCK": 1024}, "attrs": attrs, **changes})


def test_stages_have_names_of_triton() -> None:
    kernel = compile(source(), GPU, {"num_warps": 8})
    assert {"source", "ttir", "ttgir", "llir", "ptx", "sass"} <= set(kernel.asm)
    assert "#linear(" in kernel.asm["ttgir"] and "ptx_kernel" in kernel.asm["llir"]
    assert ".target sm_90a" in kernel.asm["ptx"] and "ld.global.nc.v4.b32" in kernel.asm["ptx"]
    assert kernel.metadata.num_warps == 8 and kernel.metadata.target == GPU and kernel.n_max_threads == 256
    assert kernel.metadata.shared == 0 and kernel.packed_metadata == (8, 1, 0)


@needs_assembler
def test_cubins_and_their_resources() -> None:
    kernel = compile(source(), GPU)
    assert kernel.asm["cubin"].startswith(b"\x7fELF")
    assert 8 <= kernel.n_regs <= 255 and kernel.n_spills == 0
    if find_tool("nvdisasm") or find_tool("cuobjdump"):
        assert "LDG.E.128" in kernel.asm["sass"]
    else:
        with pytest.raises(CompilationError, match="nvdisasm or cuobjdump"):
            kernel.asm["sass"]
    again = pickle.loads(pickle.dumps(kernel.asm))
    assert again["ptx"] == kernel.asm["ptx"] and again["cubin"] == kernel.asm["cubin"]


@pytest.mark.parametrize("arch, name", [(80, "sm_80"), (90, "sm_90a"), ("sm_90", "sm_90a"), (100, "sm_100a"),
                                        (120, "sm_120a")])
def test_architectures(arch: Any, name: str) -> None:
    assert f".target {name}" in compile(source(), GPUTarget("cuda", arch, 32)).asm["ptx"]


def test_backends() -> None:
    backend = make_backend(GPU)
    assert isinstance(backend, backends["nvidia"].compiler) and backends["nvidia"].driver.__name__ == "CudaDriver"
    options = backend.parse_options({"num_warps": 2, "waves_per_eu": 3})
    assert options.num_warps == 2 and options.backend_name == "cuda"
    assert backend.hash() == make_backend(GPU).hash() != make_backend(GPUTarget("cuda", 80, 32)).hash()
    assert backend.hash() != make_backend(GPUTarget("cpu", "", 32)).hash()


def test_a_launch_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compile(source(), GPU)
    if backends["nvidia"].driver.is_active():
        pytest.skip("there is a GPU")
    with pytest.raises((RuntimeError, ImportError), match="NVIDIA"):
        kernel[(1,)](np.zeros(16, np.float32), np.zeros(16, np.float32), 16, 1024)


def test_too_much_shared_memory() -> None:
    @triton.jit
    def turned(x, out, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i[:, None] * N + i[None, :], tl.trans(tl.load(x + i[:, None] * N + i[None, :])))

    with pytest.raises(OutOfResources, match="turned takes so much"):
        compile(ASTSource(turned, {"x": "*fp64", "out": "*fp64"}, {"N": 256}), GPU, {"num_warps": 8})


def test_code_of_the_gpu_is_cached(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second compilation of the same source reads what the first one stored: nothing is generated."""
    with knobs.scope(disk_cache=True, cache_dir=str(tmp_path / "cache")):
        first = compile(source(), GPU)
        monkeypatch.setattr(NvidiaTarget, "compile", lambda *args: pytest.fail("compiled again"))
        monkeypatch.setattr(DEVICES, "_made", {})
        second = compile(source(), GPU)
        assert second.asm["ptx"] == first.asm["ptx"] and second.n_regs == first.n_regs
        assert second.codes[0].binary == first.codes[0].binary and second.metadata == first.metadata


def test_the_cpu_is_still_the_default() -> None:
    kernel = compile(source(), GPUTarget("cpu", "", 32))
    assert kernel.asm["object"] and "ptx" not in kernel.asm and "asm" in CpuTarget.listings
    assert isinstance(kernel.asm["asm"], str)


def test_warmup_for_a_gpu_that_is_not_here() -> None:
    driver.set_active(CompileOnlyDriver(GPU))
    try:
        assert driver.active.get_current_target() == GPU
        kernel = triton.jit(doubled.fn).warmup(np.float32, np.float32, 1024, BLOCK=1024, grid=(1,), num_warps=8)
        assert ".target sm_90a" in kernel.asm["ptx"] and kernel.metadata.num_warps == 8 and kernel.metadata.arch == 90
        assert kernel.n_max_threads == 256 and "#linear(" in kernel.asm["ttgir"]
        with pytest.raises(ValueError, match="doubled: compiled for cuda:ahead:90, and the tensors are on cpu"):
            kernel[(1,)](np.ones(8, np.float32), np.ones(8, np.float32), 1024, 1024)
        with pytest.raises(RuntimeError, match="doubled is compiled for sm_90a, and there is no GPU to launch it on"):
            DEVICES.target(f"{AHEAD}90", knobs.current()).load(kernel.metadata.code).launch((1, 1, 1), [0, 0, 0])
    finally:
        driver.reset_active()
    x = np.ones(16, np.float32)
    out = np.zeros_like(x)
    doubled[(1,)](x, out, 16, BLOCK=16)
    assert (out == 2).all()


def test_only_gpus_are_compiled_ahead() -> None:
    with pytest.raises(ValueError, match="'cuda', not for 'hip'"):
        CompileOnlyDriver(GPUTarget("hip", "gfx942", 64))


@needs_assembler
def test_line_tables_go_into_the_cubin() -> None:
    """For faults, compute-sanitizer and profilers; without the knob code is the same and has none."""
    plain = compile(source(), GPU)
    with knobs.scope(debug_info=True):
        lined = compile(source(), GPU)
    assert ".loc" in lined.asm["ptx"] and __file__ in lined.asm["ptx"]
    assert b".debug_line" in lined.asm["cubin"] and b".debug_line" not in plain.asm["cubin"]
    assert ".loc" not in plain.asm["ptx"] and lined.n_regs == plain.n_regs


def test_registers_of_ptx_are_known_when_it_is_loaded() -> None:
    code = CodeObject("nvidia", "k", b"", {}, {"threads": 128, "binary": "ptx"})

    class Loaded(LoadedKernel):
        resources = Resources(40, 16, 0, 1024)

        def launch(self, grid: Any, slots: Any) -> None: ...

    assert taken_by(code, Loaded()) == (40, 4, 128)
    assert taken_by(code)[2] == 128
