"""`atomic_poll`: wait until memory has a value.

A loop of atomic reads in the language itself, so every engine has it; on the CPU its loop ends with the launch's
watchdog and Ctrl-C like others.  Forward progress: a program may wait for programs with lower ids only
(docs/design.md).  Tests: tests/lang/test_values_atomics.py, tests/lang/test_atomics.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import special_registers
from tilewright.language.atomics import atomic_cas, atomic_load
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin, tensor_member
from tilewright.language.constexpr import constexpr, unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.function import SourceFunction
from tilewright.language.memory_ops import pointer_operand, value_operand
from tilewright.language.tensor import tensor
from tilewright.language.types import dtype, int1, pointer_type
from tilewright.language.values import full_of, known, known_int, shape


@builtin
def _read(pointer: Any, expected: Any, sem: Any, scope: Any, *, _builder: Builder) -> tensor:
    """The element now: by a compare-and-swap with itself where atomic reads have no such width."""
    if pointer.dtype.element_ty.primitive_bitwidth < 32:
        return atomic_cas.call(_builder, (pointer, expected, expected, sem, scope))     # type: ignore[no-any-return]
    return atomic_load.call(_builder, (pointer, None, sem, scope))      # type: ignore[no-any-return]


@builtin
def _clock(*, _builder: Builder) -> tensor:
    return special_registers.nanoseconds(_builder, "globaltimer (for tl.atomic_poll with a timeout)")


@SourceFunction
def _wait(pointer: Any, expected: Any, sem: Any, scope: Any) -> None:
    while _read(pointer, expected, sem, scope) != expected:
        pass


@SourceFunction
def _wait_at_most(pointer: Any, expected: Any, sem: Any, scope: Any, timeout: Any) -> Any:
    start = _clock()
    found = _read(pointer, expected, sem, scope) == expected
    late = found & (not found)      # at first not, also if no time is given
    while (not found) and (not late):
        found = _read(pointer, expected, sem, scope) == expected
        late = _clock() - start >= timeout
    return found


def _once(builder: Builder, target: tensor, value: tensor, how: tuple[Any, Any]) -> tensor:
    return _read.call(builder, (target, value, *how)) == value      # type: ignore[no-any-return]


@builtin
def atomic_poll(pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None, *,
                _builder: Builder) -> tensor:
    """Wait until the element at `pointer` equals `expected_value`; gives an int1: whether it did.

    `pointer` is one pointer to integers of 16, 32 or 64 bits that may be written.  `sem` is "acquire" (default) or
    "relaxed", `scope` as for the other atomics.  `timeout_ns`, an int, ends the waiting after that many nanoseconds
    of the GPU's clock; 0 reads once, on every target; other timeouts exist on NVIDIA GPUs only.
    A program may wait for what programs with lower ids write.  Refused: tiles of pointers; floats.
    """
    target = pointer_operand(pointer, "atomic_poll")
    assert isinstance(target.dtype, pointer_type)
    element = target.dtype.element_ty
    if shape(target):
        raise LanguageValueError(f"atomic_poll waits for one element, but pointer is {target}; wait for one after "
                                 "the other, or for a counter")
    if not isinstance(element, dtype) or not element.is_int() or element.primitive_bitwidth < 16:
        raise LanguageTypeError(f"atomic_poll waits for integers of 16, 32 or 64 bits, not for {element}")
    chosen = known(sem, "sem")
    if chosen not in (None, "acquire", "relaxed"):
        raise LanguageValueError(f"Memory semantic {chosen!r} not supported; atomic_poll takes 'acquire' (default) or "
                                 "'relaxed'")
    value = value_operand(_builder, expected_value, element, "expected_value")
    how = (constexpr(chosen or "acquire"), constexpr(known(scope, "scope")))
    limit = unwrap(timeout_ns)
    if limit is None:
        _builder.call_function(_wait, (target, value, *how), {})
        return full_of(_builder, True, int1, ())
    if not isinstance(limit, tensor):
        limit = known_int(limit, "timeout_ns")
        if limit < 0:
            raise LanguageValueError(f"timeout_ns must be 0 or more, not {limit}")
        if limit == 0:
            return _once(_builder, target, value, how)
    return _builder.call_function(_wait_at_most, (target, value, *how, limit), {})      # type: ignore[no-any-return]


tensor_member(atomic_poll)
