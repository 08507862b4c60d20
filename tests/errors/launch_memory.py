"""Tensors that a kernel must not write, or cannot reach."""

import numpy as np

import tilewright as triton
import tilewright.language as tl
from tests.errors.harness import launch_case


@triton.jit
def copy(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def store_in_helper(p, value):
    tl.store(p, value)


@triton.jit
def through_a_helper(x, n):
    p = x + 1
    if n > 3:
        p = x
    store_in_helper(p, n)


X = np.zeros(8, np.float32)
FROZEN = np.zeros(8, np.float32)
FROZEN.setflags(write=False)


class OnGpu:
    """Looks like a tensor in a GPU's memory."""

    dtype = np.dtype(np.float32)
    device = "cuda:0"
    shape = (8,)

    @staticmethod
    def data_ptr():
        return 4096

    @staticmethod
    def stride():
        return (1,)


class OnOtherGpu(OnGpu):
    """Looks like a tensor in the memory of a GPU of no target."""

    device = "xpu:0"


@launch_case
def read_only_output():
    copy[(1,)](X, FROZEN, 8)  # error: ValueError: copy: parameter 'out' is a read-only array, and the kernel stores


@launch_case
def read_only_view():
    copy[(1,)](X, np.broadcast_to(X[0], (8,)), 8)  # error: ValueError: parameter 'out' is a read-only array


@launch_case
def read_only_bytes():
    copy[(1,)](X, np.frombuffer(bytes(32), np.float32), 8)  # error: ValueError: pass a writable one


@launch_case
def read_only_through_a_helper():
    through_a_helper[(1,)](FROZEN, 5)  # error: ValueError: parameter 'x' is a read-only array


@launch_case
def gpu_and_cpu():
    copy[(1,)](OnGpu(), X, 8)  # error: ValueError: 'x' is on cuda:0, 'out' is on cpu


@launch_case
def cpu_and_gpu():
    copy[(1,)](X, OnGpu(), 8)  # error: ValueError: all on one device


@launch_case
def mixed_devices_in_eager_mode():
    with triton.knobs.scope(interpret=True):
        copy[(1,)](X, OnGpu(), 8)  # error: ValueError: 'x' is on cpu, 'out' is on cuda:0


@launch_case
def other_gpu():
    copy[(1,)](OnOtherGpu(), OnOtherGpu(), 8)  # error: ValueError: on xpu:0, and kernels run on CPUs and on NVIDIA


@launch_case
def number_as_pointer():
    copy[(1,)](1.5, X, 8)  # error: CompilationError: at
