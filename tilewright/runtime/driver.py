"""`driver.active`: what a program may ask about the machine that kernels run on.

The answers are for programs that were written for GPUs and size their grids by them.  Which target a launch uses is
decided by its arguments' device, not here.  `driver.set_active` puts another object in place (a program's own, or the
stand-in of `tilewright run --on cpu`).  Importing this loads neither torch nor a target.
Tests: tests/runtime/test_driver.py.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.computed import computed
from tilewright.imported import imported
from tilewright.locks import NO_FORK
from tilewright.runtime.bench import CACHE_BYTES, do_bench

# Programs divide register and fast-memory budgets by what a kernel takes to find how many of them fit at once.  The
# budgets of a CPU core's caches stand for the latter; for registers, where a CPU has no such limit, NVIDIA's 64 Ki.
REGISTERS = 65536
WARP_SIZE = 32
DEFAULT_FAST_MEMORY = 1 << 20
AHEAD = "cuda:ahead:"       # begins the name of a device that is only compiled for


@dataclass(frozen=True)
class GPUTarget:
    """What code is generated for; named as in triton although `backend` may be `cpu`, whose `arch` is empty."""

    backend: str
    arch: int | str
    warp_size: int


class Driver(Protocol):
    """What `driver.active` answers."""

    def get_current_target(self) -> GPUTarget: ...
    def get_active_torch_device(self) -> Any: ...
    def get_current_device(self) -> int: ...
    def get_current_stream(self, device: int | None = None) -> int: ...


class CpuProperties:
    """`driver.active.utils`: properties of the machine under the names that GPU drivers use."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """The numbers that programs compute an occupancy from."""
        return {"multiprocessor_count": usable_cores(), "max_shared_mem": fast_memory(), "max_num_regs": REGISTERS,
                "warpSize": WARP_SIZE}


class CpuDriver:
    """The machine's cores as one device, number 0, with one stream, number 0."""

    def __init__(self) -> None:
        self.utils = CpuProperties()

    @classmethod
    def is_active(cls) -> bool:
        """Every machine has a CPU."""
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cpu", "", WARP_SIZE)

    def get_active_torch_device(self) -> Any:
        """`torch.device("cpu")`; the one answer that needs torch."""
        return importlib.import_module("torch").device("cpu")

    def get_device_interface(self) -> Any:
        """`torch.cpu`, which synchronises and counts devices as `torch.cuda` does."""
        return importlib.import_module("torch").cpu

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        if device != 0:
            raise ValueError(f"the CPU is device 0; there is no device {device}")

    def get_current_stream(self, device: int | None = None) -> int:
        """Launches on a CPU return when they are done, so all of them are in order."""
        return 0

    def get_benchmarker(self) -> Callable[..., Any]:
        """The function that times calls, as tuners and inspection tools want it."""
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory larger than the caches, to be overwritten between timed runs: of torch, where it is loaded."""
        torch = imported("torch")
        return np.zeros(CACHE_BYTES, np.uint8) if torch is None else torch.zeros(CACHE_BYTES, dtype=torch.uint8)

    def clear_cache(self, cache: Any) -> None:
        """Push everything else out of the caches."""
        cache[...] = 0


class CudaProperties:
    """`driver.active.utils` of a GPU."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """The numbers that programs compute an occupancy from."""
        limits = gpu(device).limits
        return {"multiprocessor_count": limits.multiprocessors, "max_shared_mem": limits.shared_bytes,
                "max_num_regs": limits.registers, "warpSize": limits.warp_size, "sm_clock_rate": limits.clock_khz,
                "mem_clock_rate": limits.memory_clock_khz, "mem_bus_width": limits.memory_bus_bits}


class CudaDriver:
    """NVIDIA's GPUs, as torch sees them where it is loaded, else the first."""

    def __init__(self) -> None:
        self.utils = CudaProperties()

    @classmethod
    def is_active(cls) -> bool:
        """Whether this process can use a GPU: torch says so where it is loaded, else NVIDIA's driver."""
        torch = imported("torch")
        if torch is not None:
            return bool(torch.cuda.is_available() and torch.version.cuda)
        with NO_FORK:
            from tilewright.targets.nvidia.driver.cuda import CUDA
        return CUDA.count() > 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", gpu(self.get_current_device()).capability, WARP_SIZE)

    def get_active_torch_device(self) -> Any:
        """The current CUDA device of torch."""
        return importlib.import_module("torch").device("cuda", self.get_current_device())

    def get_device_interface(self) -> Any:
        """`torch.cuda`."""
        return importlib.import_module("torch").cuda

    def get_current_device(self) -> int:
        torch = imported("torch")
        return 0 if torch is None else int(torch.cuda.current_device())

    def set_current_device(self, device: int) -> None:
        importlib.import_module("torch").cuda.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """The handle of the stream that launches on `device` go to."""
        with NO_FORK:
            from tilewright.targets.nvidia.driver.stream import current_stream
        return current_stream(self.get_current_device() if device is None else device)

    def get_benchmarker(self) -> Callable[..., Any]:
        """The function that times calls."""
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory larger than a GPU's second-level cache."""
        torch = importlib.import_module("torch")
        return torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def clear_cache(self, cache: Any) -> None:
        """Push everything else out of the caches."""
        cache.zero_()


class CompileOnlyDriver(CudaDriver):
    """A GPU that is not here: `kernel.warmup(...)` compiles for it, and launches are errors.

    `driver.set_active(CompileOnlyDriver(GPUTarget("cuda", 90, 32)))` puts it in place.
    """

    def __init__(self, target: GPUTarget) -> None:
        if target.backend != "cuda":
            raise ValueError(f"code is compiled ahead for the backend 'cuda', not for {target.backend!r}")
        super().__init__()
        self._target = target

    @classmethod
    def is_active(cls) -> bool:
        """It is nowhere until it is set."""
        return False

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0


def gpu(index: int) -> Any:
    """GPU number `index`; what it is asked is remembered."""
    if index not in _GPUS:
        with NO_FORK:
            from tilewright.targets.nvidia.driver.device import Device
        _GPUS[index] = Device(index)
    return _GPUS[index]


_GPUS: dict[int, Any] = {}      # the machine's, for the life of the process


class DriverChoice:
    """The driver in use: the machine's own, a GPU's where there is one, until another is set.

    Which one that is, is found when it is first asked for: importing and decorating touch no driver.
    """

    def __init__(self) -> None:
        self._set: Driver | None = None

    @computed
    def default(self) -> Driver:
        """The machine's own driver."""
        return CudaDriver() if CudaDriver.is_active() else CpuDriver()

    @property
    def active(self) -> Driver:
        return self.default if self._set is None else self._set

    def device_name(self) -> str:
        """The device that the active driver would launch on: `cpu`, `cuda:0` and so on, or `cuda:ahead:90`, which is
        not here."""
        active = self.active
        if isinstance(active, CompileOnlyDriver):
            return f"{AHEAD}{active.get_current_target().arch}"
        return f"cuda:{active.get_current_device()}" if isinstance(active, CudaDriver) else "cpu"

    def set_active(self, driver: Driver) -> None:
        """Let `driver` answer from now on, in the whole process."""
        self._set = driver

    def reset_active(self) -> None:
        """Back to the machine's own driver."""
        self._set = None


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fast_memory() -> int:
    """Bytes of a core's second-level cache, as far as the system tells."""
    try:
        size = os.sysconf("SC_LEVEL2_CACHE_SIZE")
    except (AttributeError, ValueError, OSError):
        size = 0
    return size if size > 0 else DEFAULT_FAST_MEMORY


driver = DriverChoice()
