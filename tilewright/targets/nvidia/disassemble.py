"""From a cubin to SASS, with nvdisasm or cuobjdump, when somebody asks for it.

Tests: tests/targets/nvidia/test_target.py.
"""

from __future__ import annotations

import subprocess
import tempfile

from tilewright.diagnostics import CompilationError
from tilewright.targets.nvidia.assemble import find_tool

_TIMEOUT_S = 300.0


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin.  `CompilationError` if there is neither nvdisasm nor cuobjdump, or it fails."""
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
