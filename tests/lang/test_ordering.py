"""flip, gather, histogram, sort, topk: ops and types, and what is refused."""

import pytest

from tests.departures import differs
from tests.lang.recorder import call, trace
from tilewright import language as tl


@differs("`tl.topk` keeps the type", topic="Numbers",
         peer="Below the full size, types under 32 bits come back as fp32 or int32.",
         ours="The type of the input.")
def test_types_are_kept():
    for kind in ("fp16", "bf16", "uint8", "int1", "fp8e5"):
        assert str(trace(lambda b, x: call(b, tl.topk, x, 2), f"{kind}[3, 8]").result) == (
            f"{kind}[constexpr[3], constexpr[2]]")
    assert trace(lambda b, x: call(b, tl.histogram, x, 5), "uint8[7]").result.dtype == tl.int32


def test_one_op_each():
    assert trace(lambda b, x: call(b, tl.flip, x), "fp32[4]").names == ["slice"]
    assert trace(lambda b, x: call(b, tl.sort, x), "int32[4]").names == ["sort"]
    assert trace(lambda b, x, i: call(b, tl.gather, x, i, 0), "fp32[4]", "int32[9]").names == ["gather"]


@pytest.mark.parametrize("name, args, types, message", [
    ("sort", (2,), ("fp32[4, 4]",), "dim=2 of tl.sort is out of range for a tile with 2 dimensions; allowed are -2"),
    ("sort", (), ("*fp32[4]",), "tl.sort takes numbers"),
    ("sort", (), ("fp32",), "tl.sort needs a tile"),
    ("topk", (5,), ("fp32[4]",), "k of tl.topk must be from 1 to 4, the size of dimension 0 of fp32\\[4\\], not 5"),
    ("gather", (0,), ("fp32[4]", "fp32[4]"), "index of tl.gather must hold integers"),
    ("gather", (0,), ("fp32[4]", "int32[2, 4]"), "same rank"),
    ("gather", (0,), ("fp32[4, 8]", "int32[2, 4]"), "index dim 1 must match the corresponding source dim"),
    ("gather", (2,), ("fp32[4]", "int32[4]"), "axis=2 of tl.gather is out of range"),
    ("histogram", (4,), ("fp32[4]",), "tl.histogram only supports integer input"),
    ("histogram", (0,), ("int32[4]",), "num_bins of tl.histogram must be 1 or more"),
])
def test_refusals(name, args, types, message):
    with pytest.raises((TypeError, ValueError), match=message):
        trace(lambda b, *x: call(b, getattr(tl, name), *x, *args), *types)
