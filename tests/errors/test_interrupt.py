"""Ctrl-C and time limits in a kernel that does not end: the error names kernel, program and line of the loop."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl

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


@triton.jit
def endless(flag, n, KIND: tl.constexpr):
    tl.store(flag + 1, 1)
    if KIND == "while":
        while tl.load(flag, volatile=True) == 0:  # while
            pass
    if KIND == "continue":
        while tl.load(flag, volatile=True) == 0:  # continue
            if n > 0:
                continue
    if KIND == "for":
        for i in range(1 << 30):  # for
            if tl.load(flag, volatile=True) == 7:
                tl.store(flag, i)
    if KIND == "unrolled":
        for i in tl.static_range(1 << 15):  # unrolled
            tl.store(flag, i)


ENGINES = {"linux": {"host": "linux"}, "portable": {"host": "portable"}, "eager": {"interpret": True},
           "checked": {"check": True}}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["while", "continue", "for", "unrolled"])
def test_a_time_limit_names_the_loop(engine, kind):
    if (engine == "linux" and sys.platform != "linux") or (kind == "unrolled" and engine != "eager"):
        pytest.skip("not there")
    flag = np.zeros(2, np.int32)
    settings = {"interpret": False, "check": False, **ENGINES[engine]}
    with triton.knobs.scope(timeout=0.2, **settings), pytest.raises(TimeoutError) as caught:
        endless[(2,)](flag, 3, KIND=kind)
    said = str(caught.value)
    first = endless.first_line
    line = next(first + i for i, text in enumerate(endless.src.splitlines()) if text.endswith(f"# {kind}"))
    assert "endless has not ended within 0.2 s (TILEWRIGHT_TIMEOUT); program (" in said, said
    assert f"{__file__}:{line}:" in said and flag[1] == 1


@pytest.mark.parametrize("engine", ["eager", "checked"])
def test_a_time_limit_between_programs(engine):
    flag = np.ones(2, np.int32)
    with triton.knobs.scope(timeout=0.01, **ENGINES[engine]), pytest.raises(TimeoutError, match="between two programs"):
        endless[(1 << 22,)](flag, 3, KIND="none")


@pytest.mark.parametrize("engine", ["eager", "checked"])
def test_a_launch_in_time(engine):
    flag = np.ones(2, np.int32)
    with triton.knobs.scope(timeout=60.0, **ENGINES[engine]):
        endless[(2,)](flag, 3, KIND="while")
