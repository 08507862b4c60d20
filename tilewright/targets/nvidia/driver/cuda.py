"""Calls of CUDA's driver through cuda-bindings: results, or `CudaError` with the driver's own name and text.

Nothing is imported before the first call, so a machine without GPUs never loads it.
Tests: tests/targets/nvidia/driver/test_driver.py.
"""

from __future__ import annotations

import importlib
from typing import Any

from tilewright.computed import computed
from tilewright.diagnostics import TritonError

_LIBRARY = "kernels on NVIDIA GPUs need NVIDIA's package cuda-bindings: pip install 'tilewright[cuda]'"


class CudaError(TritonError, RuntimeError):
    """A call of CUDA's driver that failed; `name` is the driver's name of the error (`CUDA_ERROR_...`)."""

    def __init__(self, function: str, name: str, text: str) -> None:
        self.function, self.name, self.text = function, name, text
        super().__init__(f"{function}: {name}: {text}")


class Cuda:
    """The driver.  `call("cuCtxGetDevice")` gives the result (or a tuple of them, or None)."""

    @computed
    def api(self) -> Any:
        """The module of bindings, the driver initialised."""
        try:
            api = importlib.import_module("cuda.bindings.driver")
        except ImportError as error:
            raise ImportError(_LIBRARY) from error
        try:
            (code,) = api.cuInit(0)
        except RuntimeError as error:       # cuda-pathfinder's, where there is no libcuda
            raise RuntimeError(f"there is no driver for NVIDIA GPUs on this machine ({error})") from error
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
        _, text = api.cuGetErrorString(code)
        shown = text.decode() if isinstance(text, bytes) else "no text for it"
        return CudaError(function, str(getattr(code, "name", code)), shown)

    def attribute(self, name: str, device: int) -> int:
        """`CU_DEVICE_ATTRIBUTE_{name}` of a device."""
        return int(self.call("cuDeviceGetAttribute",
                             getattr(self.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

    def count(self) -> int:
        """How many GPUs this process may use; 0 without a driver."""
        try:
            return int(self.call("cuDeviceGetCount"))
        except (ImportError, RuntimeError):
            return 0


CUDA = Cuda()       # there is one driver for a process
