"""Rows on operands of which a code generator knows something, and may use it wrongly: here, that they are no NaN."""

import numpy as np
import pytest

from tests.conform import engines
from tests.conform.modules import module, ptr
from tilewright.ir.types import F32, F64, I8, storage_dtype


@pytest.mark.parametrize("engine", engines.ENGINES)
@pytest.mark.parametrize("element", [F32, F64], ids=str)
@pytest.mark.parametrize("row", ["max_f", "min_f", "max_nan_f", "min_nan_f"])
def test_extremum_of_a_converted_integer_and_nan(engine, element, row):
    """As a scalar, and as tiles of 7 and 17 lanes; the integer on either side; one program, so 25 lanes twice."""
    dtype = storage_dtype(element)
    floats = np.where(np.arange(25) % 3 == 0, dtype.type(2), dtype.type(np.nan))
    floats[1::6] = np.copysign(floats[1::6], dtype.type(-1))
    integers = (np.arange(25) - 12).astype(np.int8)
    out = np.zeros((2, 25), dtype)

    def body(k, floats, integers, out):
        for side in (0, 1):
            at = 0
            for shape in ((), (7,), (17,)):
                lanes = shape[0] if shape else 1
                place = k.one("add", k.splat(k.const(at), shape), k.iota(lanes)) if shape else k.const(at)
                there = [k.one("ptr_add", k.splat(p, shape) if shape else p, place) for p in (floats, integers)]
                x, n = k.load(there[0]), k.one("int_to_fp_s", k.load(there[1]), to=element)
                target = k.one("ptr_add", out, k.const(25 * side))
                where = k.one("ptr_add", k.splat(target, shape) if shape else target, place)
                k.store(where, k.one(row, *((x, n) if side == 0 else (n, x))))
                at += lanes

    engines.ENGINES[engine](module([ptr(element), ptr(I8), ptr(element)], body), (1,), [floats, integers, out])
    choose = max if row.startswith("max") else min
    for i, (x, n) in enumerate(zip(floats.tolist(), integers.tolist(), strict=True)):
        want = (np.nan if "nan" in row else float(n)) if x != x else choose(x, float(n))
        for got in out[:, i].tolist():
            assert got == want or (got != got and want != want), (x, n)
