"""Launching kernels with planted faults: what checked mode must say, and where.

The guilty line of a kernel ends in `# here`; a second place of the report (the other access of a race, the load that
left a lane undefined) in `# other`.
"""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import tilewright as triton


def finds(kind, kernel, grid, *args, argument=None, index=None, program=None, check=True, says="", **kwargs):
    """Checked mode raises `kind` for a launch, and names kernel, argument, element, program, line and a cure."""
    with pytest.raises(kind) as caught:
        kernel[grid](*args, check=check, **kwargs)
    error = caught.value
    assert error.kernel == kernel.__name__
    text = str(error)
    assert text.count(kernel.__name__ + ":") >= 1 and says in text, text
    assert linecache.getline(error.location.file, error.location.line).rstrip().endswith("# here"), text
    if kind is not triton.OutOfBoundsError:
        assert "likely cure: " in text and error.cure in text
        for _, place in error.finding.others:
            assert linecache.getline(place.file, place.line).rstrip().endswith(("# other", "# here")), text
    for name, wanted in (("argument", argument), ("index", index), ("program", program)):
        if wanted is not None:
            assert getattr(error, name) == wanted, text
    if argument is not None:
        assert repr(argument) in text
    assert f"program {error.program}" in text
    return error


def passes(kernel, grid, *args, check=True, **kwargs):
    """Checked mode finds nothing, and leaves in memory what the compiled kernel does."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    before = [a.copy() for a in arrays]
    kernel[grid](*args, check=check, **kwargs)
    got = [a.copy() for a in arrays]
    for a, b in zip(arrays, before, strict=True):
        if a.flags.writeable:
            a[...] = b
    kernel[grid](*args, check=False, **kwargs)
    for a, b in zip(arrays, got, strict=True):
        np.testing.assert_array_equal(b, a)
