"""Checked mode on foreign code: it finds nothing in the operators of flag-gems but what is there.

Each entry of `FOUND` was read in the package's source: triton leaves the lanes that a masked load without `other` does
not read undefined, and these kernels use them.  Run by `make corpus`.
"""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.corpus.gems import import_flag_gems, missing

if missing():
    pytest.skip(f"not installed: {', '.join(missing())}; `make corpus` installs them", allow_module_level=True)

from tests.corpus.operators import OPERATORS, Operator
from tests.corpus.test_flag_gems import check
from tilewright.diagnostics import OutOfBoundsError, UndefinedLaneError
from tilewright.runtime import knobs

FOUND = {
    "cumsum": "the sum of a block that ends beyond the row, from a load without `other`",
    "softmax_backward": "the same, of a product of two such loads",
    "log_softmax_backward": "the same",
    "weight_norm_interface": "the same, of squares",
    "bmm": "K that is no multiple of the block: both operands of tl.dot lack `other`",
    "baddbmm": "the same",
    "conv1d": "channels that are no multiple of the block: both operands of tl.dot lack `other`",
    "conv2d": "the same",
    "_unique2": "the running count of a tile goes on over lanes beyond the end, and its last lane is stored",
}


@pytest.fixture(scope="module")
def gems() -> ModuleType:
    return import_flag_gems()


@pytest.mark.parametrize("operator", [o for o in OPERATORS if not o.wrong], ids=lambda operator: operator.name)
def test_operator(gems: ModuleType, operator: Operator) -> None:
    with knobs.scope(check=True):
        if operator.name in FOUND:
            with pytest.raises(UndefinedLaneError, match="likely cure: give the load an `other=`"):
                check(gems, operator)
        elif operator.outside:
            with pytest.raises(OutOfBoundsError):
                check(gems, operator)
        else:
            check(gems, operator)


def test_the_list_names_operators() -> None:
    assert set(FOUND) <= {operator.name for operator in OPERATORS}
