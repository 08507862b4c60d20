"""Modules of others that the program has imported, to the end.

`sys.modules` names a module while another thread still imports it, when half of its names are missing, and a folder of
that name that Python takes for a package.  Both count as not imported.
Tests: tests/test_imported.py.
"""

from __future__ import annotations

import sys
from typing import Any


def imported(name: str) -> Any:
    """The module called `name`, or None if the program has not imported it, or not yet."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if spec is not None and (getattr(spec, "_initializing", False) or spec.origin is None):
        return None
    return module
