"""Without a place for the disk cache kernels run all the same, and one warning says that nothing is kept."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is a home that nobody can write to")

PROGRAM = """
import resource, sys
if sys.argv[1] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))       # each byte for a file is one too many
import numpy as np, tilewright as triton, tilewright.language as tl

@triton.jit
def first(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i)

@triton.jit
def second(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i * 2)

x = np.zeros(8, np.int32)
for kernel, factor in ((first, 1), (second, 2)) * 4:
    kernel[(1,)](x, N=8)
    assert (x == np.arange(8) * factor).all()
print("right")
"""


@pytest.mark.unchecked("the disk cache is to be used")
@pytest.mark.parametrize(("how", "home", "said"), [
    ("missing", "/does/not/exist", "there is no home folder to keep it in"),
    ("read-only", "/proc", "/proc/.cache"),
    ("full", None, "File too large; what is compiled is not kept")])
def test_kernels_run_and_one_warning_says_so(how, home, said, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    variables = {name: value for name, value in os.environ.items() if name not in (
        "XDG_CACHE_HOME", "TILEWRIGHT_CACHE_DIR", "TRITON_CACHE_DIR", "TILEWRIGHT_CACHE_HOME")}
    variables |= {"HOME": home or str(tmp_path), "TILEWRIGHT_DISK_CACHE": "1", "PYTHONDONTWRITEBYTECODE": "1",
                  "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-W", "always", path, how], capture_output=True, text=True, env=variables,
                          timeout=100)
    warned = [line for line in done.stderr.splitlines() if "Warning: " in line]
    assert done.stdout == "right\n" and len(warned) == 1 and said in warned[0], done.stderr
    line = PROGRAM.splitlines().index("    kernel[(1,)](x, N=8)") + 1
    assert warned[0].startswith(f"{path}:{line}: RuntimeWarning: the cache of compiled kernels:")
