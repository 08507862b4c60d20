"""`tilewright knobs`, and that its page in the documentation is current."""

from __future__ import annotations

from pathlib import Path

from tilewright.cli.knobs import main, page
from tilewright.runtime.knobs import TABLE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "knobs.md"


def test_the_page_is_current(accept, capsys):
    if accept:
        PAGE.write_text(page(), encoding="utf-8")
    assert main(["--page"]) == 0
    assert capsys.readouterr().out == PAGE.read_text(encoding="utf-8"), "tilewright knobs --page > docs/knobs.md"


def test_the_page_has_every_knob_and_every_variable():
    for knob in TABLE.values():
        assert f"## {knob.name}\n" in page() and knob.doc in page()
        assert all(f"`{variable}`" in page() for variable in knob.variables)


def test_what_counts_now(capsys, monkeypatch):
    monkeypatch.setenv("TRITON_DEBUG", "1")
    monkeypatch.delenv("TILEWRIGHT_DEBUG", raising=False)
    monkeypatch.delenv("TILEWRIGHT_NUM_THREADS", raising=False)
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "* debug = True" in lines and "  num_threads = 0" in lines
