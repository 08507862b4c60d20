"""Every member of triton 3.6's public classes is under the alias: there, or in the list of those left out, with why.

`members.txt` has the names, a class a line.  They are looked for on the class and on an object of it, in a process of
its own, where the alias is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).parent / "members.txt"

_NEVER_CALLED = "Python has no such method: nothing calls it"
_OTHER_INSIDE = "a part of triton's own launch path"
LEFT_OUT: Mapping[str, str] = {
    **{f"triton.language.tensor.{name}": _NEVER_CALLED for name in
       ("__not__", "__req__", "__rge__", "__rgt__", "__rle__", "__rlt__", "__rne__")},
    **{f"triton.language.constexpr.{name}": _NEVER_CALLED for name in ("__rge__", "__rgt__", "__rle__", "__rlt__")},
    "triton.language.tensor.advance": "pointers of blocks are values of their own and have it",
    "triton.language.tuple_type.__getitem__": "its types are in `.types`",
    "triton.language.tensor_descriptor.handle": "a value of triton's own IR",
    **{f"triton.runtime.JITFunction.{name}": _OTHER_INSIDE for name in ("create_binder", "device_caches", "preload")},
    "triton.runtime.Config.__setstate__": "configs are pickled as any object is",
    "triton.compiler.ASTSource.language": "there is one language",
    **{f"triton.compiler.CompiledKernel.{name}": "files of triton's cache folder" for name in ("metadata_group",)},
    "triton.compiler.CompiledKernel.src": "a launched kernel keeps its texts in `asm`",
    **{f"triton.compiler.CompiledKernel.metadata.{name}": "an option of NVIDIA's assembler" for name in
       ("enable_reflect_ftz", "ptx_options", "ptx_version")},
}
LOOK = """
import importlib, sys, tilewright.compat
tilewright.compat.install()
import numpy as np
import triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from kernels import add, tuned, heuristic
x, out = np.ones(8, np.float32), np.empty(8, np.float32)
compiled = add[(1,)](x, out, 8, BLOCK=8)
tuned[(1,)](x, out, 8)
heuristic[(1,)](x, out, 8)
objects = [
    tl.float32, tl.constexpr(3), tl.pointer_type(tl.float32), tl.block_type(tl.float32, [8]), tl.static_range(3),
    tl.range(3), tl.tuple_type([tl.int32]), add, add.params[0], tuned, heuristic, triton.Config({}),
    triton.reinterpret(x, tl.int32), triton.MockTensor(tl.float32), triton.OutOfResources(1, 2, "x"), compiled,
    triton.testing.Benchmark(x_names=["n"], x_vals=[1], line_arg="p", line_vals=["a"], line_names=["A"],
                             plot_name="x", args={}),
    triton.compiler.ASTSource(add, {"x": "*fp32", "o": "*fp32", "n": "i32"}, {"BLOCK": 8}),
    triton.CompilationError("text"), triton.backends.compiler.GPUTarget("cuda", 90, 32),
    TensorDescriptor.from_tensor(np.ones((8, 8), np.float32), [4, 4]),
]
for line in open(sys.argv[1]):
    name, _, members = line.partition(":")
    if line[0] == "#":
        continue
    module, _, cls = name.rpartition(".")
    cls = getattr(importlib.import_module(module), cls)
    for member in members.split():
        for owner in [cls, *(o for o in objects if isinstance(cls, type) and isinstance(o, cls))]:
            try:
                for part in member.split("."):
                    owner = getattr(owner, part)
            except AttributeError:
                continue
            except NotImplementedError:     # the whole class is refused (tilewright.compat.refusals)
                pass
            break
        else:
            print(f"{name}.{member}")
"""
KERNELS = """
import triton, triton.language as tl

@triton.jit
def add(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)

tuned = triton.autotune(configs=[triton.Config({"BLOCK": 8})], key=["n"])(add)
heuristic = triton.heuristics({"BLOCK": lambda args: 8})(add)
"""


@pytest.mark.unchecked("members of a compiled kernel are asked for")
def test_every_member_is_there_or_left_out_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    result = subprocess.run([sys.executable, "-c", LOOK, str(FILE)], capture_output=True, text=True, timeout=120,
                            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"})
    assert result.returncode == 0, result.stderr
    assert set(result.stdout.split()) == LEFT_OUT.keys()


@tw.jit
def copy(x, out, n: tl.constexpr):
    offsets = tl.arange(0, n)
    tl.store(out + offsets, tl.load(x + offsets))


def test_what_a_function_tells() -> None:
    assert copy.constexprs == [2] and copy.module == __name__ and not copy.is_gluon()
    assert copy.raw_src[0] == "@tw.jit\n" and copy.raw_src[1].startswith("def copy(")
    assert copy.def_file_line_number == copy.starting_line_number + 1 and copy.file_name == __file__
    assert copy.parse().body[0].name == "copy"      # type: ignore[attr-defined]
    assert copy.get_capture_scope()["tl"] is tl
    assert copy.hash == copy.cache_key


@pytest.mark.unchecked("what was compiled is looked at")
def test_what_a_compiled_kernel_tells() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    first, second = copy[(1,)](x, out, n=8), copy[(1,)](x, out, n=8)
    other = copy[(1,)](x, out, n=4)
    assert first.hash == second.hash != other.hash and first.kernel != other.kernel
    assert first.metadata.warp_size == 32 and first.packed_metadata[:2] == (4, 1)
    assert first.metadata.triton_version.count(".") == 2


def test_wrapped_tensors_are_copied_bit_for_bit() -> None:
    wrapped = tw.reinterpret(np.array([1.0, -0.0, np.nan], np.float32), tl.int32)
    clone = wrapped.clone()
    clone.base[:] = 0
    assert wrapped.base[0] == 1.0 and wrapped.element_size() == 4
    clone.copy_(wrapped)
    assert clone.base.tobytes() == wrapped.base.tobytes()
    assert wrapped.new_empty((5,)).shape == (5,) and wrapped.cpu().base is wrapped.base


def test_methods_are_found_on_the_class() -> None:
    assert tl.tensor.sum is tl.sum and tl.tensor_descriptor.load is tl.load_tensor_descriptor
    with pytest.raises(AttributeError):
        tl.tensor.no_such_method
