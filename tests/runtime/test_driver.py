"""`driver.active`: what programs ask about the machine."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from tilewright.runtime.driver import CpuDriver, DriverChoice, GPUTarget


def test_the_machine_is_a_cpu() -> None:
    active = DriverChoice().active
    assert active.get_current_target() == GPUTarget("cpu", "", 32)
    assert active.get_current_device() == 0 and active.get_current_stream(0) == 0


def test_properties_give_a_sensible_occupancy() -> None:
    properties = CpuDriver().utils.get_device_properties(0)
    assert 1 <= properties["multiprocessor_count"] <= (os.cpu_count() or 1)
    assert properties["max_num_regs"] // (properties["warpSize"] * 8 * 255) >= 1
    assert properties["max_shared_mem"] >= 1 << 16


def test_torch_device() -> None:
    torch = pytest.importorskip("torch")
    assert CpuDriver().get_active_torch_device() == torch.device("cpu")
    assert CpuDriver().get_device_interface() is torch.cpu


def test_benchmarker_and_its_cache() -> None:
    driver = CpuDriver()
    calls: list[int] = []
    milliseconds = driver.get_benchmarker()(lambda: calls.append(1), warmup=0, rep=1, quantiles=[0.5, 0.2, 0.8])
    assert len(milliseconds) == 3 and calls
    cache = driver.get_empty_cache_for_benchmark()
    cache[0] = 1
    driver.clear_cache(cache)
    assert cache[0] == 0 and cache.nbytes >= 1 << 24


def test_the_cache_is_a_torch_tensor_where_torch_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    driver = CpuDriver()
    cache = driver.get_empty_cache_for_benchmark()
    assert isinstance(cache, torch.Tensor) and cache.zero_() is cache
    cache.fill_(1)
    driver.clear_cache(cache)
    assert not cache[:1000].any()
    monkeypatch.delitem(sys.modules, "torch")
    assert isinstance(driver.get_empty_cache_for_benchmark(), np.ndarray)


def test_only_device_zero() -> None:
    driver = CpuDriver()
    driver.set_current_device(0)
    with pytest.raises(ValueError, match="no device 1"):
        driver.set_current_device(1)


def test_another_driver_can_be_set() -> None:
    choice, other = DriverChoice(), CpuDriver()
    choice.set_active(other)
    assert choice.active is other
    choice.reset_active()
    assert choice.active is choice.default is not other
