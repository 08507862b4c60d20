"""`tools.LinearLayout`: known layouts, and laws on random ones."""

from __future__ import annotations

import itertools
import random

import pytest

from tilewright.tools.linear_layout import LinearLayout

A = LinearLayout.from_bases([("reg", [[1, 0], [0, 1]]), ("lane", [[2, 0], [0, 2], [0, 4]])], ["x", "y"])
SWAPPED = LinearLayout.from_bases([("off", [[0, 1], [1, 0], [2, 0], [0, 2], [0, 4]])], ["x", "y"])


def test_what_a_layout_tells() -> None:
    assert A.bases == [("reg", [[1, 0], [0, 1]]), ("lane", [[2, 0], [0, 2], [0, 4]])]
    assert A.out_dims == [("x", 4), ("y", 8)] and (A.num_in_dims, A.num_out_dims) == (2, 2)
    assert A.get_in_dim_names() == ["reg", "lane"] and A.get_out_dim_names() == ["x", "y"]
    assert A.get_matrix_view() == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert A.apply({"reg": 3, "lane": 5}) == {"x": 3, "y": 5}
    assert str(LinearLayout.identity_1d(4, "a", "b")) == "LinearLayout(a: (1,) (2,) -> b 4)"
    assert LinearLayout().bases == [] and hash(A) == hash(A.invert().invert())


def test_layouts_of_one_dimension() -> None:
    identity, other = LinearLayout.identity_1d(4, "r", "x"), LinearLayout.identity_1d(4, "l", "x")
    assert (identity * identity).bases == [("r", [[1], [2], [4], [8]])]
    assert (identity * other).bases == [("r", [[1], [2]]), ("l", [[4], [8]])]
    strided = LinearLayout.strided_1d(4, 2, "r", "x")
    assert strided.bases == [("r", [[2], [4]])] and strided.out_dims == [("x", 8)]
    zeros = LinearLayout.zeros_1d(4, "r", "x", 4)
    assert zeros.bases == [("r", [[0], [0]])] and zeros.out_dims == [("x", 4)]


def test_inverses() -> None:
    assert A.is_invertible() and A.invert().bases == [("x", [[1, 0], [0, 1]]), ("y", [[2, 0], [0, 2], [0, 4]])]
    assert A.invert().out_dims == [("reg", 4), ("lane", 8)]
    conversion = A.invert_and_compose(SWAPPED)
    assert conversion.bases == [("reg", [[2], [1]]), ("lane", [[4], [8], [16]])]
    assert conversion.compose(SWAPPED) == A
    twice = LinearLayout.from_bases([("r", [[1], [1]])], ["x"], [2])
    assert not twice.is_injective() and twice.is_surjective() and twice.pseudoinvert().bases == [("x", [[1]])]


def some_layout(chance: random.Random) -> LinearLayout:
    bits = chance.sample(range(5), 5)
    images = [[(1 << b) & 3, (1 << b) >> 2] for b in bits]
    for i, j in itertools.permutations(range(5), 2):
        if chance.random() < 0.3:
            images[i] = [a ^ b for a, b in zip(images[i], images[j], strict=True)]
    cut = chance.randrange(6)
    return LinearLayout.from_bases([("p", images[:cut]), ("q", images[cut:])], ["x", "y"], [4, 8])


@pytest.mark.parametrize("seed", range(20))
def test_laws(seed: int) -> None:
    chance = random.Random(seed)
    one, two = some_layout(chance), some_layout(chance)
    names = one.get_in_dim_names()
    sizes = [1 << len(images) for _, images in one.bases]
    back, change, side = one.invert(), one.invert_and_compose(two), one * LinearLayout.identity_1d(2, "p", "x")
    for place in itertools.product(*map(range, sizes)):
        at = dict(zip(names, place, strict=True))
        there = one.apply(at)
        assert back.apply(there) == at and two.apply(change.apply(at)) == there
        assert side.apply(at) == there
        assert side.apply({**at, "p": at["p"] + sizes[0]}) == {**there, "x": there["x"] + 4}
    assert one.compose(back).bases == one.compose(one.invert()).bases
    assert [row.count(1) for row in one.compose(back).get_matrix_view()] == [1] * 5


@pytest.mark.parametrize("call, text", [
    (lambda: LinearLayout.from_bases([("r", [[1], [4]])], ["x"]), "have no input that leads there"),
    (lambda: LinearLayout.from_bases([("r", [[9]])], ["x"], [4]), r"r: \[9\] is no place in outputs of"),
    (lambda: LinearLayout.from_bases([("r", [[1, 2]])], ["x"]), "is no place in outputs of"),
    (lambda: LinearLayout.identity_1d(3, "r", "x"), "3 is not a power of two"),
    (lambda: LinearLayout.zeros_1d(4, "r", "x", 4).invert(), "not invertible"),
    (lambda: LinearLayout.zeros_1d(4, "r", "x", 4).pseudoinvert(), "reached by no input"),
    (lambda: A.compose(A), "are not the inputs of the second"),
    (lambda: A.apply({"reg": 1}), "the inputs are reg, lane"),
    (lambda: A.invert_and_compose(LinearLayout.identity_1d(4, "r", "x")), "have other outputs"),
    (lambda: A.invert_and_compose(LinearLayout.from_bases([("r", [[1, 0]])], ["x", "y"], [4, 8], False)),
     "is reached by no input"),
])
def test_wrong_uses(call: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()      # type: ignore[operator]


def test_pictures_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="pictures of layouts are not drawn"):
        A.get_distributed_view(True)
