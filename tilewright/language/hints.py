"""Promises about values: `multiple_of`, `max_contiguous`, `max_constancy` (semantics §10).

Tests: tests/lang/test_debug.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.tensor import tensor
from tilewright.language.values import describe, emit, known_ints, shape


def _hint(builder: Builder, what: str, attribute: str, input: Any, values: Any, scalars: bool) -> tensor:
    if not isinstance(input, tensor):
        raise LanguageTypeError(f"tl.{what} speaks of a run-time value, not of {describe(input)}")
    given = known_ints(values, f"values of tl.{what}")
    rank = len(shape(input))
    wanted = 1 if scalars and rank == 0 else rank
    if len(given) != wanted:
        raise LanguageValueError(f"Shape of input to {what} does not match the length of values: {input} needs "
                                 f"{wanted} value{'s' * (wanted != 1)}, one a dimension, but got {len(given)}")
    for value in given:
        if value < 1:
            raise LanguageValueError(f"values of tl.{what} must be 1 or more, but got {value}")
    if not given:
        return input
    return emit(builder, "hint", (input,), input.type, {attribute: given})


@builtin
def multiple_of(input: Any, values: Any, *, _builder: Builder) -> tensor:
    """`input`, with the promise that its elements are multiples of `values`.

    `values` are compile-time ints, one a dimension: the first element of each contiguous run is a multiple of it.  A
    scalar takes one.
    """
    return _hint(_builder, "multiple_of", "divisible", input, values, scalars=True)


@builtin
def max_contiguous(input: Any, values: Any, *, _builder: Builder) -> tensor:
    """`input`, with the promise that along each dimension its elements come in runs of consecutive integers.

    `values` are the lengths of the runs: compile-time ints, one a dimension.
    """
    return _hint(_builder, "max_contiguous", "contiguous", input, values, scalars=False)


@builtin
def max_constancy(input: Any, values: Any, *, _builder: Builder) -> tensor:
    """`input`, with the promise that along each dimension its elements come in runs of equal ones.

    `values` are the lengths of the runs: compile-time ints, one a dimension.
    """
    return _hint(_builder, "max_constancy", "constant", input, values, scalars=False)
