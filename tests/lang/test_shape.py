"""Semantics §3: broadcasting, indexing, and the names that rearrange tiles."""

import numpy as np
import pytest

from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl
from tilewright.language import semantic
from tilewright.language.broadcasting import common_shape

X = np.arange(24).reshape(2, 3, 4)


def test_common_shape():
    assert common_shape([(4, 1), (8,)]) == (4, 8)
    assert common_shape([(), (3,)]) == (3,)
    assert common_shape([(1, 1), (5,), (2, 1)]) == (2, 5)
    assert common_shape([(), ()]) == ()
    with pytest.raises(ValueError, match=r"incompatible dimensions at index 1: 4 and 3 \(shapes \[2, 4\], \[3\]\)"):
        common_shape([(2, 4), (3,)])


def test_operators_broadcast_with_padding_on_the_left():
    x, y = np.arange(3).reshape(3, 1), np.arange(4)
    got = evaluate(lambda b, x, y: x * 10 + y, (x, "int32"), (y, "int32"))
    assert got.tolist() == (x * 10 + y).tolist()
    with pytest.raises(ValueError, match="incompatible dimensions"):
        trace(lambda b, x, y: x + y, "int32[4]", "int32[8]")


class TestIndexing:
    @pytest.mark.parametrize("index, shape", [
        ((slice(None), None), (4, 1)), ((None, slice(None)), (1, 4)), (None, (1, 4)), (slice(None), (4,)),
        ((None, slice(None), None), (1, 4, 1)), ((tl.constexpr(None), slice(None)), (1, 4)),
        ((slice(tl.constexpr(None), None, None), None), (4, 1)),
    ])
    def test_of_a_tile(self, index, shape):
        assert trace(lambda b, x: semantic.subscript(b, x, index), "fp32[4]").result.shape == shape
        assert trace(lambda b, x: x[index], "fp32[4]").result.shape == shape

    def test_missing_dimensions_stay_and_scalars_can_grow(self):
        assert trace(lambda b, x: x[None], "fp32[4, 8]").result.shape == (1, 4, 8)
        assert trace(lambda b, x: x[:, None], "fp32[4, 8]").result.shape == (4, 1, 8)
        assert trace(lambda b, x: x[None], "fp32").result.shape == (1,)
        assert trace(lambda b, x: x[None, None], "fp32").result.shape == (1, 1)

    @pytest.mark.parametrize("index, shape", [((slice(None), None), (1,)), ((None, slice(None)), (1,)),
                                              ((slice(None), None, None), (1, 1)),
                                              ((slice(tl.constexpr(None), None, None), slice(None)), ())])
    def test_of_a_scalar_as_if_it_were_a_tile(self, index, shape):
        """Kernels scale rows by `x[:, None]`, where x is a tile of rows or, by some constant, one number."""
        assert trace(lambda b, x: x[index], "fp32").result.shape == shape
        with pytest.raises(ValueError, match=r"too many indices: fp32.* has 0 dimensions"):
            trace(lambda b, x: x[0, None], "fp32")

    def test_what_is_no_index(self):
        for index in (Ellipsis, True, 1.0, slice(0, 2.0)):
            with pytest.raises(TypeError, match="unsupported tensor index"):
                trace(lambda b, x: x[index], "fp32[4]")
        with pytest.raises(TypeError, match="unsupported tensor index"):
            trace(lambda b, x, i: x[i], "fp32[4]", "int32")
        with pytest.raises(ValueError, match=r"too many indices: fp32.* has 1 dimensions"):
            trace(lambda b, x: x[:, :], "fp32[4]")
        with pytest.raises(ValueError, match=r"index 4 is out of range for dimension 0"):
            trace(lambda b, x: x[4], "fp32[4, 2]")
        with pytest.raises(ValueError, match=r"the slice 3:3 of dimension 1 .* is empty"):
            trace(lambda b, x: x[:, 3:3], "fp32[4, 8]")

    @pytest.mark.parametrize("index", [0, -1, (slice(None), 3), (1, 2), (None, 0), (slice(1, 3), None, slice(2, 8, 3)),
                                       slice(None, None, -1), (slice(None), slice(6, 1, -2)), (tl.constexpr(2), None),
                                       slice(tl.constexpr(1), None)])
    def test_parts_of_a_tile_as_in_numpy(self, index):
        x = np.arange(32).reshape(4, 8)
        plain = tuple(slice(tl.core._unwrap_if_constexpr(p.start), p.stop, p.step) if isinstance(p, slice)
                      else tl.core._unwrap_if_constexpr(p) for p in (index if isinstance(index, tuple) else (index,)))
        np.testing.assert_array_equal(evaluate(lambda b, t: t[index], (x, "int32")), x[plain])

    def test_of_tuples(self):
        assert semantic.subscript(None, tl.tuple((1, 2, 3)), tl.constexpr(-1)) == 3
        assert semantic.subscript(None, (1, 2, 3), slice(tl.constexpr(1), None, None)) == (2, 3)
        assert semantic.subscript(None, tl.constexpr((4, 5)), 1).value == 5
        with pytest.raises(TypeError, match="cannot index a tuple of 2 by 2"):
            semantic.subscript(None, (1, 2), 2)
        with pytest.raises(TypeError, match="which element is meant must be known"):
            trace(lambda b, i: semantic.subscript(b, (1, 2), i), "int32")


class TestReshape:
    @pytest.mark.parametrize("sizes", [(24,), (6, 4), (1, 24), (2, 3, 2, 2)])
    def test_keeps_row_major_order(self, sizes):
        for function in (tl.reshape, tl.view):
            got = evaluate(lambda b, x: call(b, function, x, sizes), (X, "int32"))
            assert got.tolist() == X.reshape(sizes).tolist()
            assert trace(lambda b, x: call(b, function, x, *sizes), "int32[2, 3, 4]").result.shape == sizes

    def test_refuses(self):
        with pytest.raises(ValueError, match=r"total number of elements.*\[2, 3, 4\] has 24, \[5, 5\] has 25"):
            trace(lambda b, x: x.reshape(5, 5), "int32[2, 3, 4]")
        with pytest.raises(ValueError, match="element 1 of shape of tl.reshape is -1"):
            trace(lambda b, x: x.reshape(6, -1), "int32[2, 3, 4]")
        with pytest.raises(TypeError, match="must be known"):
            trace(lambda b, x, n: x.reshape(n), "int32[4]", "int32")

    def test_scalars(self):
        assert trace(lambda b, x: x.reshape(()), "int32[1, 1]").result.type == tl.int32
        assert trace(lambda b, x: x.item(), "int32[1]").result.type == tl.int32
        assert trace(lambda b, x: x.reshape(1, 1), "int32").result.shape == (1, 1)
        with pytest.raises(ValueError, match="item"):
            trace(lambda b, x: x.item(), "int32[2]")

    def test_ravel(self):
        assert evaluate(lambda b, x: x.ravel(), (X, "int32")).tolist() == X.ravel().tolist()
        assert trace(lambda b, x: call(b, tl.ravel, x, can_reorder=True), "int32[3, 2]").result.shape == (6,)


class TestPermute:
    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
    def test_permute(self, order):
        for function in (tl.permute, tl.trans):
            assert evaluate(lambda b, x: call(b, function, x, order), (X, "int32")).tolist() == \
                X.transpose(order).tolist()
            assert evaluate(lambda b, x: call(b, function, x, *order), (X, "int32")).tolist() == \
                X.transpose(order).tolist()

    def test_trans_swaps_the_last_two(self):
        assert evaluate(lambda b, x: call(b, tl.trans, x), (X, "int32")).tolist() == X.transpose(0, 2, 1).tolist()
        with pytest.raises(ValueError, match="less than 2 dimensions"):
            trace(lambda b, x: x.trans(), "int32[4]")

    def test_t_is_for_rank_two(self):
        assert trace(lambda b, x: x.T, "int32[3, 4]").result.shape == (4, 3)
        for kind in ("int32[4]", "int32[2, 3, 4]", "int32"):
            with pytest.raises(ValueError, match="two dimensions"):
                trace(lambda b, x: x.T, kind)

    def test_refuses(self):
        for order in ((0, 0, 1), (0, 1), (0, 1, -1), (1, 2, 3)):
            with pytest.raises(ValueError, match="permutation"):
                trace(lambda b, x: x.permute(order), "int32[2, 3, 4]")


class TestBroadcastTo:
    def test_repeats_ones_and_scalars(self):
        assert trace(lambda b, x: x.broadcast_to(4, 8), "int32[1, 8]").result.shape == (4, 8)
        assert trace(lambda b, x: x.broadcast_to((4, 8)), "int32").names == ["splat"]
        got = evaluate(lambda b, x: x.broadcast_to(2, 3), ([[1], [2]], "int32"))
        assert got.tolist() == [[1, 1, 1], [2, 2, 2]]
        assert [x.shape for x in trace(lambda b, x, y: call(b, tl.broadcast, x, y), "int32[4, 1]",
                                       "fp32[8]").result] == [(4, 8), (4, 8)]

    def test_refuses(self):
        with pytest.raises(ValueError, match=r"Cannot broadcast, rank mismatch: \[8\], \[4, 8\]"):
            trace(lambda b, x: x.broadcast_to(4, 8), "int32[8]")
        with pytest.raises(ValueError, match="non-singleton dimension 1"):
            trace(lambda b, x: x.broadcast_to(4, 8), "int32[4, 2]")


def test_expand_dims_squeeze_unsqueeze():
    def shape(f):
        return trace(lambda b, x: f(b, x), "int32[4, 8]").result.shape

    assert shape(lambda b, x: x.expand_dims(0)) == (1, 4, 8)
    assert shape(lambda b, x: x.expand_dims(-1)) == (4, 8, 1)
    assert shape(lambda b, x: x.expand_dims((0, -1))) == (1, 4, 8, 1)
    assert shape(lambda b, x: x.expand_dims([1, 2])) == (4, 1, 1, 8)
    assert shape(lambda b, x: call(b, tl.unsqueeze, x, -2)) == (4, 1, 8)
    assert shape(lambda b, x: call(b, tl.squeeze, x[None], 0)) == (4, 8)
    for axis, words in ((3, "out of range"), ((0, 0), "duplicate"), ((0, -4), "duplicate")):
        with pytest.raises(ValueError, match=words):
            shape(lambda b, x: x.expand_dims(axis))
    with pytest.raises(ValueError, match="size 1"):
        shape(lambda b, x: call(b, tl.squeeze, x, 0))


class TestJoin:
    def test_join_and_split(self):
        x, y = np.arange(3), np.arange(10, 13)
        pair = evaluate(lambda b, x, y: call(b, tl.join, x, y), (x, "int32"), (y, "int32"))
        assert pair.tolist() == np.stack([x, y], -1).tolist()
        back = evaluate(lambda b, x, y: call(b, tl.join, x, y).split(), (x, "int32"), (y, "int32"))
        assert [p.tolist() for p in back] == [x.tolist(), y.tolist()]

    def test_scalars(self):
        assert trace(lambda b, x: call(b, tl.join, x, x), "int32").result.shape == (2,)
        assert [p.type for p in trace(lambda b, x: x.split(), "int32[2]").result] == [tl.int32, tl.int32]
        got = evaluate(lambda b, x, y: call(b, tl.join, x, y), (1, "int32"), (2, "int32"))
        assert got.tolist() == [1, 2]

    def test_repeated_joins_keep_their_definition(self):
        one = [(i, "int32") for i in (1, 2, 3, 4)]
        def pairs(b, w, x, y, z):
            return call(b, tl.join, call(b, tl.join, w, x), call(b, tl.join, y, z)).reshape(4)

        got = evaluate(pairs, *one)
        assert got.tolist() == [1, 3, 2, 4]

    def test_interleave(self):
        x, y = np.arange(6).reshape(2, 3), np.arange(10, 16).reshape(2, 3)
        got = evaluate(lambda b, x, y: call(b, tl.interleave, x, y), (x, "int32"), (y, "int32"))
        assert got.tolist() == np.stack([x, y], -1).reshape(2, 6).tolist()
        assert evaluate(lambda b, x, y: call(b, tl.interleave, x, y), (1, "int32"), (2, "int32")).tolist() == [1, 2]

    def test_types_do_not_promote(self):
        for function, name in ((tl.join, "join"), (tl.interleave, "interleave"), (tl.cat, "cat")):
            with pytest.raises(TypeError, match=f"tl.{name} needs two tensors of one type.*a of type int32 and b"):
                trace(lambda b, x, y: call(b, function, x, y), "int32[4]", "*fp32[4]")

    def test_split_needs_two(self):
        for kind in ("int32[4]", "int32"):
            with pytest.raises(ValueError, match="last dimension of size 2"):
                trace(lambda b, x: x.split(), kind)


class TestCat:
    def test_along_any_dimension_in_order(self):
        y = X + 100
        for dim in (0, 1, 2, -1):
            got = evaluate(lambda b, x, y: call(b, tl.cat, x, y, dim=dim), (X, "int32"), (y, "int32"))
            assert got.tolist() == np.concatenate([X, y], dim).tolist()
        got = evaluate(lambda b, x, y: call(b, tl.cat, x, y, can_reorder=True), ([1, 2], "int32"), ([3], "int32"))
        assert got.tolist() == [1, 2, 3]

    def test_refuses(self):
        with pytest.raises(ValueError, match="equal sizes in the other dimensions"):
            trace(lambda b, x, y: call(b, tl.cat, x, y), "int32[4, 2]", "int32[4, 3]")
        with pytest.raises(ValueError, match="out of range"):
            trace(lambda b, x: call(b, tl.cat, x, x, dim=1), "int32[4]")
        with pytest.raises(ValueError, match="needs a tile"):
            trace(lambda b, x: call(b, tl.cat, x, x), "int32")
