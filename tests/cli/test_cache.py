"""`tilewright cache`: what it lists, what it says to a kernel that was compiled again, and that it removes."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.cli.cache import main
from tilewright.compiler import ASTSource, GPUTarget, compile
from tilewright.runtime import knobs

SCALE = tl.constexpr(2)


@triton.jit
def scaled(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i * SCALE)


@triton.jit
def another(x):
    tl.store(x, 1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def launch(fn, folder, *arguments, **options):
    """Launch as a new process would: nothing of the kernel is in memory."""
    with knobs.scope(disk_cache=True, cache_dir=str(folder)):
        triton.jit(fn.fn)[(1,)](*arguments, **options)


def said(capsys, *arguments):
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_an_empty_cache(folder, capsys):
    assert said(capsys, "ls") == (0, f"0 kernels, 0.0 KiB in {folder}\n", "")
    assert said(capsys, "clear") == (0, f"removed 0 files in {folder}\n", "")
    assert said(capsys, "explain") == (0, "", "")
    assert not folder.exists()


def test_ls_and_clear(folder, capsys):
    launch(scaled, folder, np.zeros(8, np.int32), N=8)
    launch(another, folder, np.zeros(8, np.float16))
    status, out, _ = said(capsys, "ls")
    lines = out.splitlines()
    assert status == 0 and lines[-1].startswith("2 kernels, ") and lines[-1].endswith(f" in {folder}")
    assert sum("scaled " in line and "x: *i32" in line and "N: = 8" in line for line in lines) == 1
    assert sum("another" in line and "x: *fp16" in line for line in lines) == 1
    assert all("  cpu  " in line for line in lines[:-1])
    assert said(capsys, "clear", "--yes")[1].startswith("removed ")
    assert said(capsys, "ls")[1] == f"0 kernels, 0.0 KiB in {folder}\n"


@triton.jit
def copied(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i))


def test_ls_shows_options_and_facts(folder, capsys):
    """Code that differs in nothing else has different lines."""
    x, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
    launch(copied, folder, x, y, N=8)
    launch(copied, folder, x, y, N=8, debug=True, num_warps=8)
    launch(copied, folder, x, x, N=8)
    lines = [re.sub(r"^\S+  \S+ \S+ +[0-9.]+ KiB", "", line) for line in said(capsys, "ls")[1].splitlines()[:-1]]
    assert len(set(lines)) == 3 and "[" not in lines[0]
    assert lines[1].endswith("  [num_warps=8, debug=True]") and lines[2].endswith("  [disjoint=False]")


@pytest.fixture
def answer(monkeypatch):
    """Makes standard input a terminal at which somebody types."""
    def make(text):
        terminal = io.StringIO(text)
        terminal.isatty = lambda: True
        monkeypatch.setattr(sys, "stdin", terminal)
    return make


def test_clear_asks(folder, capsys, answer):
    launch(another, folder, np.zeros(8, np.float16))
    for text in ("\n", "no\n", ""):
        answer(text)
        status, out, _ = said(capsys, "clear")
        assert status == 1 and f" in {folder}? [y/N] nothing is removed" in out and "KiB" in out
    assert "1 kernel," in said(capsys, "ls")[1]
    answer("Yes\n")
    assert "removed " in said(capsys, "clear")[1] and "0 kernels," in said(capsys, "ls")[1]


def test_clear_without_a_terminal_wants_to_be_sure(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    launch(another, folder, np.zeros(8, np.float16))
    status, _, err = said(capsys, "clear")
    assert status == 1 and "this would remove " in err and "say --yes" in err
    assert "1 kernel," in said(capsys, "ls")[1]


def test_clear_by_name(folder, capsys):
    launch(scaled, folder, np.zeros(8, np.int32), N=8)
    launch(another, folder, np.zeros(8, np.float16))
    status, out, _ = said(capsys, "clear", "scaled", "--yes")
    assert status == 0 and "of scaled in " in out
    listed = said(capsys, "ls")[1]
    assert "another" in listed and "scaled" not in listed
    status, _, err = said(capsys, "clear", "scaled", "--yes")
    assert status == 1 and "nothing of scaled is stored; there are: another\n" in err


def test_code_of_gpus_is_listed_with_its_architecture(folder, capsys):
    with knobs.scope(disk_cache=True, cache_dir=str(folder)):
        compile(ASTSource(scaled, {"x": "*i32"}, {"N": 8}), GPUTarget("cuda", 90, 32))
        compile(ASTSource(scaled, {"x": "*i32"}, {"N": 8}), GPUTarget("cuda", 80, 32))
    lines = said(capsys, "ls")[1].splitlines()
    assert sum("  sm_90a  " in line for line in lines) == sum("  sm_80  " in line for line in lines) == 2
    assert any("the first of this name for sm_80; there was code for sm_90a" in text for text in explanation(capsys))


def explanation(capsys, name="scaled"):
    status, out, _ = said(capsys, "explain", name)
    assert status == 0
    return re.split(rf"^{name} number ", out, flags=re.MULTILINE)[1:]


def test_explain(folder, capsys, monkeypatch):
    x = np.zeros(64, np.int32)
    launch(scaled, folder, x, N=8)
    (first,) = explanation(capsys)
    assert "the first of this name" in first
    launch(scaled, folder, x, N=16)
    assert any("argument N: was the compile-time value 8, is the compile-time value 16" in text
               for text in explanation(capsys))
    launch(scaled, folder, x, N=16, num_warps=8)
    assert any("option num_warps: was 4, is 8" in text for text in explanation(capsys))
    monkeypatch.setitem(scaled.fn.__globals__, "SCALE", tl.constexpr(3))
    launch(scaled, folder, x, N=16, num_warps=8)
    assert any("SCALE, which scaled reads: was constexpr(2), is constexpr(3)" in text for text in explanation(capsys))


def test_explain_shows_the_lines_of_a_source(folder, capsys):
    x = np.zeros(64, np.int32)
    for text in ("def kernel(x):\n    y = 1\n    tl.store(x, y)\n", "def kernel(x):\n    y = 2\n    tl.store(x, y)\n"):
        names = {"tl": tl}
        exec(text, names)
        with knobs.scope(disk_cache=True, cache_dir=str(folder)):
            triton.jit(source=text)(names["kernel"])[(1,)](x)
    changed = [text for text in explanation(capsys, "kernel") if "source:" in text]
    assert len(changed) == 1 and "-     y = 1" in changed[0] and "+     y = 2" in changed[0]
    assert "tl.store" not in changed[0]


def test_explain_of_a_name_that_is_not_there(folder, capsys):
    launch(another, folder, np.zeros(8, np.float16))
    status, _, err = said(capsys, "explain", "anoter")
    assert status == 1 and "did you mean 'another'?" in err
    status, _, err = said(capsys, "explain", "x")
    assert status == 1 and "there are: another" in err


def test_no_action(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "ACTION" in capsys.readouterr().err
