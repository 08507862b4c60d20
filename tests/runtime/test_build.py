"""Builds: what the disk cache has is not compiled again, and is right where the functions are now."""

import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.test_pipeline import matmul
from tilewright.diagnostics import FewerStagesWarning, SingleCtaWarning
from tilewright.frontend.dependencies import dependencies
from tilewright.language.function import SourceFunction
from tilewright.language.options import ConstantArg, Options, RuntimeArg, Signature
from tilewright.language.types import float16, float32, int32, pointer_type
from tilewright.runtime import build as build_module
from tilewright.runtime.build import Build, decode_code, encode_code, map_places
from tilewright.runtime.cache import Store
from tilewright.targets.base import CodeObject
from tilewright.targets.cpu.target import CpuTarget
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.resources import _tell_of_one_cta

TARGET = CpuTarget()
POINTER = RuntimeArg(pointer_type(float32), 16)
SIGNATURE = Signature({"x": POINTER, "out": POINTER, "n": RuntimeArg(int32), "B": ConstantArg(16)})


@SourceFunction
def kernel(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_assert(n > 0, "n is positive")
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


def build(store, fn=kernel, compiler="compiler", **more):
    return Build(fn, SIGNATURE, Options(debug=True), dependencies(fn), TARGET, store, lambda: compiler, **more)


def test_second_build_compiles_nothing(store):
    first = build(store)
    assert first.written.params == {1}
    code = first.code(True, False)
    second = build(store)
    assert second.written == first.written and second.written.params == {1}
    again = second.code(True, False)
    assert (again.binary, again.name, again.target) == (code.binary, code.name, code.target)
    assert dict(again.texts) == dict(code.texts) and again.metadata == code.metadata
    assert "lowered" in vars(first) and "lowered" not in vars(second)


def test_facts_are_in_the_key(store):
    build(store).code(True, False)
    second = build(store)
    second.code(False, False)
    assert "lowered" in vars(second)


@pytest.mark.parametrize("more", [{"compiler": "another"}, {"reads": False}])
def test_what_compiles_again(store, more):
    build(store).code(True, False)
    second = build(store, **more)
    second.code(True, False)
    assert "lowered" in vars(second)


def test_dumping_compiles_again(store):
    build(store).code(True, False)
    seen = []
    build(store).code(True, False, lambda stage, text: seen.append(stage))
    assert seen[0] == "source" and seen[-1] == "llir"


def test_without_a_store_nothing_is_kept():
    assert build(Store(None)).parts == []
    assert build(Store(None)).code(True, False).binary


TEXT = "def kernel(x):\n    tl.device_assert(x > 0, 'positive')\n"


def place(line, column, file="<string>"):
    return {"file": file, "line": line, "column": column, "end_line": line, "end_column": column + 30, "function": "k"}


def test_places_move_with_their_function():
    fn = SourceFunction(executed(TEXT), source=TEXT)
    moved_text = "\n\n\nif True:\n" + textwrap.indent(TEXT, "    ")
    moved = SourceFunction(executed(moved_text), source=moved_text)
    metadata = {"asserts": [{"location": place(2, 4)}], "k": (1, None)}
    code = CodeObject("cpu", "kernel", b"code", {"a": "é\udc80"}, metadata)
    again = decode_code(encode_code(code, [fn]), [moved])
    assert again.metadata == {"asserts": [{"location": place(6, 8)}], "k": [1, None]}
    assert again.binary == b"code" and again.texts == {"a": "é\udc80"}


def test_places_elsewhere_stay():
    fn = SourceFunction(executed(TEXT), source=TEXT)
    code = CodeObject("cpu", "k", b"", {}, {"x": [place(2, 4, "other.py"), place(90, 0)]})
    assert decode_code(encode_code(code, [fn]), [fn]).metadata == code.metadata
    assert map_places({"file": "f"}, lambda p: {}) == {"file": "f"}     # no place: lines are missing


def executed(text):
    names = {}
    exec(text, names)
    return names["kernel"]


SCRIPT = """
import sys
{before}import numpy as np
import tilewright as triton
import tilewright.language as tl

SCALE = tl.constexpr({scale})

@triton.jit
def halve(v):
    return v * SCALE

@triton.jit
def kernel(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.device_assert(i < 30, "below 30")
    tl.store(out + i, halve(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)

x, out = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
kernel[(3,)](x, out, 20, B=8, debug=True)
print("compiled" if "tilewright.lowering" in sys.modules else "cached", "llvmlite" in sys.modules, out[3])
try:
    kernel[(9,)](x, out, 20, B=8, debug=True)
except triton.KernelAssertionError as error:
    print(str(error).splitlines()[0].rpartition("/")[2], str(error).splitlines()[1].strip())
"""


def run_script(tmp_path, scale=0.5, before="", **environment):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(scale=scale, before=before))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True,
                          env={**os.environ, "TILEWRIGHT_DISK_CACHE": "1",
                               "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache"),
                               "PYTHONPATH": os.pathsep.join(sys.path), **environment})
    assert done.stderr == ""
    first, *rest = done.stdout.splitlines()
    return first, rest


def failed_at(line):
    return [f'script.py:{line}:5 in kernel: tl.device_assert(i < 30, "below 30")']


@pytest.mark.unchecked("the disk cache is to be used")
def test_processes(tmp_path):
    """A second process loads no compiler; a changed global, function or compiler does; a moved function does not."""
    linux = sys.platform == "linux"
    assert run_script(tmp_path) == ("compiled False 1.5" if linux else "compiled True 1.5", failed_at(16))
    first, lines = run_script(tmp_path)
    assert first.startswith("cached") and first.endswith("1.5") and lines == failed_at(16)
    if linux:
        assert first == "cached False 1.5"
    first, lines = run_script(tmp_path, before="\n\n")
    assert first.startswith("cached") and lines == failed_at(18)
    assert run_script(tmp_path, scale=2.0)[0].startswith("compiled")
    assert run_script(tmp_path, scale=2.0)[0].endswith("6.0")
    assert run_script(tmp_path, TRITON_ALWAYS_COMPILE="1")[0].startswith("compiled")
    assert run_script(tmp_path, TILEWRIGHT_DISK_CACHE="0", TILEWRIGHT_COMPILE_IN_PROCESS="1")[0] == "compiled True 1.5"


def test_uncacheable_kernels_run(store, monkeypatch):
    def refuse(*_):
        raise build_module.UncacheableError("reason")

    monkeypatch.setattr(build_module, "kernel_parts", refuse)
    assert build(store).code(True, False).binary and not list(store.records())


@pytest.mark.unchecked("the disk cache is to be used")
def test_a_launch_uses_the_store(tmp_path):
    with triton.knobs.scope(disk_cache=True, cache_dir=str(tmp_path / "cache")):
        fresh = triton.jit(kernel.fn)
        x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
        fresh[(1,)](x, out, 16, 16)
    assert (out == 1).all()
    assert {r.name for r in Store(tmp_path / "cache").records()} >= {"kernel", "machine", "sources"}


@SourceFunction
def warns(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.where(i & 1, tl.load(x + i), 0), mask=(i < n) and (i >= 0))
    return i


def warned_of(made, *facts):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for each in facts or ((True, False),):
            made.code(*each)
    return sorted((str(w.message), w.category, w.filename, w.lineno) for w in seen)


def test_warnings_are_given_again_by_what_is_stored(store):
    first = warned_of(build(store, warns), (True, False), (False, True))
    texts = [message for message, *_ in first]
    assert len(texts) == 3 and all(any(part in text for text in texts) for part in (
        "`and` on tiles", "tl.where with a condition", "nobody takes what it returns"))
    second = build(store, warns)
    assert warned_of(second, (True, False), (False, True)) == first and "lowered" not in vars(second)
    assert warned_of(second, (True, False)) == [], "once"


def test_warnings_move_with_their_function(store):
    text = "def kernel(x, out, n, B):\n    return x\n"
    lines = []
    for shift in ("", "\n\n\n"):
        fn = SourceFunction(executed(shift + text), source=shift + text)
        ((_, _, _, line),) = warned_of(build(store, fn))
        lines.append(line)
    assert lines == [2, 5]


def test_warnings_of_a_target_are_given_again(store):
    a = RuntimeArg(pointer_type(float16), 16)
    sizes = dict.fromkeys([p.name for p in matmul.params[3:9]], RuntimeArg(int32, 16))
    signature = Signature({"a_ptr": a, "b_ptr": a, "c_ptr": a, **sizes, "BM": ConstantArg(128),
                           "BN": ConstantArg(128), "BK": ConstantArg(64)})

    def made():
        return Build(matmul, signature, Options(num_stages=8, num_ctas=2), dependencies(matmul),
                     NvidiaTarget(90, assemble=False), store, lambda: "compiler")

    _tell_of_one_cta.cache_clear()
    first = [(text, category) for text, category, *_ in warned_of(made())]
    assert {category for _, category in first} == {FewerStagesWarning, SingleCtaWarning}
    second = made()
    assert [(text, category) for text, category, *_ in warned_of(second)] == first and "lowered" not in vars(second)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewerStagesWarning)      # as tuners do
        with pytest.raises(FewerStagesWarning):
            made().code(True, False)
