"""Every link of README.md, CHANGELOG.md, CONTRIBUTING.md and docs/ leads to a file, and to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for title in re.findall(r"^#+ (.+?)\s*#*$", without_code(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        anchor = base = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = 0
        while anchor in found:      # GitHub numbers headings of one name
            count += 1
            anchor = f"{base}-{count}"
        found.add(anchor)
    return found


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def dead_links(page: Path) -> list[str]:
    """The links of a page that lead nowhere in this repository."""
    dead = []
    text = re.sub(r"`[^`]+`", "`code`", without_code(page.read_text(encoding="utf-8")))
    for link in _LINK.findall(text):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists() or (anchor and anchor not in headings(target.read_text(encoding="utf-8"))):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `x` (y)\n## Two\n## Two\n[a](#one-x-y) [b](#two-1) [c](#three) [d](none.md)\n"
                    "[e](page.md#two)\n[f](https://example.org/none.md)\n"
                    "`k[g](x)`\n```\n[h](none.md)\n# no\n```\n[i](#no)\n")
    assert dead_links(page) == ["#three", "none.md", "#no"]
