"""What assembles for NVIDIA GPUs on this machine, and what it says of a kernel.

nvJitLink's library is looked for in NVIDIA's wheels (torch brings it), and in CUDA's folder; ptxas and the
disassemblers on PATH, in CUDA's folder, in NVIDIA's wheels, and where triton brings one.  CUDA's folder is
$CUDA_HOME, $CUDA_PATH or /usr/local/cuda.  Without any of them a kernel stays PTX, which the driver compiles when it
is loaded.  `targets.llvm.cubin` runs what is found, in the compile child.
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

from tilewright.diagnostics import CompilationError
from tilewright.locks import NO_FORK
from tilewright.targets.llvm.machine import Assembler

_TIMEOUT_S = 300.0
# packages that bring tools or libraries, and where in them those lie
_TOOL_PACKAGES = (("nvidia", "cu13/bin"), ("nvidia", "cuda_nvcc/bin"), ("nvidia", "cu12/bin"),
                  ("triton", "backends/nvidia/bin"))
_LIBRARY_PACKAGES = (("nvidia", "cu13/lib"), ("nvidia", "nvjitlink/lib"), ("nvidia", "cu12/lib"))
_LIBRARIES = "libnvJitLink.so.*"


# --- what there is


@cache
def find_assembler() -> Assembler | None:
    """nvJitLink and ptxas, as far as this machine has them; None without both."""
    library, ptxas = find_library(), find_tool("ptxas")
    return Assembler(library or "", ptxas or "") if library or ptxas else None


@cache
def find_library() -> str | None:
    """The file of nvJitLink's library."""
    for folder in (*_in_packages(_LIBRARY_PACKAGES), *(cuda / "lib64" for cuda in _cuda_folders())):
        found = sorted(folder.glob(_LIBRARIES), key=lambda path: (_numbers(path.name), -len(path.name)))
        if found:
            return str(found[-1])
    return None


@cache
def find_tool(name: str) -> str | None:
    """The path of `ptxas`, `nvdisasm` or `cuobjdump`; None if this machine has none."""
    found = [path for path in map(lambda folder: shutil.which(name, path=folder), _tool_folders()) if path]
    # A script that starts another file says nothing of that file's version, so it is the last choice.
    return next((path for path in found if not _is_script(path)), found[0] if found else None)


def _tool_folders() -> Iterator[str]:
    yield from os.environ.get("PATH", os.defpath).split(os.pathsep)
    for cuda in _cuda_folders():
        yield str(cuda / "bin")
    yield from map(str, _in_packages(_TOOL_PACKAGES))


def _cuda_folders() -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    yield Path("/usr/local/cuda")


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
    """What the report of `ptxas -v` says of registers, spills, the stack frame, and its advisories."""
    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found[1]) if found else 0

    return Report(number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores"),
                  number(r"(\d+) bytes stack frame"), tuple(dict.fromkeys(re.findall(r"\bC75\d\d\b", log))))


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin.  `CompilationError` if there is neither nvdisasm nor cuobjdump, or it fails."""
    with NO_FORK:
        import subprocess
        import tempfile
    for tool, options in (("nvdisasm", ["-c"]), ("cuobjdump", ["-sass"])):
        path = find_tool(tool)
        if path is None:
            continue
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            run = subprocess.run([path, *options, file.name], capture_output=True, text=True, timeout=_TIMEOUT_S,
                                 check=False)
        if run.returncode:
            raise CompilationError(f"{tool} does not take the cubin: {run.stderr.strip()}")
        return run.stdout
    raise CompilationError("SASS needs nvdisasm or cuobjdump, from the CUDA toolkit or the wheel nvidia-cuda-nvdisasm")
