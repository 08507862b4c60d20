"""What kernels ask about the target: the active driver's answers, also in the key of the disk cache."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.frontend.dependencies import dependencies
from tilewright.language.options import Options, Signature
from tilewright.runtime.driver import CpuDriver, GPUTarget, driver
from tilewright.runtime.key import kernel_parts
from tilewright.runtime.target_info import cuda_capability_geq, current_target, is_cuda, is_hip


class Hopper(CpuDriver):
    """A driver that says it is a GPU's."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


@pytest.fixture
def hopper():
    driver.set_active(Hopper())
    yield
    driver.reset_active()


@triton.jit
def asks(out):
    if is_cuda() and cuda_capability_geq(8, 9):
        tl.store(out, 89)
    else:
        tl.store(out, 1 if is_hip() else 2)


def test_outside_of_kernels(hopper) -> None:
    assert is_cuda() and not is_hip() and current_target() == GPUTarget("cuda", 90, 32)
    assert cuda_capability_geq(9) and cuda_capability_geq(8, 9) and not cuda_capability_geq(9, 1)


def test_on_a_machine_without_gpu() -> None:
    if driver.active.get_current_target().backend != "cpu":
        pytest.skip("this machine has a GPU")
    out = np.zeros(1, np.int32)
    asks[(1,)](out)
    assert out[0] == 2 and not is_cuda() and not cuda_capability_geq(0)


def test_the_answer_is_in_the_key(hopper) -> None:
    def parts():
        return dict(kernel_parts(dependencies(asks), Signature({}), Options()))

    assert "90" in parts()["active driver"]
    driver.reset_active()
    driver.set_active(CpuDriver())
    assert "cpu" in parts()["active driver"]

    @triton.jit
    def does_not_ask(out):
        tl.store(out, 1)

    assert "active driver" not in dict(kernel_parts(dependencies(does_not_ask), Signature({}), Options()))
