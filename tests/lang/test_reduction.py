"""Semantics §7 with the safer rules: sum, max, min, argmax, argmin, reduce, bits; NaN and ties."""

import numpy as np
import pytest

from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl

NAN, INF = float("nan"), float("inf")
INTS = {"int1": "uint32", "uint8": "uint32", "uint16": "uint32", "int8": "int32", "int16": "int32", "int32": "int32",
        "uint32": "uint32", "int64": "int64", "uint64": "uint64"}
FLOATS = ["fp16", "bf16", "fp32", "fp64"]


class TestSum:
    @pytest.mark.parametrize("name, want", [*INTS.items(), *((f, f) for f in FLOATS)])
    def test_type(self, name, want):
        assert str(trace(lambda b, x: x.sum(0), f"{name}[8]").result.type) == want

    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -3, None])
    def test_axes(self, axis):
        x = np.arange(24).reshape(2, 3, 4)
        for keep in (False, True):
            got = evaluate(lambda b, x: call(b, tl.sum, x, axis, keep_dims=keep), (x, "int32"))
            want = x.sum(axis=axis, keepdims=keep)
            assert got.tolist() == want.tolist() and got.shape == np.shape(want)

    def test_one_column_and_many_shapes(self):
        x = np.arange(16).reshape(16, 1)
        assert evaluate(lambda b, x: x.sum(1), (x, "fp32")).tolist() == x[:, 0].tolist()
        for sizes in ((4, 4), (8, 8), (3, 5)):
            x = np.arange(np.prod(sizes)).reshape(sizes)
            got = evaluate(lambda b, x: (x.sum(0).sum(0), x.sum(1).sum(0), x.sum()), (x, "fp32"))
            assert [float(g) for g in got] == [x.sum()] * 3

    @pytest.mark.parametrize("name", ["fp16", "bf16"])
    def test_half_types_accumulate_in_fp32_and_round_once(self, name):
        """4096 + 1 + ... + 1: in fp16 or bf16 every step would lose the 1."""
        x = np.concatenate([[4096.0], np.ones(1024)])
        got = evaluate(lambda b, x: x.sum(0), (x, name))
        assert float(got) == 5120.0
        done = trace(lambda b, x: x.sum(0), f"{name}[8]")
        assert done.names == ["fp_ext", "reduce", "fp_trunc"]

    def test_dtype_casts_first(self):
        assert evaluate(lambda b, x: x.sum(0, dtype=tl.float32), ([1, 2, 3], "int32")).tolist() == 6.0
        assert evaluate(lambda b, x: x.sum(0, dtype=tl.int32), ([1.9, 2.9], "fp32")) == 3
        assert evaluate(lambda b, x: x.sum(0, dtype=tl.int8), ([100, 100], "int8")) == -56
        assert trace(lambda b, x: x.sum(0, dtype=tl.constexpr(tl.int64)), "int8[4]").result.type == tl.int64

    def test_bools_are_counted(self):
        assert evaluate(lambda b, x: x.sum(), ([[True, False], [True, True]], "int1")) == 3

    def test_refuses(self):
        with pytest.raises(ValueError, match="tl.sum needs a tile"):
            trace(lambda b, x: x.sum(), "fp32")
        with pytest.raises(ValueError, match="axis=2 of tl.sum is out of range for a tile with 2 dimensions.* -2 to 1"):
            trace(lambda b, x: x.sum(2), "fp32[2, 2]")
        with pytest.raises(TypeError, match="axis of tl.sum must be known"):
            trace(lambda b, x, n: x.sum(n), "fp32[4]", "int32")
        with pytest.raises(TypeError, match="takes numbers"):
            trace(lambda b, p: p.sum(0), "*fp32[4]")


class TestMaxMin:
    @pytest.mark.parametrize("name, want", [
        ("int8", "int32"), ("uint8", "int32"), ("uint16", "int32"), ("int1", "int32"), ("int32", "int32"),
        ("uint32", "uint32"), ("int64", "int64"), ("fp16", "fp32"), ("bf16", "fp32"), ("fp32", "fp32"),
        ("fp64", "fp64"), ("fp8e5", "fp32"),
    ])
    def test_types(self, name, want):
        for function in (tl.max, tl.min):
            assert str(trace(lambda b, x: call(b, function, x, 0), f"{name}[8]").result.type) == want
            value, index = trace(lambda b, x: call(b, function, x, 0, return_indices=True), f"{name}[8]").result
            assert (str(value.type), str(index.type)) == (name, "int32")

    @pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint32", "int64", "fp16", "fp32", "fp64"])
    @pytest.mark.parametrize("axis", [0, 1, None])
    def test_values(self, name, axis):
        x = np.array([[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8]])
        for keep in (False, True):
            got = evaluate(lambda b, x: (x.max(axis, keep_dims=keep), x.min(axis, keep_dims=keep)), (x, name))
            assert got[0].tolist() == x.max(axis, keepdims=keep).tolist()
            assert got[1].tolist() == x.min(axis, keepdims=keep).tolist()

    def test_unsigned_values_compare_unsigned(self):
        assert evaluate(lambda b, x: x.max(0), ([1, 2**32 - 1], "uint32")) == 2**32 - 1
        assert evaluate(lambda b, x: x.min(0), ([1, 2**64 - 1], "uint64")) == 1
        assert evaluate(lambda b, x: x.max(0), ([1, 200], "uint8")) == 200

    def test_a_nan_is_ignored(self):
        for x in ([NAN, INF], [INF, NAN], [NAN] + [INF] * 63):
            assert evaluate(lambda b, x: x.max(0), (x, "fp32")) == INF
        assert evaluate(lambda b, x: x.min(0), ([NAN, 2.0, 1.0], "fp32")) == 1.0
        assert np.isnan(evaluate(lambda b, x: x.min(0), ([NAN, NAN], "fp32")))

    def test_keep_dims_of_all(self):
        assert trace(lambda b, x: x.max(keep_dims=True), "fp32[2, 3, 4]").result.shape == (1, 1, 1)
        done = trace(lambda b, x: x.max(None, True, keep_dims=True), "fp32[2, 3]")
        assert [r.shape for r in done.result] == [(1, 1), (1, 1)]


class TestIndices:
    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_values(self, axis):
        x = np.array([[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8]])
        for name in ("int16", "uint64", "fp16", "fp32"):
            got = evaluate(lambda b, x: (x.argmax(axis), x.argmin(axis)), (x, name))
            assert got[0].tolist() == x.argmax(axis).tolist() and got[1].tolist() == x.argmin(axis).tolist()
            value, index = evaluate(lambda b, x: x.max(axis, return_indices=True), (x, name))
            assert value.tolist() == x.max(axis).tolist() and index.tolist() == x.argmax(axis).tolist()

    def test_the_first_of_equal_elements_wins(self):
        for tie in (True, False):
            for size in (1, 2, 5, 16):
                x = ([7.0] * size, "fp32")
                assert evaluate(lambda b, x: (x.argmax(0, tie), x.argmin(0, tie_break_left=tie)), x) == (0, 0)
        assert evaluate(lambda b, x: x.argmax(0), ([0.0, 0.0, -0.0], "fp32")) == 0
        assert evaluate(lambda b, x: x.argmin(0), ([0.0, 0.0, -0.0], "fp32")) == 0

    @pytest.mark.parametrize("values", [[NAN, INF], [INF, NAN], [1.0, NAN, INF, NAN], [NAN] * 4, [-INF, 3.0, NAN]])
    def test_a_nan_is_the_extreme_and_the_first_one_counts(self, values):
        want = next(i for i, v in enumerate(values) if v != v)
        got = evaluate(lambda b, x: (x.argmax(0), x.argmin(0), *x.max(0, return_indices=True)), (values, "fp32"))
        assert [int(got[0]), int(got[1]), int(got[3])] == [want] * 3 and np.isnan(got[2])

    def test_every_position_of_the_extreme(self):
        for size in (2, 3, 7, 8):
            for at in range(size):
                x = np.zeros(size)
                x[at] = 1
                assert evaluate(lambda b, x: (x.argmax(0), (-x).argmin(0)), (x, "fp32")) == (at, at)

    def test_all_axes(self):
        x = np.array([[1, 5], [9, 2]])
        value, index = evaluate(lambda b, x: x.max(None, return_indices=True), (x, "int32"))
        assert (int(value), int(index)) == (9, 2)
        assert evaluate(lambda b, x: x.argmax(1, keep_dims=True), (x, "int32")).tolist() == [[1], [0]]


class TestReduce:
    def test_a_jit_function_combines(self):
        def multiply(a, c):
            return a * c

        done = trace(lambda b, x: x.reduce(0, multiply), "int32[5]")
        assert done.builder.calls == ["multiply"] and done.names == ["reduce"]
        assert evaluate(lambda b, x: x.reduce(0, multiply), ([1, 2, 3, 4, 5], "int32")) == 120
        got = evaluate(lambda b, x: x.reduce(1, multiply, keep_dims=True), ([[1, 2], [3, 4]], "int64"))
        assert got.tolist() == [[2], [12]]

    def test_small_types_do_not_promote(self):
        assert str(trace(lambda b, x: x.reduce(0, lambda a, c: a + c), "int8[4]").result.type) == "int8"
        assert evaluate(lambda b, x: x.reduce(0, lambda a, c: a + c), ([100, 100], "int8")) == -56

    def test_tuples_reduce_together(self):
        def largest(v1, i1, v2, i2):
            from_left = v1 > v2
            return from_left.to(tl.int32) * v1 + (~from_left).to(tl.int32) * v2, i1 + i2

        x, y = np.array([3, 7, 5]), np.array([1, 2, 3])
        got = evaluate(lambda b, x, y: call(b, tl.reduce, (x, y), 0, largest), (x, "int32"), (y, "int64"))
        assert [int(g) for g in got] == [7, 6]

    def test_a_builtin_combines(self):
        assert evaluate(lambda b, x: x.reduce(0, tl.minimum), ([3, 1, 2], "int32")) == 1

    def test_refuses(self):
        with pytest.raises(TypeError, match="must keep the types of its arguments: result 0 is fp32"):
            trace(lambda b, x: x.reduce(0, lambda a, c: a / c), "int32[4]")
        with pytest.raises(TypeError, match="must return 1 value, one a reduced tensor, but returned 2"):
            trace(lambda b, x: x.reduce(0, lambda a, c: (a, c)), "int32[4]")
        with pytest.raises(TypeError, match="must be a @jit function, not 3"):
            trace(lambda b, x: x.reduce(0, 3), "int32[4]")
        with pytest.raises(ValueError, match="must have one shape"):
            trace(lambda b, x, y: call(b, tl.reduce, (x, y), 0, None), "int32[4]", "int32[8]")
        with pytest.raises(ValueError, match="needs a tile"):
            trace(lambda b, x: x.reduce(0, lambda a, c: a), "int32")


def test_bits():
    x = np.array([[1, 2], [4, 1]])
    assert evaluate(lambda b, x: x.xor_sum(), (x, "int32")) == 1 ^ 2 ^ 4 ^ 1
    assert evaluate(lambda b, x: x.xor_sum(0), (x, "uint8")).tolist() == [5, 3]
    assert evaluate(lambda b, x: x.reduce_or(1), (x, "int8")).tolist() == [3, 5]
    assert str(trace(lambda b, x: x.xor_sum(0), "int8[4]").result.type) == "int8"
    assert evaluate(lambda b, x: x.reduce_or(0), ([False, True], "int1")) == 1
    for name in ("xor_sum", "reduce_or"):
        with pytest.raises(TypeError, match=f"{name} only supported for integers"):
            trace(lambda b, x: getattr(x, name)(0), "fp32[4]")
