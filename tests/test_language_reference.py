"""docs/language.md is current, and its generator shows every name, as a user types it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import tilewright.language as tl
from tilewright.language.builtin import Builtin
from tilewright.language.extra import libdevice
from tools import language_reference as reference

PAGE = Path(__file__).resolve().parents[1] / "docs" / "language.md"


def test_the_page_is_current(accept: bool) -> None:
    if accept:
        PAGE.write_text(reference.page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == reference.page(), (
        ".venv/bin/python -m tools.language_reference > docs/language.md")


def test_every_function_has_an_entry() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in tl.__all__:
        if isinstance(getattr(tl, name), Builtin):
            assert text.count(f"\n### tl.{name}\n") == 1, name
    for name in libdevice.FUNCTIONS:
        assert f"`{name}" in text


@pytest.mark.parametrize("name", [n for n in tl.__all__ if isinstance(getattr(tl, n), Builtin)])
def test_signatures_can_be_typed(name: str) -> None:
    """What is shown is the signature: Python reads the same parameters and defaults from it."""
    shown = reference.shown_signature(getattr(tl, name))
    scope: dict[str, object] = {"tl": tl}
    exec(f"def f{shown}: pass", scope)
    given, wanted = (inspect.signature(f).parameters.values() for f in (scope["f"], getattr(tl, name)))
    assert [(p.name, p.kind, p.default) for p in given] == [(p.name, p.kind, p.default) for p in wanted]


def test_a_docstring_keeps_its_words() -> None:
    words = inspect.getdoc(tl.load).split()
    assert reference.prose(tl.load).split() == words


def test_tables_show_what_the_language_does() -> None:
    table = reference.promotion()
    assert "| **bf16** | fp32 |" in table and "–" in table
    assert "`tl.float8e5` | `fp8e5` | 8 | 2 bits of fraction, exponent bias 15 |" in reference.dtypes()
