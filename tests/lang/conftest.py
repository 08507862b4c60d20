"""The fixture `launch`: a kernel's launch, once on every engine."""

from __future__ import annotations

import functools

import pytest

from tilewright.testing import engines


@pytest.fixture(params=engines.ENGINES)
def launch(request):
    """`launch(kernel, grid, *args, **kwargs)` on one engine."""
    return functools.partial(engines.launch, request.param)
