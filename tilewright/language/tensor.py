"""`tensor`: a run-time value of the language, scalar or tile, in any engine.

A tensor is a handle (the builder's own), a language type and the builder.  Operators ask `tensor.meaning`, which
`semantic.py` sets once when the package is imported, so they work wherever Python evaluates them, also in a debugger in
the eager engine.  Methods (`x.to`, `x.sum`) are the builtins that `@tensor_member` put in `tensor.members`.
Tests: tests/lang/test_types.py.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from tilewright.language.builder import Builder, Handle
from tilewright.language.constexpr import constexpr
from tilewright.language.errors import LanguageAttributeError, LanguageTypeError
from tilewright.language.tuples import tuple as language_tuple
from tilewright.language.types import Scalar, ValueType, block_type, pointer_type, shape_of


class base_value:
    """Base of run-time values."""


def _numbers(x: tensor, values: np.ndarray[Any, Any], before: str) -> str:
    """Numbers as NumPy shows them, below each other after the text `before`; addresses in hexadecimal."""
    shown = {"int": hex} if isinstance(x.dtype, pointer_type) else None
    return np.array2string(values, prefix=before, formatter=shown)  # type: ignore[arg-type]


class Meaning(Protocol):
    """What Python's operators mean on tensors (`semantic.py`)."""

    def binary(self, builder: Builder, operator: str, lhs: Any, rhs: Any) -> Any: ...
    def unary(self, builder: Builder, operator: str, x: Any) -> Any: ...
    def compare(self, builder: Builder, operator: str, lhs: Any, rhs: Any) -> Any: ...
    def subscript(self, builder: Builder, x: Any, index: Any) -> Any: ...
    def transpose(self, builder: Builder, x: Any) -> Any: ...


class tensor(base_value):
    """A run-time value: `dtype` (of an element), `shape`, `type`, operators, and the methods of the language."""

    meaning: ClassVar[Meaning]
    members: ClassVar[dict[str, Any]] = {}

    __slots__ = ("assigned", "builder", "handle", "type")

    def __init__(self, handle: Handle, type: ValueType, builder: Builder) -> None:
        self.handle = handle
        self.type = type
        self.builder = builder
        self.assigned = ""      # the name whose plain assignment made a number this run-time value, for messages

    @property
    def dtype(self) -> Scalar:
        """The type of an element (for a scalar, its type)."""
        return self.type.scalar

    @property
    def shape(self) -> language_tuple:
        """The sizes, as constexprs; () for a scalar."""
        return language_tuple(constexpr(s) for s in shape_of(self.type))

    @property
    def numel(self) -> constexpr:
        return constexpr(self.type.numel if isinstance(self.type, block_type) else 1)

    @property
    def T(self) -> Any:  # noqa: N802
        """The transpose of a tile of rank 2."""
        return tensor.meaning.transpose(self.builder, self)

    def __getattr__(self, name: str) -> Any:
        raise LanguageAttributeError(f"a tensor has no attribute {name!r}")

    def type_text(self) -> str:
        """The type as `tl.static_print` shows it: `fp32[constexpr[16]]` (semantics §10)."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __format__(self, spec: str) -> str:
        """The type, `fp32[16]` or `int32`: in a message, which is an f-string, a tensor is what it is of."""
        sizes = ", ".join(map(str, shape_of(self.type)))
        return format(f"{self.dtype}[{sizes}]" if sizes else str(self.dtype), spec)

    def __str__(self) -> str:
        """The numbers where they are known, in the eager engine; else the type."""
        values = self.builder.values(self.handle, self.type)
        return self.type_text() if values is None else _numbers(self, values, "")

    def __repr__(self) -> str:
        """`tensor(fp32[4], [0. 1. 2. 3.])` in the eager engine; else the type."""
        values = self.builder.values(self.handle, self.type)
        head = f"tensor({self:}, "
        return self.type_text() if values is None else f"{head}{_numbers(self, values, head)})"

    def _number(self, what: str) -> Any:
        """The only number of a tensor, as a debugger's prompt asks for it."""
        values = self.builder.values(self.handle, self.type)
        if values is None or values.size != 1:
            raise LanguageTypeError(f"{what} takes one number, but this is a tensor of type {self:}, known only when "
                                    "the kernel runs; inside a @jit function convert with x.to(...); `if`, `while`, "
                                    "`and`, `or` and `not` work on scalars there")
        return values.item()

    def __bool__(self) -> bool:
        return bool(self._number("bool()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __len__(self) -> int:
        raise LanguageTypeError("a tensor has no len(); use x.shape[0], or len(x.shape) for the number of dimensions")

    def __iter__(self) -> Any:
        raise LanguageTypeError("a tensor cannot be iterated or unpacked; loop over indices with tl.range, or use "
                                "x.split() for a last dimension of 2")

    def __getitem__(self, index: Any) -> Any:
        return tensor.meaning.subscript(self.builder, self, index)

    def _binary(self, operator: str, other: Any) -> Any:
        return tensor.meaning.binary(self.builder, operator, self, other)

    def _reflected(self, operator: str, other: Any) -> Any:
        return tensor.meaning.binary(self.builder, operator, other, self)

    def _compare(self, operator: str, other: Any) -> Any:
        return tensor.meaning.compare(self.builder, operator, self, other)

    def __add__(self, other: Any) -> Any:
        return self._binary("Add", other)

    def __radd__(self, other: Any) -> Any:
        return self._reflected("Add", other)

    def __sub__(self, other: Any) -> Any:
        return self._binary("Sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._reflected("Sub", other)

    def __mul__(self, other: Any) -> Any:
        return self._binary("Mult", other)

    def __rmul__(self, other: Any) -> Any:
        return self._reflected("Mult", other)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("Div", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._reflected("Div", other)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("FloorDiv", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._reflected("FloorDiv", other)

    def __mod__(self, other: Any) -> Any:
        return self._binary("Mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._reflected("Mod", other)

    def __and__(self, other: Any) -> Any:
        return self._binary("BitAnd", other)

    def __rand__(self, other: Any) -> Any:
        return self._reflected("BitAnd", other)

    def __or__(self, other: Any) -> Any:
        return self._binary("BitOr", other)

    def __ror__(self, other: Any) -> Any:
        return self._reflected("BitOr", other)

    def __xor__(self, other: Any) -> Any:
        return self._binary("BitXor", other)

    def __rxor__(self, other: Any) -> Any:
        return self._reflected("BitXor", other)

    def __lshift__(self, other: Any) -> Any:
        return self._binary("LShift", other)

    def __rlshift__(self, other: Any) -> Any:
        return self._reflected("LShift", other)

    def __rshift__(self, other: Any) -> Any:
        return self._binary("RShift", other)

    def __rrshift__(self, other: Any) -> Any:
        return self._reflected("RShift", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("Lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("LtE", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("Gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("GtE", other)

    def __eq__(self, other: Any) -> Any:
        return self._compare("Eq", other)

    def __ne__(self, other: Any) -> Any:
        return self._compare("NotEq", other)

    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return tensor.meaning.unary(self.builder, "USub", self)

    def __pos__(self) -> Any:
        return tensor.meaning.unary(self.builder, "UAdd", self)

    def __invert__(self) -> Any:
        return tensor.meaning.unary(self.builder, "Invert", self)
