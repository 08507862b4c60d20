"""Putting the package `triton` of `shadow/` first on the import path.

The shadow tree holds ordinary modules that re-export Tilewright's objects, and a `.dist-info` that makes the installed
version of `triton` known to `importlib.metadata`.  Since it is found by path alone, subprocesses see it too, through
PYTHONPATH.  Before: no other `triton` is loaded; `install` refuses otherwise, for two of them in one process would mix.
After: `import triton` and all its submodules come from here.
Tests: tests/compat/test_alias.py.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tilewright.compat.distribution import DistributionFinder
from tilewright.runtime import knobs

SHADOW = Path(__file__).parent / "shadow"

# The parts of torch that import triton when they are loaded, and keep what they found.
_TORCH_COMPILER = ("torch._dynamo", "torch._inductor")


def install() -> None:
    """Make `import triton` mean Tilewright, in this process and in those that it starts.

    Call it before anything imports triton; RuntimeError says what was loaded first when it comes too late.
    """
    refuse_if_late()
    path = str(SHADOW)
    if path in sys.path:
        sys.path.remove(path)
    sys.path.insert(0, path)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([path, *(p for p in inherited if p not in ("", path))])
    if not any(isinstance(finder, DistributionFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, DistributionFinder("triton", lambda: str(knobs.read("version"))))
    importlib.invalidate_caches()


def refuse_if_late() -> None:
    """RuntimeError if another triton is in this process already."""
    triton = sys.modules.get("triton")
    if triton is None or _is_ours(triton):
        return
    loaded = [name for name in sys.modules if name in ("triton", *_TORCH_COMPILER)]
    torch_parts = [name for name in loaded if name != "triton"]
    also = f", and so {_are(torch_parts)} (which hold on to it)" if torch_parts else ""
    raise RuntimeError(
        f"tilewright.compat.install() comes too late: loaded first, in this order: {', '.join(loaded)}. "
        f"The module triton is from {getattr(triton, '__file__', None)}{also}. "
        "Call install() at the start of the program, before anything imports triton or uses torch.compile; "
        "or start the program with: tilewright run script.py")


def _is_ours(module: object) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and SHADOW in Path(file).parents


def _are(names: Iterable[str]) -> str:
    names = list(names)
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"
