"""What values would be if undefined lanes held other bits: how checked mode sees that garbage has cancelled.

The note `undefined` (`interpret.shadows`) says which lanes garbage may have reached.  That is too many where it
cancels: `u ^ (a ^ u)` is `a` whatever `u` is, and so the exchange of a bitonic sort keeps the garbage of some lanes out
of the others.  So a value with that note also has `alternatives`: what it would be for each of `DRAWS` random fillings
of the undefined lanes, in the form of the value with one more axis, the last.  Where *both* operands of an integer sum,
difference or exclusive or are undefined and all alternatives of the result equal it, the lane is defined after all.

Whole words of random bits that cancel twice by accident are no concern; flags (i1) are never cleared.  Ops whose
meaning cannot be asked again without effects, or that are expensive, draw new bits: then nothing cancels through them.
Tests: tests/check/test_cancelling.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.interpret import dataflow
from tilewright.interpret.shadows import REARRANGES, Note
from tilewright.ir.node import Module, Op
from tilewright.ir.ops import Effect
from tilewright.ir.types import I1, element_of
from tilewright.ir.walk import ops_in

Array = np.ndarray[Any, Any]
Meaning = Callable[[Sequence[Array]], tuple[Array, ...]]

DRAWS = 2
_CANCELS = frozenset({"xor", "add", "sub"})


class Alternatives:
    """The random bits of one launch."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def drawn(self, value: Array, note: Array) -> Array:
        """Alternatives of `value` with new random bits in the lanes that `note` calls undefined."""
        shape = (*np.broadcast_shapes(value.shape, note.shape), DRAWS)
        size = 1 if value.dtype == np.bool_ else value.dtype.itemsize
        bits = np.frombuffer(self._random.bytes(int(np.prod(shape)) * size), f"u{size}").reshape(shape)
        draw = (bits & 1).astype(np.bool_) if value.dtype == np.bool_ else bits.view(value.dtype)
        return np.where(note[..., None] != 0, draw, value[..., None])

    @staticmethod
    def full(known: Note, value: Array, sizes: tuple[int, ...]) -> Array:
        """Alternatives as an array of the value's form, with one more axis; of a value that has none, the value."""
        array = value[..., None] if known is None else known
        return np.broadcast_to(array, (array.shape[0], *sizes, DRAWS))

    def of_results(self, op: Op, meaning: Meaning, args: Sequence[Array], known: Sequence[Note],
                   results: Sequence[Array], notes: Sequence[Note]) -> list[Note]:
        """Alternatives of an op's results from those `known` of its operands; None where `notes` is None."""
        if all(note is None for note in notes):
            return [None] * len(notes)
        if not _can_be_repeated(op):
            return [None if n is None else self.drawn(r, n) for r, n in zip(results, notes, strict=True)]
        worlds = [meaning([a if k is None else k[..., draw] for a, k in zip(args, known, strict=True)])
                  for draw in range(DRAWS)]
        return [None if n is None else np.stack(np.broadcast_arrays(*(w[i] for w in worlds)), axis=-1)
                for i, n in enumerate(notes)]


def without_cancelled(op: Op, operands: Sequence[Note], note: Note, result: Array, alternatives: Note) -> Note:
    """The `undefined` note of the result of an op, less the lanes in which the garbage of both operands cancelled."""
    if not _cancels(op) or note is None or alternatives is None or any(n is None for n in operands):
        return note
    both = np.logical_and.reduce([n != 0 for n in operands])
    same = (alternatives == result[..., None]).all(axis=-1)
    left = np.where(both & same, np.int32(0), note)
    return left if left.any() else None


def may_cancel(module: Module, leaves: Callable[[Op], bool]) -> bool:
    """Whether some op may combine two values that undefined lanes reach, those of the loads that `leaves` names."""
    undefined = dataflow.reached(module, leaves)
    return any(_cancels(op) and undefined.issuperset(op.operands)
               for function in module.functions.values() for op in ops_in(function.body))


def _cancels(op: Op) -> bool:
    """Whether garbage in both operands may leave the result as it would be without."""
    return op.name in _CANCELS and element_of(op.result.type) != I1


def _can_be_repeated(op: Op) -> bool:
    """Whether the op's meaning may be asked again, with other arguments, and is cheap enough for that."""
    simple = op.row.elementwise or op.name in REARRANGES or op.name in ("reduce", "select")
    return simple and not op.row.effects and all(
        inner.row.effects in (Effect.NONE, Effect.CONTROL) for region in op.regions for inner in ops_in(region))
