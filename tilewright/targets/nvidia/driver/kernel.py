"""A kernel on one GPU: a cubin loaded, its resources, and launches on the current stream.

A launch is asynchronous, as everything on a stream.  Its parameters are the slots as they come: 64-bit patterns whose
low bytes are the value, which is how a little-endian driver reads a parameter of any size up to 8 bytes.
Before: a `CodeObject` of the NVIDIA target (the metadata are listed in `targets.nvidia.target`).
Tests: tests/targets/nvidia/driver/test_driver.py.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilewright.computed import computed
from tilewright.diagnostics import OutOfResources
from tilewright.locks import NO_FORK
from tilewright.targets.base import CodeObject, LoadedKernel, NativeCode
from tilewright.targets.nvidia.driver.cuda import CUDA, CudaError
from tilewright.targets.nvidia.driver.device import Device
from tilewright.targets.nvidia.driver.functions import LIBRARY
from tilewright.targets.nvidia.driver.launch_record import (
    DRIVER_SYMBOLS,
    FILL,
    KEY,
    MOST_PARAMS,
    Record,
    blocks_along_x,
)
from tilewright.targets.nvidia.driver.status import NONE, Status, raise_failures
from tilewright.targets.nvidia.driver.stream import (
    current_stream,
    native_stream_function,
    raw_stream_function,
    stream_is_told_by_python,
)
from tilewright.targets.nvidia.driver.tensor_maps import Maps, TensorMaps

_FREE_SHARED = 48 << 10         # more dynamic shared memory has to be asked for: CUDA C++ Programming Guide, 7.2.3
_MOST_ROWS = 65535              # of a grid's second and third dimension
_NO_MAPS = Maps([], [])
_LAUNCH = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                            ctypes.c_int64, ctypes.c_void_p)        # `launch_code`


def _launch_text() -> str:
    with NO_FORK:
        from tilewright.targets.nvidia.driver.launch_code import text
    return text()


class Resources(NamedTuple):
    """What the driver says of a loaded kernel: registers and local bytes a thread, static shared bytes, threads."""

    registers: int
    local_bytes: int
    shared_bytes: int
    most_threads: int


class CudaKernel(LoadedKernel):
    """See the module's docstring."""

    def __init__(self, code: CodeObject, device: Device, plain: Callable[[], LoadedKernel] | None = None,
                 general: Callable[[], LoadedKernel] | None = None) -> None:
        """`plain` gives the same kernel without tensor maps, for arrays that have none, `general` that for grids with
        more than `most_programs` along an axis."""
        self.name = code.name
        self._make_plain, self._make_general = plain, general
        self.device = device
        data = code.metadata
        self.threads = int(data["threads"])
        self.shared_bytes = int(data["shared"])
        self._most_programs = int(data.get("most_programs", 0)) or sys.maxsize
        self._params = len(data["params"])      # how many of the slots are parameters of the entry
        self._slots = ctypes.c_uint64 * max(1, self._params)
        self._hidden = len(data["hidden"])      # behind them: at most one
        self._count = len(data["tensor_maps"])
        self._maps = TensorMaps(data["tensor_maps"]) if self._count else None
        self._table = (ctypes.c_uint64 * (self._params + self._count))()    # slots and maps: `launch_code`
        self._in_table = _NO_MAPS
        self._error: Exception | None = None        # of `_fill_table`
        self._kept: tuple[Any, int] = (None, device.index)      # what the record names
        self._native: Callable[..., int] | None = None
        self._status = Status(code, device) if "status" in data["hidden"] else None
        with device.current():
            self._library = CUDA.call("cuLibraryLoadData", code.binary, None, None, 0, None, None, 0)
            self.kernel = CUDA.call("cuLibraryGetKernel", self._library, data["entry"].encode())
            self.function = CUDA.call("cuKernelGetFunction", self.kernel)
            self._allow_shared()
            self._blocks = self._blocks_at_once() if "programs" in data["hidden"] else 0

    def _allow_shared(self) -> None:
        if self.shared_bytes <= _FREE_SHARED:
            return
        limit = self.device.limits.shared_bytes
        if self.shared_bytes > limit:
            raise OutOfResources(self.shared_bytes, limit, "shared memory")
        attribute = CUDA.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        CUDA.call("cuFuncSetAttribute", self.function, attribute, self.shared_bytes)

    def _blocks_at_once(self) -> int:
        """How many blocks the GPU runs at the same time."""
        each = CUDA.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.function, self.threads, self.shared_bytes)
        return max(1, int(each)) * self.device.limits.multiprocessors

    @property
    def record(self) -> int:    # type: ignore[override]
        """See `LoadedKernel`; native code knows torch's streams, and Python those of other libraries."""
        by_python = self._params + self._count > MOST_PARAMS or stream_is_told_by_python()
        return 0 if by_python else ctypes.addressof(self._words)

    @computed
    def _plain(self) -> LoadedKernel:
        assert self._make_plain is not None
        return self._make_plain()

    @computed
    def _general(self) -> LoadedKernel:
        assert self._make_general is not None
        return self._make_general()

    @computed
    def _words(self) -> Any:
        return (ctypes.c_uint64 * (Record.SIZE // 8))()

    def make_launchable(self, native: NativeCode) -> None:
        stream = raw_stream_function()
        if self._native is not None and self._kept[0] is stream:
            return
        self._kept = (stream, self.device.index)
        library = ctypes.CDLL(LIBRARY)
        symbols = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in DRIVER_SYMBOLS}
        for offset, value in (
                (Record.LAUNCH, native.load("launch", KEY, _launch_text, symbols)),
                (Record.FUNCTION, int(self.function)), (Record.CONTEXT, int(self.device.context)),
                (Record.STREAM, 0 if stream is None else id(stream)), (Record.DEVICE, id(self._kept[1])),
                (Record.NATIVE_STREAM, native_stream_function(self.device.index)),
                (Record.DEVICE_NUMBER, self.device.index),
                (Record.PARAMS, self._params), (Record.THREADS, self.threads), (Record.SHARED, self.shared_bytes),
                (Record.BLOCKS, self._blocks), (Record.TABLE, ctypes.addressof(self._table)),
                (Record.MAPS, self._count), (Record.FIRST_MAP, self._params + self._hidden),
                (Record.FILL, 0 if self._maps is None else ctypes.cast(self._fill, ctypes.c_void_p).value or 0),
                (Record.MOST_PROGRAMS, self._most_programs),
                (Record.BY_PYTHON, ctypes.cast(self._by_python, ctypes.c_void_p).value or 0),
                (Record.STATUS, 0 if self._status is None else self._status.address),
                (Record.FAILURES, (NONE if self._status is None else self._status.loaded).head)):
            self._words[offset // 8] = value
        self._native = _LAUNCH(self._words[Record.LAUNCH // 8])

    @computed
    def _fill(self) -> Any:
        return FILL(self._fill_table)

    def _fill_table(self, address: int, x: int, y: int, z: int) -> int:
        """Called by a native launch whose slots, at `address`, are others than the table's (`launch_code.FILL`)."""
        try:
            slots = tuple((ctypes.c_uint64 * self._params).from_address(address))
            assert self._maps is not None
            maps = self._maps.of(slots)
            if maps is None:
                self._plain.launch((x, y, z), slots)
                return 0
            self._table[:] = [*slots, *maps.addresses]
            self._in_table = maps
            return 1
        except Exception as error:
            self._error = error
            return -1

    @computed
    def _by_python(self) -> Any:
        return FILL(self._launch_for_native)

    def _launch_for_native(self, address: int, x: int, y: int, z: int) -> int:
        """Called by a native launch on a grid with more than `most_programs` along an axis, or behind a failure."""
        try:
            self._launch_by_python((x, y, z), tuple((ctypes.c_uint64 * self._params).from_address(address)))
            return 0
        except Exception as error:
            self._error = error
            return -1

    def failure(self, grid: tuple[int, int, int], frame: int) -> Exception:
        if self._error is not None:
            error, self._error = self._error, None
            return error
        code = ctypes.c_uint64.from_address(frame).value
        return self._wrong_grid(grid) or self._explained(CUDA.error("cuLaunchKernel", code))

    @property
    def resources(self) -> Resources:
        """Read from the driver now."""
        names = ("NUM_REGS", "LOCAL_SIZE_BYTES", "SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK")
        attributes = CUDA.api.CUfunction_attribute
        return Resources(*(int(CUDA.call("cuFuncGetAttribute", getattr(attributes, f"CU_FUNC_ATTRIBUTE_{name}"),
                                         self.function)) for name in names))

    def launch(self, grid: tuple[int, int, int], slots: Sequence[int]) -> None:
        """Put a launch on the current stream of the device; returns before it has run."""
        if self._native is None or self._kept[0] is not raw_stream_function() or stream_is_told_by_python():
            self._launch_by_python(grid, slots)
            return
        words, frame = self._slots(*slots[:self._params]), ctypes.c_uint64()
        code = self._native(ctypes.addressof(self._words), words, *grid, ctypes.byref(frame))
        if code:
            raise self.failure(grid, ctypes.addressof(frame))

    def _launch_by_python(self, grid: tuple[int, int, int], slots: Sequence[int]) -> None:
        wrong = self._wrong_grid(grid)
        if wrong is not None:
            raise wrong
        if max(grid) > self._most_programs:
            self._general.launch(grid, slots)
            return
        maps = _NO_MAPS if self._maps is None else self._maps.of(tuple(slots[:self._params]))
        if maps is None:
            self._plain.launch(grid, slots)
            return
        words = list(slots[:self._params])
        if self._status is not None:
            raise_failures()
            words.append(self._status.address)
        if self._blocks:
            words.append(grid[0])       # never with the status: a kernel with assertions does not loop over programs
        values = (ctypes.c_uint64 * max(1, len(words)))(*words)
        first = ctypes.addressof(values)
        places = [*range(first, first + 8 * len(words), 8), *maps.addresses]
        pointers = (ctypes.c_void_p * max(1, len(places)))(*places)
        blocks = (blocks_along_x(self._blocks, grid), grid[1], grid[2])
        with self.device.current():
            self._launch(blocks, current_stream(self.device.index), ctypes.addressof(pointers))

    def _launch(self, grid: tuple[int, int, int], stream: int, pointers: int) -> None:
        try:
            CUDA.call("cuLaunchKernel", self.function, grid[0], grid[1], grid[2], self.threads, 1, 1,
                      self.shared_bytes, stream, pointers, 0)
        except CudaError as error:
            raise self._explained(error) from None

    def _wrong_grid(self, grid: tuple[int, int, int]) -> ValueError | None:
        """The error for a grid that no GPU takes."""
        if grid[1] <= _MOST_ROWS and grid[2] <= _MOST_ROWS:
            return None
        return ValueError(f"{self.name}: the second and third size of a grid are at most {_MOST_ROWS} on a GPU, and "
                          f"this grid is {grid}; put the largest size first")

    def _explained(self, error: CudaError) -> Exception:
        """Registers are the one resource that is not known before the driver has the code."""
        if error.name != "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES":
            return error
        taken = self.resources.registers * self.threads
        return OutOfResources(taken, self.device.limits.registers, "registers")
