"""Names for looking into a kernel: static and device prints and asserts, `assume`, `debug_barrier` (semantics §10).

Tests: tests/lang/test_debug.py.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

from tilewright.diagnostics import CompileTimeAssertionFailure
from tilewright.language import comparison
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError, as_written
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, int1
from tilewright.language.values import describe, emit, known, known_bool, shape, to_tensor, with_dtype


@builtin
def static_assert(cond: Any, msg: Any = "", /, *, _builder: Builder) -> None:
    """Stop the compilation unless `cond`, a compile-time bool, holds: a CompileTimeAssertionFailure with `msg`.

    Refused: an int or None as condition (write a comparison); a run-time one (use `tl.device_assert`).
    """
    value = unwrap(cond)
    if isinstance(value, tensor):
        raise LanguageTypeError(f"tl.static_assert needs a compile-time condition, but it is {describe(value)}; use "
                                "tl.device_assert for a run-time one")
    if not isinstance(value, bool):
        raise LanguageTypeError(f"tl.static_assert needs a bool, not {describe(value)}; write a comparison")
    if not value:
        raise CompileTimeAssertionFailure(str(known(msg, "msg of tl.static_assert")) or "static assertion failed")


@builtin
def static_print(*values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False,
                 _builder: Builder) -> None:
    """Print while the kernel is compiled, as Python's print does; a tensor shows as its type and shape."""
    shown = [v.type_text() if isinstance(v, tensor) else str(v) for v in map(unwrap, values)]

    def say() -> None:
        builtins.print(*shown, sep=unwrap(sep), end=unwrap(end), file=unwrap(file) or sys.stdout,
                       flush=bool(unwrap(flush)))

    _builder.tell(say)


@builtin
def device_print(prefix: Any, *args: Any, hex: Any = False, _builder: Builder) -> None:
    """Print `prefix`, an ASCII string known at compile time, and the elements of `args` while the kernel runs.

    A line for each element, in the order of the program: `pid (x, y, z) idx (i, j) prefix: value`; with several args
    each line names its operand.  `hex=True` prints bits: integers as 0x..., floats as C's %a.  Python's `print` in a
    kernel is the same.
    """
    if isinstance(unwrap(prefix), tensor):
        raise LanguageTypeError(f"tl.device_print takes a text first, not {unwrap(prefix)}: write "
                                f'tl.device_print("x", {as_written("device_print.prefix", "x")})')
    text = known(prefix, "prefix of tl.device_print")
    if not isinstance(text, str) or not text.isascii():
        raise LanguageTypeError(f"the first argument of tl.device_print must be an ascii string, not {describe(text)}; "
                                'write tl.device_print("x", x)')
    values = [_printable(_builder, v) for v in args]
    signed = tuple(isinstance(x.dtype, dtype) and x.dtype.is_int_signed() for x in values)
    _builder.emit("device_print", [x.handle for x in values],
                  {"prefix": text, "hex": known_bool(hex, "hex"), "signed": signed})


def _printable(builder: Builder, value: Any) -> tensor:
    if isinstance(unwrap(value), str):
        raise LanguageTypeError(f"tl.device_print prints numbers after its prefix, not the string {unwrap(value)!r}; "
                                "join it to the prefix")
    return to_tensor(builder, value)


@builtin
def device_assert(cond: Any, msg: Any = "", mask: Any = None, *, _builder: Builder) -> None:
    """End the launch with a KernelAssertionError where `cond` is false and `mask`, if given, true.

    Only in kernels that are built with debug: `TRITON_DEBUG=1`, `@triton.jit(debug=True)` or `kernel[grid](...,
    debug=True)`.  The error names message, program and line.  Python's `assert` in a kernel is the same.
    """
    text = known(msg, "msg of tl.device_assert")
    if not isinstance(text, str):
        raise LanguageTypeError(f"msg of tl.device_assert must be a string, not {describe(text)}")
    if not _builder.options.debug:
        return
    holds = comparison.holds(_builder, to_tensor(_builder, cond))
    guard = unwrap(mask)
    if guard is not None:
        flag = to_tensor(_builder, guard)
        if flag.dtype != int1:
            raise LanguageValueError(f"mask of tl.device_assert must be int1 (a comparison), not {flag}")
        holds, flag = broadcast_all(_builder, (holds, flag), ("cond", "mask"))
        holds = emit(_builder, "or", (holds, ~flag), with_dtype(holds, int1))
    _builder.emit("device_assert", [holds.handle], {"message": text})


@builtin
def expect_zero(x: Any, mask: Any, *, _builder: Builder) -> tensor:
    """x itself; in kernels that are built with debug it is asserted to be 0 where `mask` (int1) is true.

    For values that are expected to have underflowed there.
    """
    value = to_tensor(_builder, x)
    if _builder.options.debug:
        flag = to_tensor(_builder, mask)
        if flag.dtype != int1:
            raise LanguageValueError(f"mask of tl.expect_zero must be int1 (a comparison), not {flag}")
        holds = comparison.compare(_builder, "Eq", value, 0)
        device_assert.call(_builder, (holds, "tl.expect_zero: a value is not zero", flag))
    return value


@builtin
def assume(cond: Any, *, _builder: Builder) -> None:
    """Promise that a scalar condition holds; the compiler may rely on it."""
    value = unwrap(cond)
    if not isinstance(value, tensor):
        comparison.truth(_builder, value)       # checks that it is a condition; a known one promises nothing
        return
    if shape(value):
        raise LanguageValueError(f"tl.assume takes a scalar condition, not {value}")
    _builder.emit("assume", [comparison.holds(_builder, value).handle])


@builtin
def debug_barrier(*, _builder: Builder) -> None:
    """Nothing on a CPU: memory accesses of a program are in program order in any case."""
