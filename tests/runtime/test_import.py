"""Importing and decorating are cheap and touch no torch, no LLVM, no driver; asked in a fresh process."""

import json
import subprocess
import sys

HEAVY = ("torch", "llvmlite", "cuda", "matplotlib", "pandas")
PROGRAM = """
import json, sys, time
import numpy
start = time.process_time()
import tilewright as triton
seconds = time.process_time() - start
import tilewright.language as tl
{body}
print(json.dumps([seconds, sorted(m for m in sys.modules if m.split(".")[0] in {heavy})]))
"""


def fresh_process(body=""):
    program = PROGRAM.format(body=body, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_loads_nothing_heavy_and_is_fast():
    runs = [fresh_process() for _ in range(3)]
    assert runs[0][1] == []
    # CPU time, since tests may share their cores; NumPy's own import, about 0.1 s, comes on top
    assert min(seconds for seconds, _ in runs) < 0.2


def test_decorating_loads_nothing_heavy():
    _, loaded = fresh_process("@triton.jit\ndef k(x, N: tl.constexpr):\n    tl.store(x, N)\nassert k.params")
    assert loaded == []


def test_the_eager_engine_needs_no_llvm(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.format(heavy=HEAVY, body="""
@triton.jit
def k(x):
    tl.store(x, 7)

x = numpy.zeros(1)
k[(1,)](x)
assert x[0] == 7
"""))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True,
                          env={**__import__("os").environ, "TRITON_INTERPRET": "1"})
    assert json.loads(done.stdout)[1] == []
