"""What a `for` or `while` loop runs over: `tl.range`, `tl.static_range`, `tl.condition` (semantics §11).

They only hold their arguments; the frontend and the eager engine give them meaning.  The options of `tl.range` are
hints that never change a result.  Tests: tests/frontend/test_control_flow.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.values import known_bool, known_int


class range:
    """`tl.range(end)` or `tl.range(start, end, step)`: a loop whose bounds may be known only at run time."""

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None, num_stages: Any = None,
                 loop_unroll_factor: Any = None, disallow_acc_multi_buffer: Any = False, flatten: Any = False,
                 warp_specialize: Any = False, disable_licm: Any = False) -> None:
        self.start: Any = 0 if arg2 is None else arg1
        self.end: Any = arg1 if arg2 is None else arg2
        self.step: Any = 1 if step is None else step
        if not hasattr(unwrap(self.step), "handle") and unwrap(self.step) == 0:
            raise LanguageValueError("the step of a loop must not be zero")
        self.num_stages = None if num_stages is None else known_int(num_stages, "num_stages")
        self.loop_unroll_factor = None if loop_unroll_factor is None else known_int(loop_unroll_factor,
                                                                                    "loop_unroll_factor")
        self.disallow_acc_multi_buffer = known_bool(disallow_acc_multi_buffer, "disallow_acc_multi_buffer")
        self.flatten = known_bool(flatten, "flatten")
        self.warp_specialize = known_bool(warp_specialize, "warp_specialize")
        self.disable_licm = known_bool(disable_licm, "disable_licm")

    def __iter__(self) -> Iterator[int]:
        raise LanguageTypeError("tl.range works only in a `for` statement of a @jit function")


class static_range:
    """`tl.static_range(end)` or `tl.static_range(start, end, step)`: unrolled, the index is a constexpr."""

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        start, end = (0, arg1) if arg2 is None else (arg1, arg2)
        self.start = known_int(start, "start of tl.static_range")
        self.end = known_int(end, "end of tl.static_range")
        self.step = 1 if step is None else known_int(step, "step of tl.static_range")
        if self.step == 0:
            raise LanguageValueError("the step of tl.static_range must not be zero")

    def __iter__(self) -> Iterator[int]:
        return iter(builtins.range(self.start, self.end, self.step))

    def __len__(self) -> int:
        return len(builtins.range(self.start, self.end, self.step))


class condition:
    """`while tl.condition(c)`: the condition of a loop, with hints."""

    def __init__(self, arg1: Any, disable_licm: Any = False) -> None:
        self.condition = arg1
        self.disable_licm = known_bool(disable_licm, "disable_licm")
