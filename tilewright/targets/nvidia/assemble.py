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
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

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


class Report(NamedTuple):
    """What the log of an assembler says of a kernel; `advisories` are its codes C75xx."""

    registers: int = 0
    spill_bytes: int = 0
    stack_bytes: int = 0
    advisories: tuple[str, ...] = ()


def report_of(cubin: bytes, log: str) -> Report:
    """What an assembler said, or, where it said nothing, what the cubin says: its stack frame counts as spills then.

    nvJitLink 13.0 gives no log with the first kernel of a process (H200, 2026-11-30).
    """
    found = read_log(log)
    return found if found.registers else _read_cubin(cubin)


_REGISTERS, _FRAME = 0x2F, 0x11         # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE: (symbol, number); see `cuobjdump -elf`
_SIZED = 4                              # the format of an attribute whose bytes follow


def _read_cubin(cubin: bytes) -> Report:
    """Registers and stack frame from the section .nv.info; nothing of what is no cubin."""
    registers = frame = 0
    for attribute, value in _attributes(cubin):
        if attribute in (_REGISTERS, _FRAME) and len(value) == struct.calcsize("<II"):
            _, number = struct.unpack("<II", value)
            registers, frame = (max(registers, number), frame) if attribute == _REGISTERS else (registers,
                                                                                                max(frame, number))
    return Report(registers, frame, frame)


def _attributes(cubin: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes of all kernels of an ELF file of 64 bits: section .nv.info."""
    if cubin[:5] != b"\x7fELF\x02":
        return
    (table,), (size, count, names) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<HHH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + k * size) for k in range(count)]
    for name, _, _, _, at, length in sections:
        start = sections[names][4] + name
        if cubin[start:cubin.index(b"\0", start)] != b".nv.info":
            continue
        end = at + length
        while at < end:
            form, attribute, inside = struct.unpack_from("<BBH", cubin, at)
            at += 4
            if form == _SIZED:
                yield attribute, cubin[at:at + inside]
                at += inside


def registers_wanted(refusal: str) -> int | None:
    """The registers of a thread with which an assembler, by the text of its refusal, might take the code: 0 if it only
    says that there are too few, None if it refuses the code for another reason.

    C7602, and what else ptxas 13.0 has to say of a limit that is too low.
    """
    if not re.search(r"[Ii]nsufficient registers|[Rr]egister allocation failed|register target", refusal):
        return None
    return max([0, *map(int, re.findall(r"register target of (\d+)", refusal))])


def read_log(log: str) -> Report:
    """What the report of `ptxas -v` says of registers, spills, the stack frame, and its advisories.

    The functions that a kernel calls have lines of their own, in any order.
    """
    def numbers(pattern: str) -> list[int]:
        return [0, *map(int, re.findall(pattern, log))]

    return Report(max(numbers(r"Used (\d+) registers")), sum(numbers(r"(\d+) bytes spill stores")),
                  max(numbers(r"(\d+) bytes stack frame")), tuple(dict.fromkeys(re.findall(r"\bC75\d\d\b", log))))
