"""`compile(ASTSource(...))`: code for a signature, its launches, its pickles, and the names that torch asks for."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.backends import backends
from tilewright.backends.compiler import CpuOptions, min_dot_size
from tilewright.compiler import ASTSource, CompiledKernel, GPUTarget, compile, make_backend
from tilewright.compiler.paths import find_paths_if, get_iterable_path, native_specialize_impl
from tilewright.diagnostics import PTXASError
from tilewright.runtime import knobs
from tilewright.runtime.fingerprint import base32
from tilewright.runtime.interpreted import InterpretedFunction
from tilewright.runtime.sizes import must_use_result
from tilewright.runtime.specialize import mangle_type

ROOT = Path(__file__).resolve().parents[2]
CPU = GPUTarget("cpu", "", 32)


@triton.jit
def scaled(x, out, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) * factor, mask=mask)


SIGNATURE = {"x": "*fp32", "out": "*fp32", "n": "i32", "factor": "fp32", "BLOCK": "constexpr"}


def source(**attrs: Any) -> ASTSource:
    return ASTSource(scaled, SIGNATURE, {"BLOCK": 16}, attrs.get("attrs"))


def test_compiled_kernel_is_launched_with_all_arguments() -> None:
    kernel = compile(source(), CPU, {"num_warps": 2, "waves_per_eu": 1, "arch": None})
    x, out = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    kernel[(2,)](x, out, 20, 1.5, 16)
    assert np.array_equal(out, x * 1.5)
    kernel.run(1, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, out, 3, 2.0, 16)
    assert np.array_equal(out, [*(x[:3] * 2), *(x[3:] * 1.5)])
    assert kernel.metadata.num_warps == 2 and kernel.metadata.target == CPU and kernel.asm["ttir"] == kernel.asm["tile"]


def test_hooks_of_a_launch() -> None:
    kernel = compile(source())
    x, seen = np.ones(16, np.float32), []
    data = kernel.launch_metadata((1, 1, 1), 0, x, x, 16, 1.0, 16)
    kernel.run(1, 1, 1, 0, None, None, data, lambda d: seen.append(("enter", d["name"])),
               lambda d: seen.append(("exit", d["grid"])), x, x, 16, 1.0, 16)
    assert seen == [("enter", "scaled"), ("exit", (1, 1, 1))]


@pytest.mark.unchecked("its programs overlap, which is a race")
def test_overlapping_arguments_get_the_version_that_keeps_order() -> None:
    kernel = compile(source())
    data = np.arange(40, dtype=np.float32)
    kernel[(2,)](data[:-1], data[1:], 32, 2.0, 16)      # the second program reads what the first one wrote
    jitted = np.arange(40, dtype=np.float32)
    scaled[(2,)](jitted[:-1], jitted[1:], 32, 2.0, BLOCK=16)
    assert np.array_equal(data, jitted)


@pytest.mark.parametrize("change, error", [
    ({"args": (1, 2)}, r"scaled: a compiled kernel takes all 5 arguments \(x, out, n, factor, BLOCK\), not 2"),
    ({"x": 3}, r"parameter 'x' is \*fp32, so it takes a tensor, not int"),
    ({"n": 2**40}, "does not fit in i32"),
    ({"out": "read-only"}, "read-only array, and the kernel stores to it"),
    ({"n": 17}, "parameter 'n' was compiled as a multiple of 16, and is 17"),
])
def test_wrong_launches(change: dict[str, Any], error: str) -> None:
    kernel = compile(source(attrs={(2,): [["tt.divisibility", 16]]}))
    read_only = np.zeros(32, np.float32)
    read_only.flags.writeable = False
    args: dict[str, Any] = {"x": np.zeros(32, np.float32), "out": np.zeros(32, np.float32), "n": 32, "factor": 1.0,
                            "BLOCK": 16, **{k: read_only if v == "read-only" else v for k, v in change.items()}}
    with pytest.raises((TypeError, ValueError, OverflowError), match=error):
        kernel[(2,)](*args.pop("args", args.values()))


@pytest.mark.parametrize("call, error", [
    (lambda: ASTSource(scaled, {"y": "*fp32"}), "names y, but the parameters of scaled are x, out"),
    (lambda: ASTSource(scaled, {"x": "*fp32"}), "lacks out, n, factor, BLOCK"),
    (lambda: compile(ASTSource(scaled, SIGNATURE)), "'BLOCK' of scaled is a constexpr without a value"),
    (lambda: compile(ASTSource(scaled, {**SIGNATURE, "n": "int"}, {"BLOCK": 16})),
     "parameter 'n' of scaled: no type is spelt 'int'; did you mean i32"),
    (lambda: compile(ASTSource(scaled, {**SIGNATURE, "x": "*float"}, {"BLOCK": 16})),
     r"parameter 'x' of scaled: no type is spelt '\*float'; did you mean \*fp32"),
    (lambda: compile(source(), ("cuda", 90, 32)),                           # type: ignore[arg-type]
     r"a target is a GPUTarget, .*not \('cuda', 90, 32\) of type tuple; write GPUTarget\('cuda', 90, 32\)"),
    (lambda: compile(source(), "cuda:90"), "a target is a GPUTarget.*not 'cuda:90' of type str"),    # type: ignore
    (lambda: compile(source(), GPUTarget("hip", "gfx942", 64)), "no code generator for .*compiles for: cpu, nvidia"),
    (lambda: compile(source(), GPUTarget("cuda", 70, 32)), "no code is made for compute capability 70; there are 80"),
    (lambda: compile("kernel.ttir"), "compile takes an ASTSource, not str"),
])
def test_wrong_sources(call: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        call()


def test_none_one_and_tuples_are_compiled_in() -> None:
    @triton.jit
    def mixed(out, pair, bias, n):
        value = tl.load(pair[0]) + pair[1]
        if bias is None:
            value += n
        tl.store(out, value)

    kernel = compile(ASTSource(mixed, {"out": "*fp32", "pair": ("*fp32", "i32"), "bias": "*fp32", "n": "i32"},
                               {(2,): None, "n": 1}))
    out, x = np.zeros(1, np.float32), np.full(1, 5, np.float32)
    kernel[(1,)](out, (x, 10), None, 1)
    assert out[0] == 16


def test_pickled_attributes_are_enough_in_another_process() -> None:
    kernel = compile(source())
    state = {name: value for name, value in vars(kernel).items() if name not in ("src", "metadata", "module")}
    code = f"""
import pickle, numpy as np
from tilewright.compiler import CompiledKernel
kernel = CompiledKernel.__new__(CompiledKernel)
kernel.__dict__.update(pickle.loads(bytes.fromhex({pickle.dumps(state).hex()!r})), module=None, run=None)
x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
kernel._init_handles()
kernel.run(1, 1, 1, 0, kernel.function, None, None, None, None, x, out, 16, 4.0, 16)
print(out.sum())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert result.stdout == "64.0\n", result.stderr


def test_hashes_tell_sources_and_options_apart() -> None:
    other = ASTSource(scaled, SIGNATURE, {"BLOCK": 32})
    assert source().hash() == source().hash() != other.hash()
    assert CpuOptions().hash() == CpuOptions().hash() != CpuOptions(num_warps=8).hash()
    assert compile(source()).hash == compile(source()).hash != compile(other).hash
    assert scaled.cache_key == scaled.cache_key


@pytest.mark.unchecked("what was compiled is looked at")
def test_launched_kernels_are_compiled_kernels() -> None:
    x = np.ones(16, np.float32)
    assert isinstance(scaled[(1,)](x, x, 16, 1.0, BLOCK=16), CompiledKernel)
    assert isinstance(compile(source()), CompiledKernel) and not isinstance(x, CompiledKernel)


def test_backend() -> None:
    backend = make_backend(CPU)
    assert type(backend) is backends["cpu"].compiler and backend.hash() == make_backend(CPU).hash()
    assert backend.parse_options({"num_warps": 8, "unknown": 1}).num_warps == 8
    with knobs.scope(f32_default="ieee"):
        assert backend.parse_options({}).default_dot_input_precision == "ieee"
    assert backends["cpu"].driver().get_current_target() == CPU


def test_facts_of_arguments() -> None:
    x = np.zeros(4, np.float32)
    assert mangle_type(x) == "*fp32" and mangle_type(3) == "i32" and mangle_type(2.5) == "fp32"
    assert mangle_type(None) == "constexpr" and mangle_type(2**40) == "i64"
    assert native_specialize_impl(None, 32, False, True, True) == ("i32", "D")
    assert native_specialize_impl(None, 32, False, True, False) == ("i32", None)
    assert native_specialize_impl(None, 1, False, True, True) == ("constexpr", 1)
    assert native_specialize_impl(None, 1, False, False, True) == ("i32", None)
    assert native_specialize_impl(None, x, True, True, False)[0] == "*kfp32"
    values = [1, ("a", [2, "b"])]
    assert find_paths_if(values, lambda path, leaf: isinstance(leaf, str)) == [(1, 0), (1, 1, 1)]
    assert get_iterable_path(values, (1, 1, 1)) == "b"


def test_kernel_without_its_function_can_be_pickled() -> None:
    """torch takes out what does not pickle, as in its prepare_for_pickle, and sends the rest to another process."""
    @triton.jit
    def passing(x, n: tl.constexpr = 3):
        tl.store(x, n)

    assert passing.src.startswith("def passing") and passing.arg_names == ["x", "n"] and passing.params[1].num == 1
    passing.fn = passing.__globals__ = passing.used_global_vals = passing.repr = None
    copy = pickle.loads(pickle.dumps(passing))
    assert (copy.__name__, copy.src, copy.arg_names) == ("passing", passing.src, ["x", "n"])
    assert [p.is_constexpr for p in copy.params] == [False, True]


def test_interpreted_function_is_asked_with_isinstance() -> None:
    assert not isinstance(scaled, InterpretedFunction) and not isinstance(3, InterpretedFunction)
    with knobs.scope(interpret=True):
        assert isinstance(scaled, InterpretedFunction)


def test_small_names() -> None:
    def fn() -> None: ...

    assert min_dot_size(CPU)(tl.float16, tl.float16) == (1, 1, 1)
    assert must_use_result(fn) is fn and must_use_result("why")(fn) is fn
    assert base32("00ff" * 16) == "AD7QB7YA74AP6AH7AD7QB7YA74AP6AH7AD7QB7YA74AP6AH7AD7Q"
    assert "no such register" in str(PTXASError("no such register"))


@pytest.mark.parametrize("backend", [("cpu", "", 32), ("cuda", 90, 32)])
def test_options_are_refused_as_launches_refuse_them(backend):
    with pytest.raises(KeyError, match="option num_warp was specified but unrecognised .*did you mean 'num_warps'"):
        compile(source(), GPUTarget(*backend), options={"num_warp": 4})
    with pytest.raises(ValueError, match="num_warps must be a power of 2, not 3"):
        compile(source(), GPUTarget(*backend), options={"num_warps": 3})
