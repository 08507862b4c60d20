"""Capabilities, what a code object says, cubins of every architecture, and what is refused before code is made."""

import json

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import compiled, tile_ir
from tests.targets.nvidia.test_passes import CASES, add
from tilewright.diagnostics import CompilationError
from tilewright.language.options import Options
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.assemble import find_assembler, find_tool
from tilewright.targets.nvidia.capability import capability

needs_ptxas = pytest.mark.skipif(find_assembler() is None, reason="no ptxas on this machine")


@pytest.mark.parametrize("given, name", [(80, "80"), (86, "86"), ("sm_90", "90a"), ("90a", "90a"), (100, "100a"),
                                         (120, "120a")])
def test_names(given, name):
    assert capability(given).name == name and capability(given).cpu == f"sm_{name}"


@pytest.mark.parametrize("given", [70, "gfx942", 91])
def test_unknown_capability(given):
    with pytest.raises(ValueError, match="no code is made for compute capability"):
        capability(given)


def test_facts():
    assert capability(90).tma and capability(90).wgmma and not capability(80).tma
    assert not capability(100).wgmma and capability(89).fp8 and not capability(86).fp8


def vector_add():
    x = np.zeros(64, np.float32)
    return tile_ir(add, x, x.copy(), x.copy(), 64, BLOCK=64)


def test_metadata_is_plain_data():
    facts = compiled(vector_add()).metadata
    assert json.loads(json.dumps(facts)) == facts
    assert facts["entry"] == "add" and facts["threads"] == 128 and facts["hidden"] == []
    assert [(p["name"], p["bytes"]) for p in facts["params"]] == [("x", 8), ("y", 8), ("out", 8), ("n", 4)]


def test_texts():
    texts = compiled(vector_add()).texts
    assert texts.keys() == {"laid-out", "llir", "ptx"} and ".visible .entry add(" in texts["ptx"]


@needs_ptxas
@pytest.mark.parametrize("arch", [80, 90, 100, 120])
@pytest.mark.parametrize("name", ["softmax", "halves"])
def test_cubins(name, arch):
    kernel, _, args, constants = CASES[name]
    code = NvidiaTarget(arch).compile(tile_ir(kernel, *args, **constants), Options())
    assert code.binary.startswith(b"\x7fELF") and code.metadata["binary"] == "cubin"
    assert 0 < code.metadata["registers"] <= 255
    assert code.metadata["spill_bytes"] == 0 and code.metadata["advisories"] == []


@triton.jit
def formats(x, y, out, N: tl.constexpr):
    """What some capabilities have instructions for and others do not: formats of eight bits, atomics on bf16."""
    i, j = tl.arange(0, N), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    a, b = tl.load(x + at).to(tl.float8e4nv, bitcast=True), tl.load(y + at).to(tl.float8e5, bitcast=True)
    d = tl.dot(a, b) + a.to(tl.bfloat16) + b.to(tl.float16)
    tl.store(x + at, d.to(tl.float8e5).to(tl.int8, bitcast=True))
    tl.store(y + at, d.to(tl.float8e4nv).to(tl.int8, bitcast=True))
    tl.atomic_add((out + at).to(tl.pointer_type(tl.bfloat16), bitcast=True), d.to(tl.bfloat16))


@needs_ptxas
@pytest.mark.parametrize("arch", [80, 86, 87, 89, 90, 100, 103, 110, 120, 121])
def test_the_version_of_ptx_has_what_a_capability_is_given(arch):
    """8.0 has no fp8 on sm_89."""
    x = np.zeros(1024, np.int8)
    module = tile_ir(formats, x, x.copy(), np.zeros(1024, np.int16), N=32)
    try:
        assert NvidiaTarget(arch).compile(module, Options()).metadata["binary"] == "cubin"
    except CompilationError as error:
        if "is not defined for option 'gpu-name'" not in str(error):
            raise
        pytest.skip(f"an assembler that is too old for {arch}")


@needs_ptxas
@pytest.mark.skipif(find_tool("nvdisasm") is None and find_tool("cuobjdump") is None, reason="no disassembler")
def test_sass():
    target = NvidiaTarget(90)
    text = target.listing(target.compile(vector_add(), Options()), "sass")
    assert "LDG.E" in text and "STG.E" in text
