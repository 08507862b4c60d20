"""What the analyses find, as text: tests/analysis/golden/<analysis>/<case>.ir."""

from pathlib import Path

import pytest

from tests.passes.golden_files import Golden, compare, read
from tilewright.cli.opt import fact_lines
from tilewright.ir.parse import parse_module
from tilewright.ir.verify import verify

CASES = [read(p) for p in sorted((Path(__file__).parent / "golden").glob("*/*.ir"))]


@pytest.mark.parametrize("golden", CASES, ids=lambda g: g.id)
def test_golden(golden: Golden, accept: bool):
    module = parse_module(golden.before, str(golden.path))
    verify(module)
    assert golden.header["facts"] == golden.path.parent.name
    compare(golden, "\n".join(fact_lines(module, golden.header["facts"])) + "\n", accept)
