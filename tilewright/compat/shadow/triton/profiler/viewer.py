"""`triton.profiler.viewer`."""

from pathlib import Path
from typing import Any

from tilewright.compat.refusals import refused_in
from tilewright.profiler import tree
from tilewright.profiler.viewer import parse, print_tree

__getattr__ = refused_in(__name__)


def read(filename: str) -> Any:
    """The profile of a file."""
    return tree.read(Path(filename))
