"""What a compilation took, for `knobs.compilation.listener`.

    def listener(*, src, metadata, metadata_group, times, cache_hit): ...

is called after each compilation, and after each kernel that came from the disk cache.  Semantics of triton 3.6: `src`
has `fn`, `name`, `signature` and `constants`; `metadata` is a dict; all times are microseconds.
Tests: tests/runtime/test_hooks.py.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.language.options import ConstantArg, Options, RuntimeArg, Signature
from tilewright.runtime.specialize import type_text
from tilewright.targets.base import CodeObject, Stage


@dataclass(frozen=True)
class CompileTimes:
    """Microseconds of the frontend, of each stage in order, and of keeping the result."""

    ir_initialization: int
    lowering_stages: list[tuple[str, int]]
    store_results: int

    @property
    def total_lowering(self) -> int:
        return sum(spent for _, spent in self.lowering_stages)

    @property
    def total(self) -> int:
        return self.ir_initialization + self.total_lowering + self.store_results


@dataclass(frozen=True)
class CompiledSource:
    """Which function was compiled, and for what."""

    fn: Any
    name: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any]


@dataclass
class Clock:
    """Takes the times of one compilation: `mark` ends a part."""

    last: int = field(default_factory=time.perf_counter_ns)

    def mark(self) -> int:
        """Microseconds since the last mark."""
        before, self.last = self.last, time.perf_counter_ns()
        return (self.last - before) // 1000

    def timed(self, stages: dict[str, Stage], spent: list[tuple[str, int]]) -> None:
        """Let each stage note in `spent` what it takes."""
        for name, stage in stages.items():
            stages[name] = self._timed(name, stage, spent)

    def _timed(self, name: str, stage: Stage, spent: list[tuple[str, int]]) -> Stage:
        def run(value: Any, metadata: dict[str, Any]) -> Any:
            self.mark()
            made = stage(value, metadata)
            spent.append((name, self.mark()))
            return made

        return run


def tell(listener: Callable[..., Any], fn: Any, signature: Signature, options: Options, code: CodeObject,
         times: CompileTimes, cache_hit: bool) -> None:
    """Call the listener."""
    types = {name: type_text(arg.type) if isinstance(arg, RuntimeArg) else "constexpr"
             for name, arg in signature.args.items()}
    constants = {name: arg.value for name, arg in signature.args.items() if isinstance(arg, ConstantArg)}
    metadata = {**dataclasses.asdict(options), **code.metadata, "name": code.name, "target": code.target}
    listener(src=CompiledSource(fn, code.name, types, constants), metadata=metadata, metadata_group={}, times=times,
             cache_hit=cache_hit)
