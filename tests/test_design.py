"""The files and folders that docs/design.md names are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
TREE = re.search(r"^    cli +tilewright/\n(.*?)\n\n", DESIGN, re.DOTALL | re.MULTILINE)[1]
# lines of the tree whose words are names of modules
NAMED = ("layout/", "ir/", "analysis/", "language/", "frontend/", "interpret/", "runtime/", "testing/", "torch/",
         "cli/")


def parts() -> Iterator[tuple[str, str]]:
    """(folder or file, what stands beside it) for each line of the tree's right column."""
    folder = ""
    for line in TREE.splitlines():
        right = line[38:]
        name, _, words = right.partition(" ")
        folder = name or folder
        yield folder, words.strip()


def modules() -> Iterator[str]:
    """The paths that the tree names."""
    for folder, words in parts():
        yield folder
        if folder in NAMED:
            plain = re.sub(r"\(.*?\)|a file a family of names", "", words)
            yield from (folder + word for word in re.findall(r"[a-z_][a-z_0-9]*/?", plain))
        elif folder == "targets/":
            for package, names in re.findall(r"(\w+/) \((.*?)\)", words):
                yield from (f"targets/{package}{word}" for word in re.findall(r"[a-z_]+/?", names))


@pytest.mark.parametrize("name", sorted(set(modules())))
def test_the_tree_names_what_is_there(name: str) -> None:
    place = ROOT / "tilewright" / name
    assert place.exists() or place.with_suffix(".py").exists() or (place.parent / f"{place.name}.py").exists()


def test_every_package_is_in_the_tree() -> None:
    named = {folder.rstrip("/") for folder, _ in parts()}
    packages = {p.name for p in (ROOT / "tilewright").iterdir() if (p / "__init__.py").exists()}
    assert packages <= named


def test_the_left_column_is_the_order_of_imports() -> None:
    """The rows are the layers of the contract in pyproject.toml, the targets taken apart."""
    rows = [line[4:34].strip() for line in [" " * 4 + "cli", *TREE.splitlines()] if line[4:34].strip()]
    named = [word.removesuffix(".py") for row in rows for word in row.split(" | ")]
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = contract.partition('containers = ["tilewright"]\nlayers = [')[2].partition("]")[0]
    layers = [word.strip("()") for layer in re.findall(r'"([^"]+)"', listed) for word in layer.split(" | ")]
    assert list(dict.fromkeys(name.partition("/")[0] for name in named)) == layers


PATHS = re.findall(r"`((?:docs|tests|[a-z]+)/[\w/]+\.(?:py|md))`", DESIGN)


@pytest.mark.parametrize("name", sorted(set(PATHS)))
def test_paths_in_the_text(name: str) -> None:
    assert any((folder / name).exists() for folder in (ROOT, ROOT / "tilewright"))
