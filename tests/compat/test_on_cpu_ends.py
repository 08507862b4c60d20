"""After `cuda_on_cpu()` torch is as before."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tilewright.compat.on_cpu import cuda_on_cpu  # noqa: E402
from tilewright.runtime.driver import driver  # noqa: E402


def test_torch_is_as_before() -> None:
    before = [torch.cuda.is_available, torch.cuda.Event, torch.Generator, torch.set_default_device,
              torch.autograd._engine_run_backward, driver.active]
    with pytest.raises(ZeroDivisionError), cuda_on_cpu():
        x = torch.ones(2, device="cuda")
        raise ZeroDivisionError
    after = [torch.cuda.is_available, torch.cuda.Event, torch.Generator, torch.set_default_device,
             torch.autograd._engine_run_backward, driver.active]
    assert all(a is b for a, b in zip(before, after, strict=True))
    assert x.device.type == "cpu" and not x.is_cuda
