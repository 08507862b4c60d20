"""What a user sees when a script ends with an error: one traceback, of the user's frames, and the message once.

Each case is a script that runs in a process of its own; all that it prints is compared.
"""

import copy
import os
import pickle
import re
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import CompilationError, TritonError
from tilewright.language.errors import LanguageError
from tilewright.runtime import knobs

pytestmark = pytest.mark.unchecked("each test names the engine that it looks at")

ROOT = Path(__file__).resolve().parents[2]
HEAD = """\
import sys
import numpy as np
import tilewright as triton
import tilewright.language as tl
from tilewright.compiler import ASTSource, GPUTarget, compile

a = np.zeros(4, np.float32)

@triton.jit
def other(x):
    return x

@triton.constexpr_function
def refuses(n):
    raise ValueError(f"not {n}")

@triton.jit
def kernel(x, n):
    v = tl.load(x + tl.arange(0, 4))
    BODY
"""
LAUNCH = "kernel[(1,)](a, 5)"
SEVERAL = """
def launch():
    LAUNCH

try:
    launch()
except Exception:
    sys.excepthook(*sys.exc_info())     # as at a script's end
print("-----", file=sys.stderr)
"""
BODIES = {
    "a name": "tl.store(x, offset)",
    "a function": "tl.store(x, tl.tanh(n))",
    "a method": "v.numpy()",
    "a list": "l = [1]; l.append(n)",
    "an argument": "other(x, n)",
    "a type": "v + 'a'",
    "an index": "v[7]",
    "a branch": "if n > 3:\n        w = 1\n    else:\n        w = 1.0\n    tl.store(x, w)",
    "a choice": "tl.store(x, 1 if n > 3 else 1.0)",
    "one side": "if n > 300:\n        w = 1\n    tl.store(x, w)",
    "an unset name": "tl.store(x, w); w = 1",
    "a division": "tl.store(x, 1 // 0)",
    "a depth": f"tl.store(x, {'-' * 1500}n)",
}


def printed(folder, *scripts, **environment):
    """What these scripts print to stderr, which run one after another in one process."""
    (folder / "script.py").write_text("\n".join(scripts))
    done = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT), **environment})
    return done.stderr


def script(body="pass", launch=LAUNCH):
    return HEAD.replace("BODY", body) + SEVERAL.replace("LAUNCH", launch)


def check_one_block(shown, functions):
    """One traceback with frames of these functions of the script alone, which ends in the message."""
    lines = shown.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    frames = [line for line in lines if line.startswith('  File "')]
    assert [frame.rpartition(" in ")[2] for frame in frames] == functions
    assert all("script.py" in frame for frame in frames)
    assert "direct cause" not in shown and "During handling" not in shown


@pytest.mark.parametrize("engine", ["cpu", "eager"])
def test_an_error_of_a_kernel_is_one_block(engine, tmp_path):
    interprets = engine == "eager"
    known = {name: body for name, body in BODIES.items() if not interprets or name not in ("a branch", "a choice")}
    blocks = printed(tmp_path, *map(script, known.values()), TRITON_INTERPRET=str(int(interprets))).split("-----\n")
    assert len(blocks) == len(known) + 1
    for name, block in zip(known, blocks):
        check_one_block(block, ["<module>", "launch", *(["kernel"] if interprets and name != "a depth" else [])])


def test_it_is_printed_to_the_letter(tmp_path):
    shown = printed(tmp_path, HEAD.replace("BODY", "tl.store(x, offset)"), LAUNCH)
    assert re.sub(r"(?m)^ +[~^]+\n(?=tilewright)", "", shown).replace(str(tmp_path) + "/", "") == textwrap.dedent("""\
        Traceback (most recent call last):
          File "script.py", line 22, in <module>
            kernel[(1,)](a, 5)
        tilewright.diagnostics.CompilationError: at script.py:20:17 in kernel:
                tl.store(x, offset)
                            ^^^^^^
        offset is not defined
        """)


@pytest.mark.parametrize("name", ["a branch", "a name"])
def test_what_the_program_was_handling_stays(name, tmp_path):
    launch = "try:\n        [][0]\n    except IndexError:\n        " + LAUNCH
    between = "\nDuring handling of the above exception, another exception occurred:\n\n"
    first, second = printed(tmp_path, script(BODIES[name], launch)).split(between)
    assert first.endswith("IndexError: list index out of range\n")
    check_one_block(first, ["launch"])
    check_one_block(second, ["<module>", "launch"])


def test_an_error_of_the_programs_own_function_shows_where(tmp_path):
    between = "\nThe above exception was the direct cause of the following exception:\n\n"
    first, second = printed(tmp_path, script("refuses(3)")).split(between)
    assert first.endswith("ValueError: not 3\n")
    check_one_block(first, ["refuses"])
    check_one_block(second, ["<module>", "launch"])


@triton.jit
def misspelt(x):
    tl.store(x, offset)  # noqa: F821


@triton.jit
def two_types(x, n):
    if n > 3:
        v = 1
    else:
        v = 1.0
    tl.store(x, v)


def raised(kernel, *args, engine="cpu"):
    with knobs.scope(interpret=engine == "eager"), pytest.raises(CompilationError) as caught:
        kernel[(1,)](*args)
    return caught.value


@pytest.mark.parametrize("engine", ["cpu", "eager"])
def test_programs_find_the_cause(engine):
    error = raised(misspelt, np.zeros(1, np.float32), engine=engine)
    assert isinstance(error.__cause__, LanguageError) and str(error.__cause__) == "offset is not defined"
    for again in pickle.loads(pickle.dumps(error)), copy.copy(error):
        assert again.message == error.message and again.location == error.location
    try:
        raise error from KeyError("k")
    except CompilationError as other:
        assert isinstance(other.__cause__, KeyError) and "direct cause" in "".join(traceback.format_exception(other))
    error.__cause__ = None
    assert error.__cause__ is None


@pytest.mark.parametrize("engine", ["cpu", "eager"])
def test_what_prints_by_the_attribute_prints_one_block_too(engine):
    """As logging does, and Python 3.13 at a script's end."""
    shown = "".join(traceback.format_exception(raised(misspelt, np.zeros(1, np.float32), engine=engine)))
    assert shown.count("offset is not defined") == shown.count("Traceback") == 1


def test_a_cause_that_a_program_gives_is_printed():
    with pytest.raises(TritonError) as caught:
        raise TritonError("outer") from KeyError("inner")
    assert isinstance(caught.value.__cause__, KeyError)
    assert "KeyError: 'inner'" in "".join(traceback.format_exception(caught.value))
    assert raised(two_types, np.zeros(1, np.float32), 5).__context__ is None


SPARSE = "import torch; kernel[(1,)](torch.eye(3).to_sparse(), 5)"
NO_DRIVER = "from tilewright.targets.nvidia.driver import functions; functions.LIBRARY = 'libno-such-driver.so.1'"
ON_GPU = """
import numpy as np
class OnGpu:
    dtype, device, shape = np.dtype("float32"), "cuda:0", (4,)
    data_ptr, stride = lambda self: 4096, lambda self: (1,)
"""
COMPILED = 'k = compile(ASTSource(kernel, {"x": "*fp32", "n": "i32"}), target=GPUTarget("cuda", 90, 32))'
MOVED = "pass a tensor in the CPU's memory: x.cpu()"
ON_CPU = ("to run it on this machine, compile it for its CPU: target=GPUTarget('cpu', '', 32), or launch the @jit "
          "function")


def test_a_tensor_without_data(tmp_path):
    pytest.importorskip("torch")
    block, _ = printed(tmp_path, script(launch=SPARSE)).split("-----\n")
    check_one_block(block, ["<module>", "launch"])
    assert "kernel: parameter 'x': a Tensor of layout torch.sparse_coo has no data" in block
    assert block.rstrip().endswith("pass x.to_dense(), or its parts as tensors of their own")


def test_a_machine_without_a_gpu(tmp_path):
    launches = {
        "kernel[(1,)](OnGpu(), 5)": ("parameter 'x' is on cuda:0", MOVED),
        "with triton.knobs.scope(interpret=True): kernel[(1,)](OnGpu(), 5)": ("parameter 'x' is on cuda:0", MOVED),
        "kernel[(1,)](OnGpu(), 5, check=True)": ("parameter 'x' is on cuda:0", MOVED),
        COMPILED + "; k[(1,)](a, 5)": ("compiled for cuda:90", ON_CPU),
        COMPILED + "; k.run": ("compiled for cuda:90", ON_CPU)}
    scripts = [script(launch=launch) for launch in launches]
    *blocks, rest = printed(tmp_path, NO_DRIVER, ON_GPU, *scripts).split("-----\n")
    assert len(blocks) == len(launches) and not rest
    for block, (what, cure) in zip(blocks, launches.values()):
        check_one_block(block, ["<module>", "launch"])
        assert f"kernel: {what}, but there is no driver for NVIDIA GPUs on this machine (" in block
        assert block.rstrip().endswith(cure)
