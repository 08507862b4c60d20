"""The compile child's own side: answers to requests, and its command line for reproducers."""

import subprocess
import sys

import pytest

from tests.targets.llvm.crashes import ABORT, GOOD, REFUSED
from tilewright.targets.llvm import server, toolchain
from tilewright.targets.llvm.machine import ASSEMBLY, Machine, Request
from tilewright.targets.llvm.requests import COMPILE, DONE, FAULT, HOST, pack, reproducer
from tilewright.targets.llvm.requests import REFUSED as SAYS_NO

HERE = toolchain.host_machine()


def test_answers():
    status, *machine = server.answer([HOST])
    assert status == DONE and Machine(*(m.decode() for m in machine)) == HERE
    status, binary = server.answer(pack(Request(GOOD, HERE)))
    assert status == DONE and binary == toolchain.compile_object(GOOD, HERE).binary
    status, text = server.answer(pack(Request(GOOD, HERE, ASSEMBLY)))
    assert status == DONE and b"f:" in text


def test_refusals_and_faults():
    status, reason = server.answer(pack(Request(REFUSED, HERE)))
    assert status == SAYS_NO and b"line 2: %y = add i32 %x, 1" in reason
    assert server.answer([b"nonsense"])[0] == FAULT
    assert b"Traceback" in server.answer([COMPILE])[1]


def test_other_machines():
    made = toolchain.compile_request(Request(GOOD, Machine("nvptx64-nvidia-cuda", "sm_80", "+ptx80"), ASSEMBLY))
    assert b".target sm_80" in made


def run(tmp_path, text):
    file = tmp_path / "repro.ll"
    file.write_text(text)
    return subprocess.run([sys.executable, "-m", "tilewright.targets.llvm.server", str(file)], capture_output=True,
                          text=True, timeout=60)


@pytest.mark.parametrize(("text", "status", "said"), [
    (GOOD, 0, "bytes of machine code"), (reproducer(Request(GOOD, HERE, ASSEMBLY)), 0, "f:"),
    (REFUSED, 1, "line 2"), (ABORT, -6, "Cannot select")])
def test_command_line(tmp_path, text, status, said):
    done = run(tmp_path, text)
    assert done.returncode == status
    assert said in done.stdout + done.stderr


def test_usage(capsys):
    assert server.main([]) == 2
    assert "FILE" in capsys.readouterr().err
