"""Importing and decorating touch no torch, no LLVM, no driver; asked in a fresh process.

How long an import takes is measured by benchmarks/compile.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "llvmlite", "cuda", "matplotlib", "pandas")
PROGRAM = """
import json, sys
import numpy
import tilewright as triton
import tilewright.language as tl
{body}
print(json.dumps(sorted(m for m in sys.modules if m.split(".")[0] in {heavy})))
"""


def fresh_process(body=""):
    program = PROGRAM.format(body=body, heavy=HEAVY)
    return what_it_loads("-c", program)


def what_it_loads(*arguments, **environment):
    """What a program prints, run from this source tree whether it is installed or not."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT), **environment})
    return json.loads(done.stdout)


def test_import_loads_nothing_heavy():
    assert fresh_process() == []


def test_decorating_loads_nothing_heavy():
    assert fresh_process("@triton.jit\ndef k(x, N: tl.constexpr):\n    tl.store(x, N)\nassert k.params") == []


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
    assert what_it_loads(str(script), TRITON_INTERPRET="1") == []
