"""Comparing results: `assert_close`.  Tests: tests/testing/test_compare.py."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_close(x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = "") -> None:
    """AssertionError unless |x - y| <= atol + rtol * |y| everywhere; NaN equals NaN.

    Arrays, torch tensors (of any device) and numbers are taken.  The tolerances default to 1e-2 and 0.
    """
    a, b = as_array(x), as_array(y)
    atol, rtol = 1e-2 if atol is None else atol, 0.0 if rtol is None else rtol
    if a.size > 1 or b.size > 1:
        np.testing.assert_allclose(a, b, atol=atol, rtol=rtol, equal_nan=True, err_msg=err_msg)
    elif not np.allclose(a, b, atol=atol, rtol=rtol, equal_nan=True):
        raise AssertionError(f"{err_msg} {a} is not close to {b} (atol={atol}, rtol={rtol})".strip())


def as_array(value: Any) -> Any:
    """A NumPy array of a number, an array or a torch tensor; bfloat16 and narrower floats become float32."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        tensor = value.detach().cpu()
        if tensor.dtype.is_floating_point and str(tensor.dtype) not in ("torch.float64", "torch.float32"):
            tensor = tensor.float()
        return tensor.numpy()
    return np.asarray(value)
