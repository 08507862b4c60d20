"""Random kernels: the CPU target and the batched interpreter give the same bits, with and without passes."""

import numpy as np
import pytest

from tests.targets.cpu.harness import both
from tests.targets.cpu.random_kernels import WORDS, Generator


@pytest.mark.parametrize("seed", range(24))
def test_random_kernel(seed):
    rng = np.random.default_rng(seed)
    module = Generator(seed).module()
    x = rng.integers(-50, 50, 400).astype(np.int32)
    for n, m in ((0, 7), (25, 64)):
        both(module, (1,), [x, np.zeros(WORDS, np.int32), n, m])
