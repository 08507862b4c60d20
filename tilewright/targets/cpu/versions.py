"""In which versions a nest is written: run-time tests decide which one of them runs.

* Long rows whose masks end somewhere: one version that is split there (`prefix`) serves full and partly full tiles.
* Else, where tests can make it simple (`bounds`): one without masks and wraps; then, for tiles that are not full, a
  split one, or one without wraps, as far as there is something to gain.
* Where a product packs short rows, masks of their vectors are made once for all rows (AVX-512), and cost nothing after
  that: one version then does what is not full.
* Last, where none of these may hold: all masks at every vector.  It is written for size, since it seldom runs.

Stores that may bypass the caches double the best version.
Before: what the nest reads is bound, its accesses have been tested.  Tests: tests/targets/cpu/test_versions.py,
test_prefix.py, test_bounds.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.ir.node import Op, Value
from tilewright.ir.types import element_of
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.bounds import assume, assume_quotients
from tilewright.targets.cpu.evaluate import Facts
from tilewright.targets.cpu.heads import line_of
from tilewright.targets.cpu.nest import LINE, LONG_ROW, Line, Nest, fits_head, vector_axis
from tilewright.targets.cpu.prefix import Prefix, ends, find
from tilewright.targets.cpu.state import Kernel
from tilewright.targets.llvm.types import Value as LlvmValue

_CHEAP = 4      # vectors at once of a nest that computes little (`plan.unrolling`)

Results = tuple[LlvmValue, ...]
# When stores bypass the caches, under facts; the second argument: when heads let rows begin at lines (i1; None: never).
Streams = Callable[[Facts, "LlvmValue | None"], "LlvmValue | None"]


@dataclass(frozen=True, slots=True)
class Versions:
    """What is known of one nest: `ops` are its virtual ops, `roots` the store that it serves, if any.

    `emit` writes a version into a `Nest`.  `whole`: it does something at every index.  `brief`: it packs for a product,
    or stores what a loop or a product has made, which takes longer than that.  Versions whose stores bypass the caches
    have vectors of `streaming_width`, which are lines where others may be less.  `ahead`: loads that prefetch, and how
    far.
    """

    kernel: Kernel
    aliases: Aliases
    sources: Sequence[Value]
    ops: Sequence[Op]
    roots: Sequence[Op]
    shape: tuple[int, ...]
    width: int
    streaming_width: int
    unroll: int
    whole: bool
    brief: bool
    emit: Callable[[Nest], Sequence[LlvmValue]]
    streams: Streams
    ahead: Mapping[Op, LlvmValue]

    def plain(self) -> Results:
        """One version without facts, which also serves a nest that must not be tested."""
        return self._version(Facts(), self._vectors if self._is_short else 1, seldom=True)

    @property
    def _vectors(self) -> int:
        """Vectors of a row."""
        return -(-self.shape[vector_axis(self.shape)] // self.width)

    @property
    def _is_short(self) -> bool:
        """Whether masks of a row's vectors are made once, before all rows, and cost nothing after that."""
        return self.kernel.code.isa.avx512 and self._vectors <= self.unroll == _CHEAP

    def write(self, splits: bool) -> Results:
        """All versions; `splits`: `emit` follows `Nest.split`."""
        size = self.shape[vector_axis(self.shape)]
        may_split = splits and not size & (size - 1) and size >= 2 * self.width
        if may_split and size >= LONG_ROW * self.width:
            prefix = self._prefix()
            if prefix is not None:
                return self._split(prefix)
        facts, condition = assume(self.kernel, [*self.ops, *self.roots])
        if condition is None:
            return self._best(facts)
        return self.kernel.code.branch(condition, lambda: self._best(facts), lambda: self._not_full(facts, may_split))

    def _version(self, facts: Facts, unroll: int, streams: bool = False, prefix: Prefix | None = None,
                 seldom: bool = False) -> Results:
        code = self.kernel.code
        split = None
        if prefix is not None:
            split = replace(prefix.split, rest=self._has_rest(prefix), line=self._line(prefix))
        width = self.streaming_width if streams else self.width
        size = element_of(self.roots[0].operands[1].type).bytes if streams else 0
        with code.scope() as floor:
            results = tuple(self.emit(Nest(self.kernel, self.shape, width, floor, facts, unroll=unroll,
                                           streams=size, split=split, ahead=self.ahead, minor=seldom or self.brief)))
        return tuple(code.export(r) for r in results)

    def _best(self, facts: Facts, prefix: Prefix | None = None) -> Results:
        large = self.streams(facts if prefix is None else prefix.split.inside, self._by_heads(prefix))
        if large is None:
            return self._version(facts, self.unroll, prefix=prefix)
        return self.kernel.code.branch(large, lambda: self._version(facts, self.unroll, True, prefix),
                                       lambda: self._version(facts, self.unroll, prefix=prefix))

    def _has_rest(self, prefix: Prefix) -> bool:
        """Whether there is something to do behind the limit."""
        return self.whole or not any(ends(self.kernel, op.operand("mask"), prefix) for op in self.roots)

    def _line(self, prefix: Prefix) -> Line | None:
        if not prefix.is_ragged or self._has_rest(prefix):
            return None
        return line_of(self.kernel, self.aliases, self.ops, self.roots, self.shape)

    def _by_heads(self, prefix: Prefix | None) -> LlvmValue | None:
        """When (i1) vectors of the streaming version begin at lines wherever rows do; None: never."""
        line = self._line(prefix) if prefix is not None else None
        size, width = self.shape[vector_axis(self.shape)], self.streaming_width
        if prefix is None or line is None or width * line.bytes != LINE or size < LONG_ROW * width:
            return None
        return fits_head(self.kernel.code, prefix.split, size, width)

    def _prefix(self) -> Prefix | None:
        return find(self.kernel, self.aliases, self.sources, [*self.ops, *self.roots], self.shape,
                    vector_axis(self.shape))

    def _split(self, prefix: Prefix, streams: bool = True) -> Results:
        """`streams`: it may bypass the caches."""
        def split() -> Results:
            if streams:
                return self._best(prefix.facts, prefix)
            return self._version(prefix.facts, self.unroll, prefix=prefix, seldom=True)

        return split() if prefix.condition is None else self.kernel.code.branch(prefix.condition, split, self.plain)

    def _not_full(self, facts: Facts, may_split: bool) -> Results:
        """For tiles for which `facts`, those of a full one, do not hold."""
        if self._is_short and facts.true and not self.roots:      # stores under masks are slower than split ones
            may_split = False
        prefix = self._prefix() if may_split else None
        if prefix is not None:
            return self._split(prefix, not self.brief)
        some, holds = assume_quotients(self.kernel, self.ops)
        if holds is None or not facts.true:
            return self.plain()
        unroll = self._vectors if self._is_short else 1
        return self.kernel.code.branch(holds, lambda: self._version(some, unroll, seldom=True), self.plain)
