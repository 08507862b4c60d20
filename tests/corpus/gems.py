"""flag-gems as foreign code: as it is on a machine with a GPU, and on one without.

There it gets a vendor whose device is torch's `cpu`, made before the package is imported.

The package asks its backend directory for a vendor, `torch.<device>` for streams and properties and a generator for
the random state, and refuses to import when no vendor answers.  Here its NVIDIA vendor (whose operators are the plain
ones) is told that its device is `cpu`, and the few functions that `torch.cpu` lacks are added for the time of the
import.  Nothing of the package's own code is replaced: its `libentry`, `libtuner` and code generator run as they are.

Before: nothing imported triton.  After: `import_flag_gems` returns the package, whose `triton` is Tilewright.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import tilewright.compat

NEEDED = ("torch", "flag_gems", "sqlalchemy", "yaml", "packaging")
TUNED = 2       # configurations that are timed where the package lists tens of them: each is compiled


def missing() -> list[str]:
    """The packages that these tests need and that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


class Philox:
    """The random state of a CUDA generator, which is all that the package takes from it: seed and offset."""

    def __init__(self, torch: ModuleType, seed: int = 42) -> None:
        self._state = torch.tensor([seed, 0], dtype=torch.int64).view(torch.uint8)

    def get_state(self) -> Any:
        return self._state.clone()

    def set_state(self, state: Any) -> None:
        self._state = state.clone()


def device_functions(torch: ModuleType) -> SimpleNamespace:
    """`torch.cpu` with what `torch.cuda` has and it has not."""
    properties = SimpleNamespace(name="cpu", multi_processor_count=2, L2_cache_size=2**20, major=8, minor=0)
    return SimpleNamespace(
        device=lambda _device: contextlib.nullcontext(), current_device=lambda: 0, device_count=lambda: 1,
        is_available=lambda: True, get_device_name=lambda _device=None: "cpu",
        get_device_properties=lambda _device=None: properties, get_device_capability=lambda _device=None: (8, 0),
        synchronize=lambda _device=None: None, default_generators=(Philox(torch),))


def import_flag_gems(on_gpu: bool = False) -> ModuleType:
    """The package `flag_gems`, for the CPU or a GPU; later calls return the same."""
    if "flag_gems" in sys.modules:
        return sys.modules["flag_gems"]
    tilewright.compat.install()
    torch = importlib.import_module("torch")
    cache = tempfile.mkdtemp(prefix="tilewright-flag-gems-")
    os.environ.update(GEMS_VENDOR="nvidia", FLAGGEMS_CACHE_DIR=cache, FLAGGEMS_DB_URL=f"sqlite:///{cache}/tuned.db")
    _time_few_configurations()
    if on_gpu:
        return importlib.import_module("flag_gems")
    _make_vendor()
    torch.cuda.current_device = lambda: 0       # a heuristic asks for it, whatever the device is
    torch.cuda.get_device_properties = device_functions(torch).get_device_properties
    with mock.patch.object(torch, "cpu", device_functions(torch)):
        return importlib.import_module("flag_gems")


def _make_vendor() -> None:
    """The package's vendors are top-level modules of its backend directory; this one's device becomes the CPU."""
    spec = importlib.util.find_spec("flag_gems")
    assert spec is not None and spec.origin is not None
    sys.path.append(str(Path(spec.origin).parent / "runtime" / "backend"))
    vendor = importlib.import_module("_nvidia")
    vendor.vendor_info.device_name = "cpu"
    vendor.vendor_info.triton_extra_name = "cuda"      # the home of the libdevice functions
    del vendor.ARCH_MAP                                 # no operators for one generation of GPUs


def _time_few_configurations() -> None:
    autotuner = importlib.import_module("triton").runtime.Autotuner
    prune = autotuner.prune_configs

    def first_few(self: Any, *args: Any, **kwargs: Any) -> Sequence[Any]:
        return list(prune(self, *args, **kwargs))[:TUNED]

    autotuner.prune_configs = first_few
