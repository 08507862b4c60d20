"""lowering.py: from a function to a code object without a launch."""

import os
import re

import pytest

import tilewright.language as tl
from tests.departures import differs
from tests.targets.llvm.crashes import EXIT
from tilewright.diagnostics import CompilationError
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.language.function import SourceFunction
from tilewright.language.options import ConstantArg, Options, RuntimeArg, Signature
from tilewright.language.types import float32, int32, pointer_type
from tilewright.lowering import compile_kernel, lower
from tilewright.targets.cpu import generate as cpu_generate
from tilewright.targets.cpu.generate import Generated
from tilewright.targets.cpu.target import CpuTarget


@SourceFunction
def halve(v):
    return v * 0.5


@SourceFunction
def kernel(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, halve(tl.load(x + i, mask=i < n)), mask=i < n)


POINTER = RuntimeArg(pointer_type(float32), 16)
SIGNATURE = Signature({"x": POINTER, "out": POINTER, "n": RuntimeArg(int32), "B": ConstantArg(16)})


def test_lower_gives_verified_ir_without_calls():
    lowered = lower(kernel, SIGNATURE, Options(), check=2)
    assert list(lowered.module.functions) == ["kernel"]
    assert lowered.module.entry.param_names == ("x", "out", "n")
    assert [f.divisible_by for f in lowered.module.entry.param_facts] == [16, 16, 1]
    assert lowered.written.params == {1} and not lowered.written.anything
    text = print_module(lowered.module)
    assert print_module(parse_module(text)) == text


def test_facts_are_set_on_the_module():
    lowered = lower(kernel, SIGNATURE, Options())
    assert not lowered.module.disjoint
    facts = lowered.with_facts(True, True).module
    assert facts.disjoint and facts.wide and facts.functions is lowered.module.functions


def test_compile_kernel_makes_a_code_object():
    stages = []
    code = compile_kernel(kernel, SIGNATURE, CpuTarget(), Options(), check=2,
                          dump=lambda name, text: stages.append(name))
    assert code.name == "kernel" and code.target == "cpu" and code.binary
    assert code.metadata["param_names"] == ["x", "out", "n"] and code.metadata["written_params"] == [1]
    assert code.texts["source"].startswith("def kernel(") and "load" in code.texts["ttir"]
    assert stages[:2] == ["source", "ttir"] and stages[-1] == "llir"


def test_an_error_has_the_kernels_line():
    @SourceFunction
    def wrong(x):
        tl.store(x, tl.arange(0, 0))

    with pytest.raises(CompilationError) as caught:
        lower(wrong, Signature({"x": POINTER}), Options())
    assert caught.value.location.file == __file__


@differs("What ends LLVM is an error of one kernel", topic="Errors and debugging",
         peer="A failed assertion in the compiler ends the process.",
         ours="LLVM runs in a child; if it dies, the launch raises a `CompilationError` with the kernel's line, and "
              "the next kernel compiles.")
def test_a_death_of_llvm_has_the_kernels_line_and_the_next_compilation_works(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(cpu_generate, "generate", lambda *_: Generated(EXIT, {}))
        with pytest.raises(CompilationError, match="LLVM ended its process while it compiled kernel") as caught:
            compile_kernel(kernel, SIGNATURE, CpuTarget(), Options())
    os.unlink(re.search(r"in (\S+\.ll)", str(caught.value))[1])
    assert (caught.value.location.file, caught.value.location.line) == (__file__, kernel.first_line)
    assert "def kernel(x, out, n, B: tl.constexpr):" in str(caught.value)
    assert compile_kernel(kernel, SIGNATURE, CpuTarget(), Options()).binary
