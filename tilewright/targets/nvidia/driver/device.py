"""One GPU: its capability and limits, its context, and copies between its memory and the host's.

The context is the device's primary one, which torch and CuPy use as well.  Tests: tests/targets/nvidia/driver/.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from tilewright.computed import computed
from tilewright.targets.base import MemoryCopy
from tilewright.targets.nvidia.driver.cuda import CUDA, CudaError
from tilewright.targets.nvidia.driver.status import raise_failures
from tilewright.targets.nvidia.driver.stream import current_stream


class Limits(NamedTuple):
    """What programs ask of a device to size their grids and tiles (bytes, counts, kHz, bits)."""

    multiprocessors: int
    shared_bytes: int           # that one CTA may have, with opting in
    registers: int
    threads: int
    warp_size: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int


class Device:
    """GPU number `index` of this process."""

    def __init__(self, index: int) -> None:
        self.index = index

    @computed
    def handle(self) -> Any:
        return CUDA.call("cuDeviceGet", self.index)

    @computed
    def capability(self) -> int:
        """The compute capability as a number: 90 for 9.0."""
        major = CUDA.attribute("COMPUTE_CAPABILITY_MAJOR", self.index)
        return 10 * major + CUDA.attribute("COMPUTE_CAPABILITY_MINOR", self.index)

    @computed
    def limits(self) -> Limits:
        return Limits(*(CUDA.attribute(name, self.index) for name in (
            "MULTIPROCESSOR_COUNT", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "MAX_REGISTERS_PER_BLOCK",
            "MAX_THREADS_PER_BLOCK", "WARP_SIZE", "CLOCK_RATE", "MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH")))

    @computed
    def context(self) -> Any:
        """The primary context, retained for the life of the process."""
        return CUDA.call("cuDevicePrimaryCtxRetain", self.handle)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the device's context the calling thread's, inside."""
        CUDA.call("cuCtxPushCurrent", self.context)
        try:
            yield
        finally:
            CUDA.call("cuCtxPopCurrent")

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes of the device's memory, after all work on the device."""
        data = ctypes.create_string_buffer(size)
        if size:
            with self.current():
                CUDA.call("cuCtxSynchronize")
                CUDA.call("cuMemcpyDtoH", data, address, size)
        return data.raw

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the device's memory, after all work on the device."""
        if data:
            with self.current():
                CUDA.call("cuCtxSynchronize")
                CUDA.call("cuMemcpyHtoD", address, data, len(data))

    def copy(self, address: int, size: int) -> DeviceCopy:
        """A copy of bytes of the device's memory, in its memory."""
        return DeviceCopy(self, address, size)

    def allocate(self, size: int) -> DeviceMemory:
        """Memory of the device, at a multiple of 256 bytes."""
        return DeviceMemory(self, size)

    def synchronize(self) -> None:
        """Wait for all work on the device; raise what a kernel with assertions failed with."""
        with self.current():
            CUDA.call("cuCtxSynchronize")
        raise_failures()


class DeviceMemory:
    """`size` bytes of a GPU's memory from `address` on, given back with the object."""

    def __init__(self, device: Device, size: int) -> None:
        self._device = device
        with device.current():
            self.address = int(CUDA.call("cuMemAlloc", max(size, 1)))

    def __del__(self) -> None:
        if hasattr(self, "address"):
            with suppress(CudaError), self._device.current():
                CUDA.call("cuMemFree", self.address)        # waits for what still uses it


class DeviceCopy(MemoryCopy):
    """Bytes of a GPU's memory as they were, in memory of its own; copies go on the current stream."""

    def __init__(self, device: Device, address: int, size: int) -> None:
        self._device, self._address, self._size = device, address, size
        self._kept = DeviceMemory(device, size)
        self._move(self._kept.address, address)

    def _move(self, to: int, source: int) -> None:
        with self._device.current():
            CUDA.call("cuMemcpyDtoDAsync", to, source, self._size, current_stream(self._device.index))

    def restore(self) -> None:
        self._move(self._address, self._kept.address)
