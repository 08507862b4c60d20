"""Long `for` loops can be stopped: by the time limit with program and line, and by Ctrl-C."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright import knobs

KERNELS = """
import os, signal, sys, threading, time
import numpy as np
import tilewright as triton
import tilewright.language as tl

@triton.jit
def scalar(out, n: tl.int64):
    total = tl.load(out) * 0
    for i in range(n):
        total += tl.load(out + i % 8) + i
    tl.store(out, total)

@triton.jit
def nested(out, n: tl.int64):
    i = tl.arange(0, 256)
    for a in range(n):
        for b in range(n):
            tl.store(out + i, tl.load(out + i) * 0 + a + b)

if __name__ == "__main__":
    kernel = {name}
    out = np.zeros(256, np.int64)
    for _ in range(5):                  # short until now, and launched by native code
        kernel[(3,)](out, 20)
    if {interrupt}:
        threading.Thread(target=lambda: (time.sleep(0.5), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
    try:
        kernel[(3,)](out, 2**60)
    except (KeyboardInterrupt, TimeoutError) as error:
        print(type(error).__name__, error)
        kernel[(3,)](out, 20)
        sys.exit(0)
    sys.exit(4)
"""


@pytest.mark.unchecked("the limit of time is compiled code's")
@pytest.mark.parametrize("host", ["linux", "portable"])
@pytest.mark.parametrize("name, lines", [("scalar", (10,)), ("nested", (17, 18))])
@pytest.mark.parametrize("interrupt", [True, False])
def test_an_endless_for_loop_ends(tmp_path, host, name, lines, interrupt):
    file = tmp_path / "endless.py"
    file.write_text(textwrap.dedent(KERNELS).replace("{name}", name).replace("{interrupt}", str(interrupt)))
    environment = {**os.environ, "TILEWRIGHT_HOST": host, "PYTHONPATH": os.pathsep.join(sys.path)}
    if not interrupt:
        environment["TILEWRIGHT_TIMEOUT"] = "0.5"
    child = subprocess.run([sys.executable, str(file)], timeout=100, capture_output=True, text=True, env=environment)
    assert child.returncode == 0, child.stdout + child.stderr
    if interrupt:
        assert child.stdout.startswith("KeyboardInterrupt")
    else:
        assert child.stdout.startswith("TimeoutError")
        assert any(f"endless.py:{line}:" in child.stdout for line in lines)
        assert "program (" in child.stdout


@triton.jit
def powers(out, n, CONSTANT: tl.constexpr):
    x = 1
    for _ in range(n):
        x = x * 3 % 1_000_003
    for _ in range(CONSTANT):
        x = x * 5 % 1_000_003
    tl.store(out, x)


@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 4097, 10_000, 100_001])
def test_looking_changes_nothing(n):
    out = np.zeros(1, np.int32)
    powers[(1,)](out, n, 7)
    assert out[0] == pow(3, n, 1_000_003) * pow(5, 7, 1_000_003) % 1_000_003


def test_short_loops_do_not_look():
    out = np.zeros(1, np.int32)
    with knobs.scope(disk_cache=False):
        assert powers.warmup(out, 10, 7, grid=(1,)).code.metadata["loops"][1:] == []
        assert len(powers.warmup(out, 10, 100_000, grid=(1,)).code.metadata["loops"]) == 2
