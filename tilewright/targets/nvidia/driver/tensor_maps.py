"""CUtensorMaps for the launches of one kernel: parameters of 128 bytes that the driver makes of an array's numbers.

A map is kept, since kernels are mostly launched on the same arrays again; it names an address, not what lies there.
Tests: tests/targets/nvidia/driver/test_tensor_maps.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.targets.nvidia.driver.cuda import CUDA, CudaError
from tilewright.targets.nvidia.tensor_maps import ALIGNMENT, Resolved, all_resolved

_MOST_KEPT = 1024       # launches; with more, all are forgotten


class Maps(NamedTuple):
    """Addresses of maps, and the objects that own these bytes."""

    addresses: list[int]
    owners: list[Any]


class TensorMaps:
    """The maps of a kernel whose metadata have `described`."""

    def __init__(self, described: Sequence[Mapping[str, Any]]) -> None:
        self._described = described
        self._maps: dict[Resolved, Any] = {}        # None: the driver refuses it
        self._launches: dict[tuple[int, ...], Maps | None] = {}

    def of(self, slots: tuple[int, ...]) -> Maps | None:
        """The maps for a launch with these slots; None if one of them cannot be made."""
        if slots not in self._launches:
            if len(self._launches) >= _MOST_KEPT:
                self._launches.clear()
                self._maps.clear()
            self._launches[slots] = self._made(slots)
        return self._launches[slots]

    def _made(self, slots: tuple[int, ...]) -> Maps | None:
        numbers = all_resolved(self._described, slots)
        for n in () if numbers is None else numbers:
            if n not in self._maps:
                self._maps[n] = _encoded(n)
        if numbers is None or any(self._maps[n] is None for n in numbers):
            return None
        maps = [self._maps[n] for n in numbers]
        return Maps([m.address for m in maps], maps)


def _encoded(numbers: Resolved) -> Any:
    """The driver's map; None if it takes no such numbers."""
    api, rank = CUDA.api, len(numbers.sizes)
    strides = numbers.strides or (ALIGNMENT,)       # with one dimension nobody reads it, but there has to be one
    fill = "NAN_REQUEST_ZERO_FMA" if numbers.nan else "NONE"
    swizzle = f"{numbers.swizzle}B" if numbers.swizzle else "NONE"
    try:
        return CUDA.call(
            "cuTensorMapEncodeTiled", getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{numbers.data_type}"),
            rank, numbers.address, [*reversed(numbers.sizes)], [*reversed(strides)],
            [*reversed(numbers.box)], [1] * rank, api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            getattr(api.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"))
    except CudaError:
        return None
