"""A text that changes with everything in this package that generated code depends on.

Caches outside the package (torch's) put it in their keys.  Tests: tests/runtime/test_config.py.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from pathlib import Path

from tilewright.version import VERSION


@functools.cache
def triton_key() -> str:
    """Versions of the package and of llvmlite, and a hash of the package's sources; named as in triton."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return f"tilewright-{VERSION}-llvmlite-{importlib.metadata.version('llvmlite')}-{digest.hexdigest()}"
