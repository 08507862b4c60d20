"""Random kernels: a GPU and the batched interpreter leave the same memory."""

from __future__ import annotations

import pytest

from tests.fuzz.generate import generate
from tests.fuzz.running import check

FIRST = 500_000     # of the seeds


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("seed", range(FIRST, FIRST + metafunc.config.getoption("--kernels")))


def test_random_kernel(seed: int) -> None:
    program = generate(seed, crowded=False)
    verdict = check(program, ("batched", "cuda"))
    assert not verdict.fails, f"{verdict}\n{program.source()}"
