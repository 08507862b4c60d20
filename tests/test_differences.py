"""docs/differences.md is current, and its generator refuses marks that do not make sense."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.departures import TOPICS, differs
from tools import differences_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "differences.md"


def test_the_page_is_current(accept: bool) -> None:
    if accept:
        PAGE.write_text(differences_page.page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == differences_page.page(), (
        ".venv/bin/python -m tools.differences_page > docs/differences.md")


def test_links_lead_to_tests() -> None:
    links = re.findall(r"\[(test_\w+)\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert len(links) > 50
    for name, target in links:
        assert f"def {name}(" in (PAGE.parent / target).read_text(encoding="utf-8")


def test_every_topic_has_entries() -> None:
    assert {d.topic for d in differences_page.departures()} == set(TOPICS)


SAID = '@differs("A", topic="Memory", peer="p", ours="o")\ndef test_one(): pass\n'


def page_of(folder: Path, text: str) -> str:
    (folder / "test_some.py").write_text(text)
    return differences_page.page(folder)


def test_tests_of_one_title_stand_together(tmp_path: Path) -> None:
    text = page_of(tmp_path, '@differs("A")\ndef test_zero(): pass\n' + SAID)
    assert re.search(r"### A\n\n\*triton\*: p\n\n\*Tilewright\*: o\n\nTests: \[test_zero\].*, \[test_one\]", text)


@pytest.mark.parametrize(("text", "words"), [
    (SAID + SAID, "'A' is described twice"),
    ('@differs("B")\ndef test_two(): pass\n', "'B' is described nowhere"),
    (SAID.replace("test_one", "one"), "one is marked, and is no test"),
])
def test_wrong_marks(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        page_of(tmp_path, text)


def test_a_mark_says_all_or_its_title() -> None:
    with pytest.raises(TypeError, match="go together"):
        differs("C", peer="p")
    with pytest.raises(ValueError, match="no topic is called 'Weather'"):
        differs("C", topic="Weather", peer="p", ours="o")
