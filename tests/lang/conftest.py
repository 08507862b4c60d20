"""The fixture `launch`: a kernel's launch, once on every engine, and in checked mode.

A test marked `undefined_lanes` uses lanes that a masked load without `other` left undefined; checked mode says so.
"""

from __future__ import annotations

import functools
import zlib

import pytest

from tests.gpu import CUDA, ON_GPU
from tilewright import UndefinedLaneError
from tilewright.runtime import knobs
from tilewright.testing import engines, ptx_machine


@pytest.fixture(params=(*engines.ENGINES, "checked", engines.ON_MACHINE, *([CUDA] if ON_GPU else [])))
def launch(request):
    """`launch(kernel, grid, *args, **kwargs)` on one engine."""
    if request.param == "checked" and request.node.get_closest_marker("undefined_lanes"):
        return launch_with_undefined_lanes
    if request.param == engines.ON_MACHINE:
        return functools.partial(launch_on_machine, zlib.crc32(request.node.nodeid.encode()) % 2)
    if request.param == CUDA:
        return functools.partial(launch_with_exact_products, request.param)
    return functools.partial(engines.launch, request.param)


def launch_on_machine(seed, kernel, grid, *args, **kwargs):
    """A launch on the PTX machine: warps together with seed 0, in half of the tests, else parted and mixed."""
    with knobs.scope(f32_default="ieee"):
        ptx_machine.run(kernel, grid, args, kwargs, seed=seed)


def launch_with_exact_products(engine, kernel, grid, *args, **kwargs):
    """A launch of code for a GPU; products of fp32 are exact, as on the other engines, unless one asks for tf32."""
    with knobs.scope(f32_default="ieee"):
        engines.launch(engine, kernel, grid, *args, **kwargs)


def launch_with_undefined_lanes(kernel, grid, *args, **kwargs):
    """A launch that checked mode refuses; another engine then does what the test expects."""
    with pytest.raises(UndefinedLaneError, match="masked off in the load"):
        engines.launch("checked", kernel, grid, *args, **kwargs)
    engines.launch("batched", kernel, grid, *args, **kwargs)
