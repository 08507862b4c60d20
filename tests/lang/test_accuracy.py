"""Elementary and special functions against 250 bits, at thousands of arguments, within the bounds that the docs give.

The bounds of ops stand in their rows, those of composed functions in `language/bounds.py`; docs/language.md is made
from both.  A failure says how far the worst result is from the exact value.  Sine, cosine and tangent beyond 2**20 are
in tests/targets/llvm/test_mathlib.py, other engines at edge values in tests/conform/test_elementwise.py.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.conform.compare import ulps_from_exact
from tests.lang.accurate import EXACT, FORMAT, OPERANDS, arguments
from tilewright.ir.ops import TABLE
from tilewright.language.bounds import COMPOSED
from tilewright.testing import engines

ROWS = sorted(name for name, row in TABLE.items() if row.bound.ulp and name in EXACT)
COUNTS = {"y0": 200, "y1": 200, **{name: 600 for name in COMPOSED if name not in ("y0", "y1")}}     # mpmath is slow
BESSEL = ("j0", "j1", "y0", "y1")
BLOCK = 512
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["fp32", "fp64"])


@triton.jit
def of_one(x, out, n, function: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, function(tl.load(x + i, mask=i < n, other=1)), mask=i < n)


@triton.jit
def of_two(x, y, out, n, function: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, function(tl.load(x + i, mask=m, other=1), tl.load(y + i, mask=m, other=1)), mask=m)


@triton.jit
def of_three(x, y, z, out, n, function: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, function(tl.load(x + i, mask=m, other=1), tl.load(y + i, mask=m, other=1),
                               tl.load(z + i, mask=m, other=1)), mask=m)


@triton.jit
def of_four(x, y, z, w, out, n, function: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, function(tl.load(x + i, mask=m, other=1), tl.load(y + i, mask=m, other=1),
                               tl.load(z + i, mask=m, other=1), tl.load(w + i, mask=m, other=1)), mask=m)


KERNELS = {1: of_one, 2: of_two, 3: of_three, 4: of_four}


def measured(engine, name, given):
    """What an engine gives."""
    out = np.zeros_like(given[0])
    function = getattr(tl.extra.libdevice, name) if name != "sigmoid" else tl.sigmoid
    engines.launch(engine, KERNELS[len(given)], (triton.cdiv(len(out), BLOCK),), *given, out, len(out),
                   function=function, B=BLOCK)
    return out


@functools.cache
def examined(name, dtype):
    """Arguments, and the exact values there."""
    given = arguments(name, dtype, COUNTS.get(name, 2400))
    return given, [EXACT[name](*map(float, x)) for x in zip(*given, strict=True)]


def distance(got, want, dtype):
    """In units of the last place; a zero that is exact must have its sign."""
    if isinstance(want, float) and want == 0 and got == 0 and math.copysign(1, got) != math.copysign(1, want):
        return math.inf
    return ulps_from_exact(float(got), want, FORMAT[dtype])


def worst(name, dtype, got, apart):
    at = int(np.argmax(apart))
    given, want = examined(name, dtype)
    shown = ", ".join(f"{float(x[at])!r} ({float(x[at]).hex()})" for x in given)
    value = float(want[at]) if not isinstance(want[at], Fraction) or abs(want[at]) < 2**1000 else want[at]
    return f"{name}({shown}) = {got[at]!r}, {apart[at]:.3f} ulp from {value!r}"


@DTYPES
@pytest.mark.parametrize("name", ROWS)
def test_ops(name, dtype):
    """On the CPU within the row's bound; the NumPy meaning is correctly rounded, but for what long double leaves."""
    given, want = examined(name, dtype)
    assert len(want) > 1500
    wide = np.finfo(np.longdouble).nmant > 60 and name != "erf"
    meaning = 0.5 + 2.0**-20 if dtype is np.float32 else 0.51 if wide else 1.5
    for engine, bound in (("cpu", TABLE[name].bound.ulp), ("batched", meaning)):
        got = measured(engine, name, given)
        apart = np.array([distance(g, w, dtype) for g, w in zip(got, want, strict=True)])
        assert apart.max() <= bound, f"{engine}: {worst(name, dtype, got, apart)}, more than {bound}"


@DTYPES
@pytest.mark.parametrize("name", sorted(COMPOSED))
def test_composed_functions(name, dtype):
    given, want = examined(name, dtype)
    bound = COMPOSED[name].single if dtype is np.float32 else COMPOSED[name].double
    got = measured("cpu", name, given)
    apart = np.array([distance(g, w, dtype) for g, w in zip(got, want, strict=True)])
    x = given[0].astype(np.float64)
    size = np.array([abs(float(w)) if abs(w) < 2**1000 else math.inf for w in want])
    if name == "sigmoid":
        apart[size < np.finfo(dtype).tiny] = 0
    elif name == "lgamma":
        small = (x < 0) & (size < 1)
        apart[small] = np.abs(got[small].astype(float) - [float(want[i]) for i in np.flatnonzero(small)]) / (
            np.finfo(dtype).eps / 2)
    elif name in BESSEL:
        far = (np.abs(x) >= 8) & np.isfinite(x)
        near = far & (np.abs(x) <= 2.0**20)
        values = np.array([float(want[i]) for i in np.flatnonzero(near)])
        np.testing.assert_allclose(got[near], values, atol=5e-12 + np.finfo(dtype).eps, rtol=0)
        apart[far] = 0
    assert apart.max() <= bound, f"{worst(name, dtype, got, apart)}, more than {bound}"


@pytest.mark.parametrize("name", sorted(COMPOSED))
def test_the_docs_say_the_bound(name):
    function = getattr(tl.extra.libdevice, name) if name != "sigmoid" else tl.sigmoid
    assert str(COMPOSED[name]) in " ".join(function.__doc__.split()), function.__doc__


def test_every_row_with_a_bound_is_measured():
    rows = {name for name, row in TABLE.items() if row.elementwise and row.bound.ulp}
    assert rows - set(ROWS) == {"div_f"}, "quotients: tests/conform/test_elementwise.py"
    assert set(OPERANDS) <= set(EXACT) and set(COMPOSED) <= set(EXACT)
