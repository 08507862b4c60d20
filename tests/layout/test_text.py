"""Layouts in IR text."""

from __future__ import annotations

import random

import pytest

from tests.layout.random_layouts import random_layout, random_shape
from tilewright.ir.parse import parse_module
from tilewright.ir.types import F32, Tile
from tilewright.layout.families import blocked, coalesced
from tilewright.layout.linear import Layout
from tilewright.layout.text import parse


@pytest.mark.parametrize("seed", range(30))
def test_print_and_parse_is_the_identity(seed: int) -> None:
    rng = random.Random(seed)
    layout = random_layout(rng, random_shape(rng, rng.randint(0, 10)), rng.randint(0, 3), True)
    assert parse(str(layout)) == layout and ">" not in str(layout)


def test_every_rank_and_input() -> None:
    for layout in (Layout.of((), register=(), lane=(0, 0), warp=()), Layout.of((2,) * 26, offset=(1, 2 | 1 << 25)),
                   Layout.of((4, 2), register=(1,), lane=(2,), warp=(), block=(4,)), Layout((8,), ())):
        assert parse(str(layout)) == layout


def test_short_forms() -> None:
    assert parse("#blocked(128x64, 1x4, 4x8, 4x1, 1x0)") == blocked((128, 64), (1, 4), (4, 8), (4, 1), (1, 0))
    assert parse(" #coalesced(1000, 4, 8)") == coalesced((1000,), 4, 8)


@pytest.mark.parametrize("text, message", [
    ("linear(4)", "is written as"), ("#round(4)", "no layout family #round"), ("#linear(4, lane c0)", "no basis"),
    ("#linear(4, lane a2)", "no basis"), ("#linear(4, lane a)", "no basis"), ("#linear(3)", "3 is not a power of two"),
    ("#linear(4y)", "expected a number"), ("#linear(4, )", "expected an input"), ("#blocked(4, 4)", "2 fields"),
    ("#linear(4, lane a0, lane a1)", "named twice"), ("#linear(scalar, lane a0)", "of shape scalar")])
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_layouts_in_tile_types() -> None:
    layout = blocked((8, 4), (1, 2), (8, 4), (1, 1), (1, 0))
    text = f"module @k\n\nfunc @k(%x: {Tile((7, 4), F32, layout)}) {{\n  return\n}}\n"
    module = parse_module(text)
    assert module.entry.params[0].type == Tile((7, 4), F32, layout)
