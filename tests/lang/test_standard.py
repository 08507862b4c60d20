"""cdiv, sigmoid, softmax, swizzle2d: names made of other names."""

import itertools

import numpy as np
import pytest

from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl


class TestCdiv:
    def test_compile_time_arguments_fold(self):
        assert trace(lambda b: call(b, tl.cdiv, tl.constexpr(10), 4)).result.value == 3
        assert call(None, tl.cdiv, 8, 4) == 2 and call(None, tl.cdiv, -36, 5) == -7
        with pytest.raises(TypeError, match="takes integers"):
            call(None, tl.cdiv, 8.0, 4)

    @pytest.mark.parametrize("kind", ["int32", "int64", "uint32"])
    def test_run_time_values(self, kind):
        x = [0, 1, 4, 5, 2**31 - 1]
        assert evaluate(lambda b, x: x.cdiv(4), (x, kind)).tolist() == [-(-v // 4) for v in x]

    def test_negative_numbers(self):
        pairs = list(itertools.product([-36, -35, -1, 0, 1, 35, 36], [-5, -1, 1, 5]))
        x, y = ([p[0] for p in pairs], "int32"), ([p[1] for p in pairs], "int32")
        assert evaluate(lambda b, x, y: call(b, tl.cdiv, x, y), x, y).tolist() == [-(-p // q) for p, q in pairs]

    def test_types(self):
        assert trace(lambda b, x: call(b, tl.cdiv, x, 4), "int8").result.type == tl.int8
        with pytest.raises(TypeError, match="different signedness"):
            trace(lambda b, x, y: call(b, tl.cdiv, x, y), "int32", "uint32")
        with pytest.raises(TypeError, match="unexpected type fp32"):
            trace(lambda b, x: call(b, tl.cdiv, x, 4), "fp32")


def test_sigmoid():
    x = np.array([-100.0, -1.0, 0.0, 2.0, 100.0])
    np.testing.assert_allclose(evaluate(lambda b, x: x.sigmoid(), (x, "fp64")), 1 / (1 + np.exp(-x)), rtol=1e-14)


class TestSoftmax:
    @pytest.mark.parametrize("dim", [None, 0, 1, -1])
    def test_values(self, dim):
        x = np.array([[1.0, 2.0, 3.0], [1000.0, 0.0, 1000.0]])
        got = evaluate(lambda b, x: call(b, tl.softmax, x, dim), (x, "fp64"))
        axis = 0 if dim is None else dim
        powers = np.exp(x - x.max(axis, keepdims=True))
        np.testing.assert_allclose(got, powers / powers.sum(axis, keepdims=True), rtol=1e-14)

    def test_types_and_arguments(self):
        assert trace(lambda b, x: x.softmax(), "fp16[8]").result.type == tl.block_type(tl.float32, (8,))
        assert "div_rn" in trace(lambda b, x: x.softmax(0, ieee_rounding=True), "fp32[8]").names
        done = trace(lambda b, x: x.softmax(0, keep_dims=True), "fp32[8]")
        assert "no effect" in done.warnings[0] and done.result.shape == (8,)
        with pytest.raises(ValueError, match="tl.softmax needs a tile"):
            trace(lambda b, x: x.softmax(), "fp32")


def test_swizzle2d_visits_every_place_once_in_groups():
    for size_i, size_j, group in ((4, 4, 2), (5, 3, 2), (3, 7, 4), (1, 5, 1)):
        i, j = np.divmod(np.arange(size_i * size_j), size_j)
        got = evaluate(lambda b, i, j: call(b, tl.swizzle2d, i, j, size_i, size_j, group), (i, "int32"), (j, "int32"))
        places = list(zip(got[0].tolist(), got[1].tolist()))
        assert sorted(places) == sorted(zip(i.tolist(), j.tolist()))
        first = [row for row, _ in places[:min(group, size_i) * size_j]]
        assert set(first) == set(range(min(group, size_i)))
    got = evaluate(lambda b, j: call(b, tl.swizzle2d, j * 0, j, 4, 4, 2), ([0, 1, 2, 3], "int32"))
    assert [g.tolist() for g in got] == [[0, 1, 0, 1], [0, 0, 1, 1]]


def test_swizzle2d_of_compile_time_values_folds():
    got = call(None, tl.swizzle2d, tl.constexpr(0), tl.constexpr(3), 4, 4, 2)
    assert [v.value for v in got] == [1, 1]
