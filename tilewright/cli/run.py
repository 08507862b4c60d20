"""`tilewright run script.py [args]`: run a program that says `import triton`, as it is.

Tests: tests/cli/test_run.py.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from collections.abc import Sequence

from tilewright.compat import cuda_is_missing, cuda_on_cpu, install
from tilewright.compat.script import run_file, run_module


def main(arguments: Sequence[str]) -> int:
    """Run the script; its exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if not (given.module or given.script):
        parser.error("which script? For example: tilewright run softmax.py")
    install()
    # without torch there is no device "cuda" to ask for
    on_cpu = given.on == "cpu" and importlib.util.find_spec("torch") is not None
    with cuda_on_cpu() if on_cpu else contextlib.nullcontext():
        if given.module:
            return run_module(given.module[0], given.module[1:], _hint)
        return run_file(given.script[0], given.script[1:], _hint)


def _hint(error: Exception) -> str:
    """What may help a program that ended with `error`, or nothing."""
    text = str(error)
    if cuda_is_missing() and any(said in text for said in _NO_CUDA):
        return "tilewright run: this machine has no CUDA device; `tilewright run --on cpu SCRIPT` runs it on the CPU"
    return ""


# what torch says where there is no GPU, no driver, or no build for one
_NO_CUDA = ("Found no NVIDIA driver", "not compiled with CUDA", "No CUDA GPUs", "CUDA driver initialization failed",
            "no NVIDIA GPU", "NVIDIA driver on your system", "CUDA is not available", "Torch not linked with CUDA")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilewright run", usage="tilewright run [--on cpu] SCRIPT [ARGUMENTS ...]",
        description="Run a Python program that says `import triton`, unchanged: it gets Tilewright under that name, "
                    "and so do the processes that it starts.")
    parser.add_argument("--on", choices=["cpu"],
                        help="run a program that insists on CUDA on this machine's CPU: device 'cuda' means the CPU, "
                             "and torch.cuda answers as if there were a GPU")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE",
                        help="run a module with the arguments that follow, like python -m")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the script and its arguments")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
