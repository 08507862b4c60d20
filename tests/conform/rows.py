"""Evaluating one op row on arrays, without a module: what tests of meanings share."""

from __future__ import annotations

import numpy as np

from tilewright.ir.build import complete_attrs
from tilewright.ir.ops import TABLE, Call
from tilewright.ir.types import Tile, element_of, storage_dtype


def tile_types(elements, shape):
    return [Tile(tuple(shape), e) if shape else e for e in elements]


def evaluate(name, elements, arrays, machine=None, **attrs):
    """The row's results on arrays with a program axis; the operand types are tiles of these elements.

    Checks the types with the row's rule, and that the results look as it says.
    """
    row = TABLE[name]
    types = tile_types(elements, arrays[0].shape[1:] if arrays else ())
    full = complete_attrs(row, attrs)
    result_types = row.infer(types, full, ())
    results = row.ref(Call(arrays, types, result_types, full, (), machine))
    for result, t in zip(results, result_types, strict=True):
        assert result.dtype == storage_dtype(t), f"{name} gave {result.dtype} for {t}"
    return results[0] if len(results) == 1 else results


def flat(name, elements, *arrays, **attrs):
    """`evaluate` on flat arrays, as one program."""
    return evaluate(name, elements, [np.asarray(a, storage_dtype(e))[None] for a, e in zip(arrays, elements)],
                    **attrs)[0]


def bits_of(array):
    """An array's elements as unsigned bit patterns."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def same_but_nan(a, b, element):
    """Whether storage arrays have the same bits, any NaN equal to any NaN."""
    from tilewright.ir import fp
    equal = bits_of(a) == bits_of(b)
    e = element_of(element)
    if e.is_float:
        equal |= np.isnan(fp.decode(a, e)) & np.isnan(fp.decode(b, e))
    return equal
