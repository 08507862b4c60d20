"""What `importlib.metadata` says about the package `triton` in a process where the alias is installed.

The `.dist-info` in `shadow/` says 3.6.0; here the version is the knob's, which may be another.
Tests: tests/compat/test_alias.py.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Iterable
from importlib.metadata import DistributionFinder as Finder
from pathlib import Path


class AliasDistribution(importlib.metadata.Distribution):
    """An installed package that has a name and a version, and no files."""

    def __init__(self, name: str, version: str) -> None:
        self._metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        return self._metadata if filename == "METADATA" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(__file__).parent / "shadow" / path


class DistributionFinder(Finder):
    """Finds the one distribution `name`; its version is asked for each time."""

    def __init__(self, name: str, version: Callable[[], str]) -> None:
        self._name = name
        self._version = version

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """No module comes from here."""
        return

    def find_distributions(
            self, context: Finder.Context = Finder.Context()) -> Iterable[importlib.metadata.Distribution]:  # noqa: B008
        if context.name in (None, self._name):
            return [AliasDistribution(self._name, self._version())]
        return []
