"""Semantics §3: arange, full, zeros, program ids; sizes; and reading of compile-time arguments."""

import pytest

from tests.departures import differs
from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl


def test_program_ids():
    done = trace(lambda b: [call(b, tl.program_id, 0), call(b, tl.num_programs, axis=tl.constexpr(2))])
    assert done.names == ["program_id", "num_programs"] and all(x.type == tl.int32 for x in done.result)
    for axis in (3, -1):
        with pytest.raises(ValueError, match=f"program_id axis must be 0, 1, or 2 but got {axis}"):
            trace(lambda b: call(b, tl.program_id, axis))
    with pytest.raises(TypeError, match="must be known when the kernel is compiled"):
        trace(lambda b, x: call(b, tl.program_id, x), "int32")


@differs("Tiles may have any size", topic="Shapes",
         peer="Every size must be a power of two.",
         ours="Any size of 1 and more; `tl.arange(0, 37)` is fine.")
@pytest.mark.parametrize("start, end", [(0, 8), (3, 8), (-5, 2), (0, 1), (0, 1000), (7, 1 << 20)])
def test_arange_of_any_length(start, end):
    done = trace(lambda b: call(b, tl.arange, start, tl.constexpr(end)))
    assert done.result.type == tl.block_type(tl.int32, (end - start,))
    if end - start < 100:
        assert evaluate(lambda b: call(b, tl.arange, start, end)).tolist() == list(range(start, end))


@pytest.mark.parametrize("start, end, message", [
    (0, 0, "end argument must be greater than the start argument"), (5, 3, "must be greater"),
    (0, 2**31 + 1, "must fit in int32"), (0, 2**20 + 1, "exceeds the largest tile"),
])
def test_arange_refuses(start, end, message):
    with pytest.raises(ValueError, match=message):
        trace(lambda b: call(b, tl.arange, start, end))


def test_arange_takes_compile_time_ints_only():
    with pytest.raises(ValueError, match="arange's arguments must be of type tl.constexpr.*`end` is.*annotate the par"):
        trace(lambda b, n: call(b, tl.arange, 0, n), "int32")
    for end in (8.0, "8", None, True):
        with pytest.raises(TypeError, match="`end` of tl.arange must be an int"):
            trace(lambda b: call(b, tl.arange, 0, end))


@pytest.mark.parametrize("name", ["int1", "int8", "uint64", "fp16", "bf16", "fp8e5", "fp64"])
def test_zeros(name):
    done = trace(lambda b: call(b, tl.zeros, (3, tl.constexpr(5)), tl.dtype(name)))
    assert done.names == ["constant", "splat"] and str(done.result.type) == f"<[3, 5], {name}>"
    assert trace(lambda b, x: call(b, tl.zeros_like, x), f"{name}[4, 2]").result.shape == (4, 2)
    assert trace(lambda b, x: call(b, tl.zeros_like, x), name).result.type == tl.dtype(name)


def test_shapes():
    assert trace(lambda b: call(b, tl.zeros, [2, 3], tl.int32)).result.shape == (2, 3)
    assert trace(lambda b: call(b, tl.zeros, shape=[7], dtype=tl.int32)).result.shape == (7,)
    assert trace(lambda b: call(b, tl.full, (), 1, tl.int32)).result.type == tl.int32
    with pytest.raises(TypeError, match=r"shape must be a tuple or list of ints such as \(16, 16\), not 16"):
        trace(lambda b: call(b, tl.zeros, 16, tl.int32))
    with pytest.raises(ValueError, match="element 1 of shape is 0"):
        trace(lambda b: call(b, tl.zeros, (4, 0), tl.int32))
    with pytest.raises(ValueError, match="exceeds triton maximum tensor numel"):
        trace(lambda b: call(b, tl.zeros, (1024, 1025), tl.int32))
    with pytest.raises(TypeError, match="element 0 of shape must be known when the kernel is compiled"):
        trace(lambda b, n: call(b, tl.zeros, (n,), tl.int32), "int32")
    with pytest.raises(TypeError, match="element 0 of shape must be an int"):
        trace(lambda b: call(b, tl.zeros, (4.0,), tl.int32))


def test_full():
    assert evaluate(lambda b: call(b, tl.full, (2, 3), -1.5, tl.float16)).tolist() == [[-1.5] * 3] * 2
    assert evaluate(lambda b: call(b, tl.full, (2,), float("-inf"), tl.float32)).tolist() == [float("-inf")] * 2
    assert evaluate(lambda b: call(b, tl.full, (2,), 0.0, tl.int32)).tolist() == [0, 0]
    assert evaluate(lambda b: call(b, tl.full, (2,), 300, tl.int8)).tolist() == [44, 44]
    assert evaluate(lambda b: call(b, tl.full, (2,), -1, tl.uint32)).tolist() == [2**32 - 1] * 2
    assert evaluate(lambda b: call(b, tl.full, (2,), 2, tl.int1)).tolist() == [True, True]
    assert evaluate(lambda b, x: call(b, tl.full, (2,), x, tl.int8), (3.7, "fp32")).tolist() == [3, 3]
    assert evaluate(lambda b, x: call(b, tl.full, (2,), x, tl.int8), ([[3]], "int32")).tolist() == [3, 3]
    with pytest.raises(TypeError, match="takes an int, not 1.5"):
        trace(lambda b: call(b, tl.full, (2,), 1.5, tl.int32))
    with pytest.raises(ValueError, match="scalar or a tile of one element"):
        trace(lambda b, x: call(b, tl.full, (2,), x, tl.int32), "int32[4]")
    with pytest.raises(TypeError, match="cannot convert"):
        trace(lambda b: call(b, tl.full, (2,), None, tl.int32))


def test_literal_rounds_once_to_the_type_of_full():
    assert evaluate(lambda b: call(b, tl.full, (1,), 0.1, tl.float64)).tolist() == [0.1]


def test_to_tensor():
    assert str(trace(lambda b: call(b, tl.to_tensor, 2**40)).result.type) == "int64"
    with pytest.raises(TypeError, match="cannot convert"):
        trace(lambda b: call(b, tl.to_tensor, "a"))
