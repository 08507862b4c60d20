"""The SASS of a cubin, under triton's module name.  It needs nvdisasm or cuobjdump of the CUDA toolkit.

Tests: tests/compat/test_tools.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.diagnostics import CompilationError
from tilewright.targets.nvidia.assemble import find_tool
from tilewright.targets.nvidia.disassemble import disassemble

_HEADING = re.compile(r"^\s*(?:Function : |\.section\s+\.text\.|\.text\.)([\w$.]+)", re.MULTILINE)


def get_sass(cubin_asm: bytes, fun: str | None = None) -> str:
    """The SASS of a cubin (`compiled.asm["cubin"]`), or of one function in it.

    Raises CompilationError without a disassembler, ValueError for a function that is not there.
    """
    return function_in(disassemble(cubin_asm), fun)


def extract(file_path: str, fun: str | None) -> str:
    """The same for a cubin in a file."""
    return get_sass(Path(file_path).read_bytes(), fun)


def function_in(listing: str, fun: str | None) -> str:
    """The part of a listing between the heading of `fun` and the next function's."""
    if fun is None:
        return listing
    headings = list(_HEADING.finditer(listing))
    own = [k for k, found in enumerate(headings) if found[1].rstrip(":,") == fun]
    if not own:
        names = ", ".join(dict.fromkeys(found[1].rstrip(":,") for found in headings)) or "none"
        raise ValueError(f"no function {fun!r} in the cubin; there are: {names}")
    after = next((h.start() for h in headings[own[0] + 1:] if h[1].rstrip(":,") != fun), len(listing))
    return listing[headings[own[0]].start():after]


def path_to_cuobjdump() -> tuple[str, str]:
    """(path, "") of cuobjdump; CompilationError if there is none."""
    path = find_tool("cuobjdump")
    if path is None:
        raise CompilationError("cuobjdump is not found; it comes with the CUDA toolkit")
    return str(path), ""
