"""Ctrl-C in a kernel that does not end: the error names the kernel, the program and the line of the loop."""

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import os, signal, threading, time
    import numpy as np
    import tilewright as triton
    import tilewright.language as tl

    @triton.jit
    def spins(flag):
        tl.store(flag + 1, 1)
        while tl.load(flag, volatile=True) == 0:  # the loop
            pass

    flag = np.zeros(2, np.int32)

    def interrupt():
        while not flag[1]:
            time.sleep(0.01)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    spins[(2,)](flag)
"""


def interrupted(tmp_path, **settings):
    """What a process with the program says when it is interrupted, and the place of the loop."""
    path = tmp_path / "spins.py"
    path.write_text(textwrap.dedent(PROGRAM))
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if text.endswith("# the loop"))
    variables = {**os.environ, "TILEWRIGHT_CHECK": "0", **settings, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=variables, timeout=60)
    return done.stderr, f"{path}:{line}:"


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
@pytest.mark.parametrize("host", ["linux", "portable"])
def test_the_line_is_named(host, tmp_path):
    if host == "linux" and sys.platform != "linux":
        pytest.skip("Linux only")
    said, place = interrupted(tmp_path, TILEWRIGHT_HOST=host)
    assert f"KeyboardInterrupt: at {place}5 in spins:" in said, said
    assert "spins was interrupted; program (" in said and "was in this loop" in said


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_the_eager_engine_names_the_line(tmp_path):
    said, place = interrupted(tmp_path, TILEWRIGHT_INTERPRET="1")
    assert f"KeyboardInterrupt: at {place}" in said, said
    assert "spins was interrupted; program (0, 0, 0) was here" in said


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_checked_mode_names_the_line(tmp_path):
    said, place = interrupted(tmp_path, TILEWRIGHT_CHECK="1")
    assert f"KeyboardInterrupt: at {place}" in said, said
    assert "spins was interrupted; program (0, 0, 0) was here" in said and "numpy" not in said


MANY = """
    import os, signal, threading, time
    import numpy as np
    import tilewright as triton
    import tilewright.language as tl

    @triton.jit
    def adds(x, N: tl.constexpr):  # the kernel
        i = tl.arange(0, N)
        tl.store(x + i, tl.sin(tl.load(x + i)))

    x = np.zeros(1024, np.float32)
    adds[(1,)](x, N=1024)
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    while True:
        adds[(200_000_000,)](x, N=1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
@pytest.mark.parametrize("host", ["linux", "portable"])
def test_a_launch_of_very_many_programs_names_the_kernel(host, tmp_path):
    """No loop polls; the launch ends between two programs, and the error shows where the kernel is."""
    if host == "linux" and sys.platform != "linux":
        pytest.skip("Linux only")
    path = tmp_path / "adds.py"
    path.write_text(textwrap.dedent(MANY))
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if text.endswith("# the kernel"))
    variables = {**os.environ, "TILEWRIGHT_HOST": host, "TILEWRIGHT_CHECK": "0",
                 "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=variables, timeout=60)
    assert f"KeyboardInterrupt: at {path}:{line}:1 in adds:" in done.stderr, done.stderr
    assert "adds was interrupted; it was stopped between two programs" in done.stderr
