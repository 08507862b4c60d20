"""assert_close."""

import numpy as np
import pytest

from tilewright.testing import assert_close


def test_equal_and_near():
    assert_close(np.arange(4.0), np.arange(4.0) + 0.005)
    assert_close(1.0, 1.005)
    assert_close([np.nan, np.inf], [np.nan, np.inf])


@pytest.mark.parametrize("x, y", [(np.zeros(3), np.ones(3)), (0.0, 1.0), (np.zeros(3), np.array([0, 0, np.nan])),
                                  (np.inf, -np.inf)])
def test_different(x, y):
    with pytest.raises(AssertionError, match="mine"):
        assert_close(x, y, err_msg="mine")


def test_tolerances():
    with pytest.raises(AssertionError):
        assert_close(np.full(3, 1.0), np.full(3, 1.005), atol=1e-3)
    assert_close(np.full(3, 1000.0), np.full(3, 1001.0), atol=0, rtol=1e-2)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x = torch.ones(4, dtype=torch.bfloat16, requires_grad=True)
    assert_close(x, np.ones(4))
    assert_close(torch.arange(4), torch.arange(4))
    with pytest.raises(AssertionError):
        assert_close(x, torch.zeros(4))
