"""The example on the package's page is true."""

from __future__ import annotations

import numpy as np

from tilewright.layout import Layout


def test_the_worked_example() -> None:
    layout = Layout.of((4, 8), register=(1, 8), lane=(2, 4), warp=(16,))
    assert str(layout) == "#linear(4x8, register b0 a0, lane b1 b2, warp a1)"
    assert layout(register=3, lane=2, warp=1) == 29 == 3 * 8 + 5
    tile = np.arange(32).reshape(4, 8)
    assert tile.reshape(-1)[layout.table()][3, 2 + 4 * 1] == 29
