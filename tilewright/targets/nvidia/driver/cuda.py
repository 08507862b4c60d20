"""Calls of CUDA's driver: results, or `CudaError` with the driver's own name and text.

Nothing is loaded before the first call, so a machine without GPUs never looks for the driver.
Tests: tests/targets/nvidia/driver/test_driver.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.computed import computed
from tilewright.diagnostics import NoDriverError, TritonError
from tilewright.targets.nvidia.driver.functions import Functions


class CudaError(TritonError, RuntimeError):
    """A call of CUDA's driver that failed; `name` is the driver's name of the error (`CUDA_ERROR_...`)."""

    def __init__(self, function: str, name: str, text: str) -> None:
        self.function, self.name, self.text = function, name, text
        super().__init__(f"{function}: {name}: {text}")


class Cuda:
    """The driver.  `call("cuDeviceGetCount")` gives the result (or a tuple of them, or None)."""

    @computed
    def api(self) -> Any:
        """The driver's functions, the driver initialised."""
        try:
            api = Functions()
        except OSError as error:
            raise NoDriverError(f"there is no driver for NVIDIA GPUs on this machine ({error})") from None
        (code,) = api.cuInit(0)
        self._test("cuInit", api, code)
        return api

    def call(self, name: str, *args: Any) -> Any:
        """What the driver's function `name` gives for these arguments; `CudaError` if it fails."""
        api = self.api
        code, *results = getattr(api, name)(*args)
        self._test(name, api, code)
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def _test(self, function: str, api: Any, code: Any) -> None:
        if int(code):
            raise self._error(function, api, code)

    def error(self, function: str, code: Any) -> CudaError:
        """The error for a CUresult of `function`."""
        return self._error(function, self.api, code)

    @staticmethod
    def _error(function: str, api: Any, code: Any) -> CudaError:
        (_, name), (_, text) = api.cuGetErrorName(code), api.cuGetErrorString(code)
        return CudaError(function, str(code) if name is None else name.decode(),
                         "no text for it" if text is None else text.decode())

    def attribute(self, name: str, device: int) -> int:
        """`CU_DEVICE_ATTRIBUTE_{name}` of a device."""
        return int(self.call("cuDeviceGetAttribute",
                             getattr(self.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

    def count(self) -> int:
        """How many GPUs this process may use; 0 without a driver."""
        try:
            return int(self.call("cuDeviceGetCount"))
        except RuntimeError:
            return 0


CUDA = Cuda()       # there is one driver for a process
