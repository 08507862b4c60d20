"""`launch(kernel, grid, *args, **kwargs)` on each engine in turn."""

import functools

import pytest

from tilewright.testing import engines


@pytest.fixture(params=engines.ENGINES)
def launch(request):
    return functools.partial(engines.launch, request.param)
