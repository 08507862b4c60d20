"""The command line itself: help, version, and what it says to a wrong command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tilewright.cli import COMMANDS, main
from tilewright.version import VERSION


def test_version(capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"tilewright {VERSION}\n"


def test_help_lists_every_command(capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    text = capsys.readouterr().out
    assert end.value.code == 0
    assert all(f"  {name}" in text and command.purpose in text for name, command in COMMANDS.items())


def test_no_command_shows_the_help(capsys) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize(("wrong", "hint"), [
    ("rnu", "did you mean 'run'?"),
    ("softmax.py", "to run a script: tilewright run softmax.py"),
    ("qqq", f"there are: {', '.join(COMMANDS)}"),
])
def test_unknown_command_is_told_what_there_is(wrong: str, hint: str, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main([wrong])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert f"no command {wrong!r}" in message and hint in message


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert f"tilewright {name}" in capsys.readouterr().out


def test_python_dash_m() -> None:
    command = [sys.executable, "-m", "tilewright", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, f"tilewright {VERSION}\n")


def test_a_closed_pipe_is_no_error() -> None:
    run = subprocess.run(f"{sys.executable} -m tilewright knobs | head -1", shell=True, capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.count("\n") == 1 and not run.stderr
