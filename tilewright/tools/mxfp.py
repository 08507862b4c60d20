"""Test data in the microscaling formats, as torch tensors: e2m1 numbers and e8m0 scales, under triton's module name.

Formats: OCP Microscaling Formats 1.0, sections 5.3.3 (FP4 E2M1) and 5.4.1 (E8M0).  Importing this imports torch.
Tests: tests/compat/test_tools.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

_NUMBERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)     # of the codes 0 .. 7; 8 adds a sign
_NAN, _BIAS = 255, 127


class MXFP4Tensor:
    """e2m1 numbers, one code in each byte of `data` (uint8)."""

    def __init__(self, data: Any = None, size: Sequence[int] | int | None = None, device: Any = None) -> None:
        self.device = _place(data, device)
        if data is not None:
            tensor = torch.as_tensor(data, dtype=torch.float32, device=self.device)
            self.data, self.size = _nearest_codes(tensor), tuple(tensor.shape)
        elif size is not None:
            self.size = (size,) if isinstance(size, int) else tuple(size)
        else:
            raise ValueError("MXFP4Tensor takes data or a size")

    def random(self) -> MXFP4Tensor:
        """Fill with random codes, all as probable."""
        self.data = torch.randint(0, 16, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The numbers as float32."""
        if dtype is not torch.float32:
            raise ValueError(f"MXFP4Tensor converts to torch.float32, not to {dtype}")
        sizes = torch.tensor(_NUMBERS, device=self.device)[(self.data & 7).long()]
        return torch.where(self.data >= 8, -sizes, sizes)

    def to_packed_tensor(self, dim: int) -> Any:
        """Two neighbours along `dim` in a byte, the first in the low half; an odd end is filled up with 0."""
        codes = self.data
        if codes.shape[dim] % 2:
            shape = list(codes.shape)
            shape[dim] = 1
            codes = torch.cat([codes, codes.new_zeros(shape)], dim)
        low, high = (codes.index_select(dim, torch.arange(k, codes.shape[dim], 2, device=codes.device)) for k in (0, 1))
        return low | (high << 4)

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Sequence[int]) -> Any:
        """The opposite: codes of `original_shape`."""
        dim %= packed_tensor.dim()
        both = torch.stack([packed_tensor & 15, packed_tensor >> 4], dim + 1).flatten(dim, dim + 1)
        return both.narrow(dim, 0, original_shape[dim])


def _place(data: Any, device: Any) -> Any:
    """The device asked for, else that of a tensor, else the CPU."""
    if device is not None:
        return torch.device(device)
    return data.device if isinstance(data, torch.Tensor) else torch.device("cpu")


def _nearest_codes(x: Any) -> Any:
    """The code nearest to each number, the even one of two; larger numbers saturate, a NaN becomes the largest."""
    limits = torch.tensor([(a + b) / 2 for a, b in itertools.pairwise(_NUMBERS)], device=x.device)
    size = torch.nan_to_num(x.abs(), nan=_NUMBERS[-1])
    above, at_least = torch.searchsorted(limits, size), torch.searchsorted(limits, size, right=True)
    code = torch.where(above == at_least, above, above + above % 2)     # on a limit: the even one of above, above + 1
    return (code + 8 * torch.signbit(x)).to(torch.uint8)


class MXScaleTensor:
    """e8m0 scales, powers of two: the exponent plus 127 in each byte of `data` (uint8); 255 is NaN."""

    def __init__(self, data: Any = None, size: Sequence[int] | int | None = None, device: Any = None) -> None:
        self.device = _place(data, device)
        if data is not None:
            tensor = torch.as_tensor(data, dtype=torch.float32, device=self.device)
            self.data, self.size = _exponents(tensor), tuple(tensor.shape)
        elif size is not None:
            self.size = (size,) if isinstance(size, int) else tuple(size)
        else:
            raise ValueError("MXScaleTensor takes data or a size")

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill with random powers of two from `low` to `high`, by default of all exponents."""
        ends = [default if value is None else int(torch.tensor(float(value)).log2())
                for value, default in ((low, -_BIAS), (high, _BIAS))]
        codes = torch.randint(ends[0] + _BIAS, ends[1] + _BIAS + 1, self.size, device=self.device)
        self.data = codes.to(torch.uint8)
        return self

    def to(self, dtype: Any) -> Any:
        """The scales as float32."""
        if dtype is not torch.float32:
            raise ValueError(f"MXScaleTensor converts to torch.float32, not to {dtype}")
        scale = torch.ldexp(torch.ones(self.data.shape, device=self.device), self.data.int() - _BIAS)
        return torch.where(self.data == _NAN, float("nan"), scale)


def _exponents(x: Any) -> Any:
    """The codes of numbers above 0, rounded to the nearest power of two by their logarithm; others are NaN."""
    code = torch.log2(x).round().clamp(-_BIAS, _BIAS) + _BIAS
    return torch.where(x > 0, code, float(_NAN)).to(torch.uint8)


def fp8e8m0_to_float32(scale: Any) -> Any:
    """e8m0 bytes as float32: the code is the exponent's bits; code 0 gives 0, as in triton."""
    return (scale.view(torch.uint8).to(torch.int32) << 23).view(torch.float32)
