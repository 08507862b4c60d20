"""From PTX to a cubin, with ptxas.

ptxas is looked for on PATH, in /usr/local/cuda, in NVIDIA's wheel `nvidia-cuda-nvcc`, and where triton brings one;
without it a kernel stays PTX, which the driver compiles when it is loaded.  Its report (`-v`) is read for registers,
spills and shared memory; its advisories C75xx (wgmma serialised, setmaxnreg ignored) are kept.
Tests: tests/targets/nvidia/.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.diagnostics import CompilationError

_TIMEOUT_S = 300.0
# packages that bring the tools, and where in them they lie
_PACKAGES = (("nvidia", "cuda_nvcc/bin"), ("nvidia", "cu13/bin"), ("nvidia", "cu12/bin"),
             ("triton", "backends/nvidia/bin"))


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin, and what ptxas says of it."""

    binary: bytes
    log: str
    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    advisories: tuple[str, ...] = ()


@cache
def find_tool(name: str) -> str | None:
    """The path of `ptxas`, `nvdisasm` or `cuobjdump`; None if this machine has none."""
    found = shutil.which(name)
    for folder in _folders():
        found = found or shutil.which(name, path=str(folder))
    return found


def _folders() -> Iterator[Path]:
    yield Path("/usr/local/cuda/bin")
    for package, inside in _PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(place) / inside


def assemble(ptx: str, arch: str, name: str, options: tuple[str, ...] = ()) -> Assembled | None:
    """The cubin of `ptx` for `arch` (`sm_90a`); None without ptxas.

    Raises `CompilationError` without a location where ptxas refuses the text.
    """
    tool = find_tool("ptxas")
    if tool is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [tool, "-v", "-O3", f"-arch={arch}", *options, str(source), "-o", str(target)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise CompilationError(f"ptxas has not assembled {name} within {_TIMEOUT_S:g} s") from None
        log = (run.stdout + run.stderr).replace(str(source), "kernel.ptx")
        if run.returncode:
            raise CompilationError(f"ptxas refuses the code of {name}: {log.strip()}")
        return read_log(target.read_bytes(), log)


def read_log(binary: bytes, log: str) -> Assembled:
    """What the report of `ptxas -v` says of registers, spills, static shared memory, and its advisories."""
    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found[1]) if found else 0

    return Assembled(binary, log, number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores"),
                     number(r"(\d+) bytes smem"), tuple(re.findall(r"\bC75\d\d\b", log)))


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin.  FileNotFoundError if neither nvdisasm nor cuobjdump is there."""
    for tool, options in (("nvdisasm", ["-c"]), ("cuobjdump", ["-sass"])):
        path = find_tool(tool)
        if path is None:
            continue
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            run = subprocess.run([path, *options, file.name], capture_output=True, text=True, timeout=_TIMEOUT_S,
                                 check=True)
            return run.stdout
    raise FileNotFoundError("SASS needs nvdisasm or cuobjdump (CUDA toolkit, or the wheel nvidia-cuda-nvcc)")
