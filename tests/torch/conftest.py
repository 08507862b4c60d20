"""What the tests of this folder share: torch, if it is there, and its compiler without memory of earlier tests.

In a run on a GPU (`python -m tests.gpu`) the tensors that tests make are on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.gpu import ON_GPU


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    torch.compiler.reset()
    if ON_GPU:
        torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)
    torch.compiler.reset()


@pytest.fixture
def assert_same() -> Callable[..., int]:
    """Compiled equals eager, in what comes back and in what is done to the arguments; how often it was compiled."""
    torch = pytest.importorskip("torch")
    testing = pytest.importorskip("torch._dynamo.testing")

    def copied(arguments: tuple[Any, ...]) -> list[Any]:
        return [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]

    def check(function: Callable[..., Any], *argument_lists: tuple[Any, ...], backend: str = "aot_eager") -> int:
        counter = testing.CompileCounterWithBackend(backend)
        fast = torch.compile(function, fullgraph=True, backend=counter)
        for arguments in argument_lists:
            first, second = copied(arguments), copied(arguments)
            want, have = function(*first), fast(*second)
            torch.testing.assert_close(have, want, rtol=0, atol=0, equal_nan=True)
            torch.testing.assert_close(second, first, rtol=0, atol=0, equal_nan=True)
        return int(counter.frame_count)

    return check
