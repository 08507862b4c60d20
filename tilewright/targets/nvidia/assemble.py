"""What assembles for NVIDIA GPUs on this machine, and what it says of a kernel.

nvJitLink's library is looked for in NVIDIA's wheels (torch brings it), and in CUDA's folder; ptxas and the
disassemblers on PATH, in CUDA's folder, in NVIDIA's wheels, and where triton brings one.  CUDA's folder is the one
that is given (the knob `cuda_home`), or /usr/local/cuda.  Without an assembler a kernel stays PTX, which the driver
compiles when it is loaded.  `targets.llvm.cubin` runs what is found, in the compile child.
The log of both is read for registers and spills; its advisories C75xx (wgmma serialised, setmaxnreg ignored) are kept.
Tests: tests/targets/nvidia/test_assemble.py.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.targets.llvm.machine import Assembler

# packages that bring tools or libraries, and where in them those lie
_TOOL_PACKAGES = (("nvidia", "cu13/bin"), ("nvidia", "cuda_nvcc/bin"), ("nvidia", "cu12/bin"),
                  ("triton", "backends/nvidia/bin"))
_LIBRARY_PACKAGES = (("nvidia", "cu13/lib"), ("nvidia", "nvjitlink/lib"), ("nvidia", "cu12/lib"))
_LIBRARIES = "libnvJitLink.so.*"
_CUDA = "/usr/local/cuda"       # where NVIDIA's installer puts it


# --- what there is


@cache
def find_assembler(cuda_home: str = "", ptxas: str | None = None) -> Assembler | None:
    """nvJitLink and ptxas, as far as this machine has them; None without both.  A `ptxas` that is named is the only
    one that is used."""
    if ptxas:
        return Assembler("", ptxas)
    library, ptxas = find_library(cuda_home), find_tool("ptxas", cuda_home)
    return Assembler(library or "", ptxas or "") if library or ptxas else None


@cache
def find_library(cuda_home: str = "") -> str | None:
    """The file of nvJitLink's library."""
    for folder in (*_in_packages(_LIBRARY_PACKAGES), *(cuda / "lib64" for cuda in _cuda_folders(cuda_home))):
        found = sorted(folder.glob(_LIBRARIES), key=lambda path: (_numbers(path.name), -len(path.name)))
        if found:
            return str(found[-1])
    return None


@cache
def find_tool(name: str, cuda_home: str = "") -> str | None:
    """The path of `ptxas`, `nvdisasm` or `cuobjdump`; None if this machine has none."""
    folders = [None, *(str(cuda / "bin") for cuda in _cuda_folders(cuda_home)), *_in_packages(_TOOL_PACKAGES)]
    found = [path for path in (shutil.which(name, path=folder) for folder in folders) if path]
    # A script that starts another file says nothing of that file's version, so it is the last choice.
    return next((path for path in found if not _is_script(path)), found[0] if found else None)


def _cuda_folders(given: str) -> list[Path]:
    return [Path(folder) for folder in (given, _CUDA) if folder]


def _in_packages(packages: tuple[tuple[str, str], ...]) -> Iterator[Path]:
    for package, inside in packages:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(place) / inside


def _numbers(name: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", name)]


def _is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def key_of(assembler: Assembler | None) -> str:
    """A text that another version of the assembler changes: names, sizes and times of the files, without running
    them."""
    if assembler is None:
        return "no assembler"
    texts = []
    for path in filter(None, (assembler.library, assembler.ptxas)):
        real = os.path.realpath(path)
        status = os.stat(real)
        texts.append(f"{os.path.basename(real)} {status.st_size} {status.st_mtime_ns}")
    return ", ".join(texts)


# --- what it says


@dataclass(frozen=True, slots=True)
class Report:
    """What the log of an assembler says of a kernel; `advisories` are its codes C75xx."""

    registers: int = 0
    spill_bytes: int = 0
    stack_bytes: int = 0
    advisories: tuple[str, ...] = ()


def read_log(log: str) -> Report:
    """What the report of `ptxas -v` says of registers, spills, the stack frame, and its advisories.

    The functions that a kernel calls have lines of their own, in any order.
    """
    def numbers(pattern: str) -> list[int]:
        return [0, *map(int, re.findall(pattern, log))]

    return Report(max(numbers(r"Used (\d+) registers")), sum(numbers(r"(\d+) bytes spill stores")),
                  max(numbers(r"(\d+) bytes stack frame")), tuple(dict.fromkeys(re.findall(r"\bC75\d\d\b", log))))
