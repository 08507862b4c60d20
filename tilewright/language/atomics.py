"""Atomic memory operations (semantics §5): each gives the element that it found; a masked-off lane gives zero.

Pointer, value and mask broadcast to one another as in NumPy.  Safer rules (docs/design.md): `atomic_cas` converts and
broadcasts its operands like the others and compares bits, also of floats; max and min of floats take -0 for less than
+0 and ignore a NaN.  Tests: tests/lang/test_atomics.py, tests/lang/test_values_atomics.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.ops.attributes import Rmw, Scope, Sem
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import Builtin, builtin, tensor_member
from tilewright.language.casting import bitcast
from tilewright.language.constexpr import unwrap
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.memory_ops import (
    mask_operand,
    pointer_operand,
    refuse_blocks_for_scalar_pointer,
    value_operand,
)
from tilewright.language.tensor import tensor
from tilewright.language.types import bfloat16, dtype, float16, get_int_dtype, pointer_type
from tilewright.language.values import emit, known, with_dtype

_DOC = """{doc}; gives the old element.

    {types}
    `val` is converted to the element type.  Where `mask` (int1) is false nothing happens, and the result is zero.
    `sem` is "acquire", "release", "acq_rel" (default) or "relaxed", `scope` "gpu" (default), "cta" or "sys".
    On a CPU "cta" is one program, "gpu" every launch of this process, and "sys" also other processes.
    """


def _how(sem: Any, scope: Any) -> dict[str, Any]:
    """The attributes for `sem` and `scope`."""
    chosen: dict[str, Any] = {}
    for name, value, kind, default in (("sem", sem, Sem, Sem.ACQ_REL), ("scope", scope, Scope, Scope.GPU)):
        text = known(value, name)
        allowed = [member.value for member in kind]
        if text not in (None, "", *allowed):
            what = "Memory semantic" if name == "sem" else "Memory scope"
            raise LanguageValueError(f"{what} {text!r} not supported; allowed are {', '.join(map(repr, allowed))}")
        chosen[name] = kind(text) if text else default
    return chosen


def _target(pointer: Any, what: str) -> tuple[tensor, dtype]:
    """The pointer operand, and the element type that it leads to."""
    target = pointer_operand(pointer, what)
    if target.dtype.is_const():
        raise LanguageValueError("Cannot store to a constant pointer: the parameter is annotated tl.const")
    assert isinstance(target.dtype, pointer_type)
    element = target.dtype.element_ty
    if not isinstance(element, dtype):
        raise LanguageTypeError(f"{what} does not support pointers as elements")
    return target, element


def _emit(builder: Builder, op: str, target: tensor, values: list[tensor], names: list[str], mask: Any,
          attrs: dict[str, Any]) -> tensor:
    operands, names = [target, *values], ["pointer", *names]
    mask = unwrap(mask)
    if mask is not None:
        operands.append(mask_operand(builder, mask))
        names.append("mask")
    refuse_blocks_for_scalar_pointer(operands, names)
    operands = broadcast_all(builder, operands, names)
    attrs = {**attrs, "has_mask": mask is not None}
    return emit(builder, op, operands, with_dtype(operands[0], values[0].dtype), attrs)


def _rmw(builder: Builder, name: str, kind_of: Callable[[dtype], Rmw], pointer: Any, val: Any, mask: Any, sem: Any,
         scope: Any) -> tensor:
    """A read-modify-write whose kind depends on the element type."""
    target, element = _target(pointer, name)
    if element.primitive_bitwidth < 32 and not (name == "atomic_add" and element in (float16, bfloat16)):
        raise LanguageValueError(f"{name} does not support {element}: elements have 32 or 64 bits"
                                 f"{', or are fp16 or bf16' if name == 'atomic_add' else ''}")
    value = value_operand(builder, val, element, "val")
    return _emit(builder, "atomic_rmw", target, [value], ["val"], mask, {"kind": kind_of(element), **_how(sem, scope)})


def _by_sign(floats: Rmw, signed: Rmw, unsigned: Rmw) -> Callable[[dtype], Rmw]:
    return lambda element: floats if element.is_floating() else signed if element.is_int_signed() else unsigned


def _on_ints(name: str, kind: Rmw) -> Callable[[dtype], Rmw]:
    def kind_of(element: dtype) -> Rmw:
        if not element.is_int():
            raise LanguageTypeError(f"{name} works on integers, not on {element}")
        return kind

    return kind_of


def _read_modify_write(name: str, doc: str, types: str, kind_of: Callable[[dtype], Rmw]) -> Builtin:
    def meaning(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None, *,
                _builder: Builder) -> tensor:
        return _rmw(_builder, name, kind_of, pointer, val, mask, sem, scope)

    meaning.__name__ = meaning.__qualname__ = name
    meaning.__doc__ = _DOC.format(doc=doc, types=types)
    return tensor_member(Builtin(meaning))


_NUMBERS = "Elements are ints of 32 or 64 bits, fp32 or fp64."
_INTEGERS = "Elements are ints of 32 or 64 bits."
atomic_add = _read_modify_write("atomic_add", "Add `val` to the element at `pointer`, atomically",
                                "Elements are ints of 32 or 64 bits, or fp16, bf16, fp32, fp64.",
                                _by_sign(Rmw.FADD, Rmw.ADD, Rmw.ADD))
atomic_max = _read_modify_write("atomic_max", "Put the greater of `val` and the element at `pointer` there, atomically",
                                _NUMBERS, _by_sign(Rmw.FMAX, Rmw.MAX_S, Rmw.MAX_U))
atomic_min = _read_modify_write("atomic_min", "Put the lesser of `val` and the element at `pointer` there, atomically",
                                _NUMBERS, _by_sign(Rmw.FMIN, Rmw.MIN_S, Rmw.MIN_U))
atomic_and = _read_modify_write("atomic_and", "Put the bitwise and of `val` and the element at `pointer` there, "
                                "atomically", _INTEGERS, _on_ints("atomic_and", Rmw.AND))
atomic_or = _read_modify_write("atomic_or", "Put the bitwise or of `val` and the element at `pointer` there, "
                               "atomically", _INTEGERS, _on_ints("atomic_or", Rmw.OR))
atomic_xor = _read_modify_write("atomic_xor", "Put the exclusive or of `val` and the element at `pointer` there, "
                                "atomically", _INTEGERS, _on_ints("atomic_xor", Rmw.XOR))
atomic_xchg = _read_modify_write("atomic_xchg", "Put `val` in the place of the element at `pointer`, atomically",
                                 _NUMBERS, lambda element: Rmw.XCHG)


@builtin
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None, *, _builder: Builder) -> tensor:
    """Where the element at `pointer` has the bits of `cmp`, put `val` there, atomically; gives the old element.

    `cmp` and `val` are converted to the element type and broadcast; elements have 16, 32 or 64 bits, floats included,
    whose bits are compared (so 0.0 does not match -0.0, and a NaN may match).  `sem` and `scope` are as for the other
    atomics.
    """
    target, element = _target(pointer, "atomic_cas")
    if element.primitive_bitwidth not in (16, 32, 64):
        raise LanguageValueError(f"atomic_cas only supports elements with width {{16, 32, 64}}, not {element}")
    values = [value_operand(_builder, v, element, name) for v, name in ((cmp, "cmp"), (val, "val"))]
    return _emit(_builder, "atomic_cas", target, values, ["cmp", "val"], None, _how(sem, scope))


@builtin
def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None, *, _builder: Builder) -> tensor:
    """The element at `pointer`, read atomically; zero where `mask` (int1) is false.

    Elements have 32 or 64 bits, in memory that may be written.
    """
    target, element = _target(pointer, "atomic_load")
    if element.primitive_bitwidth < 32:
        raise LanguageValueError(f"atomic_load does not support {element}: elements have 32 or 64 bits")
    bits = get_int_dtype(element.primitive_bitwidth, signed=True)
    zero = value_operand(_builder, 0, bits, "val")
    found = _emit(_builder, "atomic_rmw", bitcast(_builder, target, pointer_type(bits)), [zero], ["val"], mask,
                  {"kind": Rmw.OR, **_how(sem, scope)})
    return bitcast(_builder, found, element)


@builtin
def atomic_store(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None, *,
                 _builder: Builder) -> None:
    """Write `val` at `pointer`, atomically, where `mask` (int1) is true; elements have 32 or 64 bits."""
    _rmw(_builder, "atomic_store", lambda element: Rmw.XCHG, pointer, val, mask, sem, scope)


for _member in (atomic_cas, atomic_load, atomic_store):
    tensor_member(_member)
