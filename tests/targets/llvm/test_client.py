"""The compile child from its parent: deaths, timeouts, forks, threads, and that nothing is left behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.targets.llvm.crashes import ABORT, EXIT, GOOD, REFUSED, SEGFAULT
from tilewright.diagnostics import CompilationError, InternalError, TritonError
from tilewright.targets.llvm import child as child_module
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.client import CompileChildren
from tilewright.targets.llvm.inprocess import InProcess
from tilewright.targets.llvm.machine import ASSEMBLY, Request
from tilewright.targets.llvm.requests import read_reproducer

HERE = toolchain.host_machine()
posix_only = pytest.mark.skipif(os.name == "nt", reason="POSIX processes")
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


@pytest.fixture
def children(tmp_path):
    made = CompileChildren(limit=2, timeout_s=60, reproducers=tmp_path)
    yield made
    made.close()


def ended(pid, within_s=5.0):
    """Whether the process is gone (not a zombie either) before long."""
    end = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_same_results_as_in_this_process(children):
    for compiler in (children, InProcess()):
        assert compiler.host() == HERE
        assert compiler.compile(Request(GOOD, HERE), "k") == toolchain.compile_object(GOOD, HERE).binary
        assert b"f:" in compiler.compile(Request(GOOD, HERE, ASSEMBLY), "k")
        with pytest.raises(InternalError, match="line 2: %y = add i32 %x, 1"):
            compiler.compile(Request(REFUSED, HERE), "k")


@pytest.mark.parametrize(("text", "how"), [
    (SEGFAULT, "SIGSEGV"), (ABORT, "SIGABRT: LLVM ERROR: Cannot select"), (EXIT, "exit status 1: error: couldn't all")])
def test_death_is_an_error_and_the_next_compilation_works(children, capfd, text, how):
    with pytest.raises(CompilationError, match=f"ended its process while it compiled k.*{how}") as caught:
        children.compile(Request(text, HERE), "k<1>")
    saved = re.search(r"in (\S+\.ll)", caught.value.message)[1]
    assert read_reproducer(Path(saved).read_text(), HERE) == Request(text, HERE)
    assert children.compile(Request(GOOD, HERE), "k")
    assert capfd.readouterr() == ("", "")       # what LLVM prints is in the message, and nowhere else
    assert len(children.pids()) == 1


def test_reproducer_without_its_folder(children, tmp_path):
    children._reproducers = tmp_path / "missing"
    with pytest.raises(CompilationError, match=r"the text is in \S+\.ll") as caught:
        children.compile(Request(EXIT, HERE), "k")
    os.unlink(re.search(r"in (\S+\.ll)", caught.value.message)[1])


@posix_only
def test_a_child_that_was_killed_while_it_was_idle_is_not_noticed(children):
    children.host()
    (pid,) = children.pids()
    os.kill(pid, signal.SIGKILL)
    assert children.compile(Request(GOOD, HERE), "k")
    assert children.pids() != [pid]


@posix_only
def test_timeout(tmp_path):
    children = CompileChildren(1, 0.3, tmp_path)
    children.prepare()
    (pid,) = children.pids()
    os.kill(pid, signal.SIGSTOP)        # a child that never answers
    with pytest.raises(CompilationError, match=r"not compiled k within 0\.3 s .*TILEWRIGHT_COMPILE_TIMEOUT.*\.ll"):
        children.compile(Request(GOOD, HERE), "k")
    assert ended(pid)
    children._timeout_s = 60
    assert children.compile(Request(GOOD, HERE), "k")
    children.close()


@linux_only
def test_interrupt_leaves_no_wrong_answer(children, monkeypatch):
    children.host()
    (pid,) = children.pids()

    def interrupted(read):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(child_module, "read_frame", interrupted)
        with pytest.raises(KeyboardInterrupt):
            children.compile(Request(GOOD, HERE), "k")
    assert ended(pid)
    assert children.compile(Request(GOOD, HERE, ASSEMBLY), "k").startswith(b"\t")


def test_threads_share_the_children(children):
    results = []

    def work(k):
        for j in range(4):
            text = GOOD.replace(", 1", f", {10 * k + j}")
            results.append(children.compile(Request(text, HERE), "k") == toolchain.compile_object(text, HERE).binary)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 20
    assert 1 <= len(children.pids()) <= 2


@linux_only
def test_close_leaves_nothing(children):
    children.host()
    before = len(os.listdir("/proc/self/fd"))
    pids = children.pids()
    children.close()
    assert all(ended(p) for p in pids)
    assert len(os.listdir("/proc/self/fd")) == before - 3      # two pipes and the log
    assert children.host() == HERE                             # and it can go on


@linux_only
def test_forked_process_has_children_of_its_own(children):
    children.host()
    pids = children.pids()
    pid = os.fork()
    if pid == 0:
        good = not children.pids() and bool(children.compile(Request(GOOD, HERE), "k")) and children.pids() != pids
        children.close()
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert children.compile(Request(GOOD, HERE), "k") and children.pids() == pids


PARENT = """
import sys, time
from tilewright.targets.llvm.client import CHILDREN
CHILDREN.host()
print(*CHILDREN.pids(), "llvmlite" in sys.modules, flush=True)
{then}
"""


@linux_only
@pytest.mark.parametrize("then", ["time.sleep(60)", "", "raise SystemExit(3)", "import os; os._exit(0)",
                                  "import os\nif os.fork(): os._exit(0)\ntime.sleep(9)"])
def test_children_end_with_their_parent(then):
    """Killed or not; also when a process that was forked from the parent still holds the pipe."""
    parent = subprocess.Popen([sys.executable, "-W", "error", "-c", PARENT.format(then=then)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    try:
        pid, imported = parent.stdout.readline().split()
        assert imported == "False"
        if then == "time.sleep(60)":
            parent.kill()
        assert ended(pid)
        parent.wait(10)
        if "fork" not in then:
            assert parent.stderr.read() == ""
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        parent.stderr.close()


def test_no_python_to_start(children, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(TritonError, match="TILEWRIGHT_COMPILE_IN_PROCESS"):
        children.host()


def test_child_imports_no_more_than_it_needs():
    program = child_module._PROGRAM.replace("serve(", "print(sorted(sys.modules)) #").format(
        path=child_module.search_path(), name="tilewright", folder=str(child_module.PACKAGE), parent=0)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "tilewright.runtime", "tilewright.ir", "tilewright.language"} & set(eval(done.stdout))
