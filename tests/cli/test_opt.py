"""`tilewright opt`."""

import io
import sys

import pytest

from tilewright.cli import main

TEXT = """module @k

func @k(%p: ptr<i32>, %x: i32) {
  %zero = constant 0 : i32
  %y = add %x, %zero : i32
  store %p, %y
  return
}
"""
FOLDED = TEXT.replace("  %y = add %x, %zero : i32\n", "").replace("%y", "%x")
CLEAN = FOLDED.replace("  %zero = constant 0 : i32\n", "")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "k.ir"
    path.write_text(TEXT)
    return str(path)


def run(*arguments: str) -> int:
    return main(["opt", *arguments])


def test_no_passes_prints_the_module(file, capsys):
    assert run(file) == 0
    assert capsys.readouterr().out == TEXT


def test_passes_run_in_order(file, capsys):
    assert run("--passes=fold,dce", "--verify", file) == 0
    assert capsys.readouterr().out == CLEAN
    assert run("--passes=dce,fold", file) == 0
    assert capsys.readouterr().out == FOLDED
    assert run("--passes=standard", file) == 0
    assert capsys.readouterr().out == CLEAN


def test_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(TEXT))
    assert run("--passes=fold,dce", "--stop-after=fold") == 0
    assert capsys.readouterr().out == FOLDED


def test_print_after(file, capsys):
    assert run("--passes=fold,dce", "--print-after-all", file) == 0
    assert capsys.readouterr().out == f"// after fold\n{FOLDED}\n// after dce\n{CLEAN}\n"
    assert run("--passes=fold,dce", "--print-after=fold", file) == 0
    assert capsys.readouterr().out == f"// after fold\n{FOLDED}\n{CLEAN}"


def test_timing(file, capsys):
    assert run("--passes=fold,licm", "--timing", file) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith(" ms  fold") and lines[1].endswith(" ms  licm  (no change)")


def test_facts(file, capsys):
    assert run("--facts=ranges", file) == 0
    assert "// %zero: i32: 0..0" in capsys.readouterr().out


@pytest.mark.parametrize("change, message", [
    (("add", "sum"), "k.ir:5:8: no op is called 'sum'"),
    (("  return\n", ""), "function @k, op 2, store: a block ends in an op that is no terminator")])
def test_faulty_text(tmp_path, capsys, change, message):
    path = tmp_path / "k.ir"
    path.write_text(TEXT.replace(*change))
    assert run("--verify", str(path)) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments, message", [
    (["--passes=fold,melt"], "no pass is called 'melt'; there are inline, promise, fold"),
    (["--passes=fold", "--stop-after=cse"], "--stop-after cse: no such pass"),
    (["nowhere.ir"], "cannot read nowhere.ir: No such file or directory")])
def test_wrong_command_lines(capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
