"""`tools.mxfp` and `tools.disasm`: formats against their tables, parts of listings."""

from __future__ import annotations

import pytest

from tilewright.tools import disasm

torch = pytest.importorskip("torch")
from tilewright.tools import mxfp  # noqa: E402

NUMBERS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def test_numbers_go_to_the_nearest_code_the_even_one_of_two() -> None:
    assert mxfp.MXFP4Tensor(data=[*NUMBERS, *(-v for v in NUMBERS)]).data.tolist() == list(range(16))
    ties = mxfp.MXFP4Tensor(data=[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.75, 100.0, float("-inf")])
    assert ties.to(torch.float32).tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, -1.0, 6.0, -6.0]
    near = mxfp.MXFP4Tensor(data=[0.26, 0.74, 2.51, 4.99, 5.01])
    assert near.to(torch.float32).tolist() == [0.5, 0.5, 3.0, 4.0, 6.0]


@pytest.mark.parametrize("shape, dim", [((4, 6), 0), ((4, 6), 1), ((3, 5), 1), ((3, 5), -1), ((7,), 0), ((2, 3, 4), 1)])
def test_packing_and_back(shape: tuple[int, ...], dim: int) -> None:
    x = mxfp.MXFP4Tensor(size=shape).random()
    packed = x.to_packed_tensor(dim)
    assert packed.shape[dim] == (shape[dim] + 1) // 2
    assert (x.unpack_packed_tensor(packed, dim, shape) == x.data).all()
    first = packed.select(dim, 0)
    assert (first & 15 == x.data.select(dim, 0)).all() and (first >> 4 == x.data.select(dim, 1)).all()


def test_scales_are_powers_of_two() -> None:
    powers = [2.0**-127, 2.0**-126, 0.5, 1.0, 2.0**100, 2.0**127]
    x = mxfp.MXScaleTensor(data=powers)
    assert x.data.tolist() == [0, 1, 126, 127, 227, 254] and x.to(torch.float32).tolist() == powers
    assert mxfp.MXScaleTensor(data=[0.0, -1.0, float("nan")]).to(torch.float32).isnan().all()
    some = mxfp.MXScaleTensor(size=(200,)).random(low=0.25, high=4.0).to(torch.float32)
    assert set(some.tolist()) <= {0.25, 0.5, 1.0, 2.0, 4.0} and len(set(some.tolist())) == 5
    assert mxfp.fp8e8m0_to_float32(torch.tensor([127, 128, 0], dtype=torch.uint8)).tolist() == [1.0, 2.0, 0.0]


def test_what_they_refuse() -> None:
    for made in (mxfp.MXFP4Tensor, mxfp.MXScaleTensor):
        with pytest.raises(ValueError, match="takes data or a size"):
            made()
        with pytest.raises(ValueError, match="converts to torch.float32"):
            made(data=[1.0]).to(torch.float16)


LISTING = "\t.section\t.text.one,\"ax\"\n.text.one:\n  MOV R1;\n\t.section\t.text.two,\"ax\"\n.text.two:\n  EXIT;\n"


def test_one_function_of_a_listing() -> None:
    assert disasm.function_in(LISTING, None) == LISTING
    assert "MOV" in disasm.function_in(LISTING, "one") and "EXIT" not in disasm.function_in(LISTING, "one")
    assert disasm.function_in("\t\tFunction : k\n  EXIT\n", "k").endswith("EXIT\n")
    with pytest.raises(ValueError, match="no function 'three' in the cubin; there are: one, two"):
        disasm.function_in(LISTING, "three")
