"""The types of the language: `dtype`, `pointer_type`, `block_type`, and their relation to IR types.

Signedness lives here only: `int32` and `uint32` are the same IR type, and the language layer picks the op.
Types are values: frozen, hashable, compared by content.  `dtype` names are triton's ("fp32", "int8", "fp8e4nv").
Tests: tests/lang/test_types.py.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Iterable
from typing import Any, ClassVar

from tilewright.ir import types as ir
from tilewright.language.errors import LanguageTypeError, LanguageValueError

TRITON_MAX_TENSOR_NUMEL = 1048576   # elements of a tile, as in triton

# name: (IR scalar, bits, explicit mantissa bits, exponent bias)
_FLOATS: dict[str, tuple[ir.Scalar, int, int, int]] = {
    "fp8e4b15": (ir.F8E4M3B15, 8, 3, 15),
    "fp8e4nv": (ir.F8E4M3, 8, 3, 7),
    "fp8e4b8": (ir.F8E4M3FNUZ, 8, 3, 8),
    "fp8e5": (ir.F8E5M2, 8, 2, 15),
    "fp8e5b16": (ir.F8E5M2FNUZ, 8, 2, 16),
    "fp16": (ir.F16, 16, 10, 15),
    "bf16": (ir.BF16, 16, 7, 127),
    "fp32": (ir.F32, 32, 23, 127),
    "fp64": (ir.F64, 64, 52, 1023),
}
_INTS: dict[str, ir.Scalar] = {"int1": ir.I1, "int8": ir.I8, "int16": ir.I16, "int32": ir.I32, "int64": ir.I64}
_UINTS: dict[str, ir.Scalar] = {"uint8": ir.I8, "uint16": ir.I16, "uint32": ir.I32, "uint64": ir.I64}
# how the name is spelt in `tl`, where it differs from the type's own name
_SPELLINGS = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}


class base_type:
    """Base of all types of the language."""

    def is_block(self) -> bool:
        return False

    def is_ptr(self) -> bool:
        return False


class dtype(base_type):
    """A scalar type, by name: `dtype("fp32")`, `dtype("int8")`, ...; `void` is the type of no value."""

    SINT_TYPES: ClassVar[list[str]] = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar[list[str]] = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES: ClassVar[list[str]] = list(_FLOATS)
    STANDARD_FP_TYPES: ClassVar[list[str]] = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES: ClassVar[list[str]] = ["void"]

    class SIGNEDNESS(enum.Enum):
        SIGNED = 0
        UNSIGNED = 1

    class KIND(enum.Enum):
        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2

    def __init__(self, name: Any) -> None:
        name = getattr(name, "value", name)
        known = dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES + dtype.OTHER_TYPES
        if name not in known:
            raise LanguageTypeError(f"no type is called {name!r}; there are {', '.join(known)}")
        self.name: str = name

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def value(self) -> dtype:
        """The type itself: for functions that unwrap a compile-time argument, as triton hands types to them."""
        return self

    @property
    def primitive_bitwidth(self) -> int:
        """Bits of a value; `int1` has one."""
        if self.name in _FLOATS:
            return _FLOATS[self.name][1]
        return 0 if self.is_void() else (_INTS | _UINTS)[self.name].bits

    @property
    def itemsize(self) -> int:
        """Whole bytes of a value (0 for int1, as in triton)."""
        return self.primitive_bitwidth // 8

    @property
    def int_bitwidth(self) -> int:
        return self.primitive_bitwidth if self.is_int() else 0

    @property
    def int_signedness(self) -> dtype.SIGNEDNESS:
        return dtype.SIGNEDNESS.SIGNED if self.is_int_signed() else dtype.SIGNEDNESS.UNSIGNED

    @property
    def fp_mantissa_width(self) -> int:
        """Explicit bits of the significand."""
        return _FLOATS[self.name][2]

    @property
    def exponent_bias(self) -> int:
        return _FLOATS[self.name][3]

    @property
    def scalar(self) -> Any:
        return self

    @property
    def codegen_name(self) -> str:
        """The name in `tl`: float32 for fp32."""
        if self.name.startswith("fp8"):
            return self.name.replace("fp", "float", 1)
        return _SPELLINGS.get(self.name, self.name)

    @property
    def cache_key_part(self) -> str:
        return self.name

    def kind(self) -> dtype.KIND:
        """bool < int < float: the order in which a weak literal yields (semantics §2)."""
        if self.is_int1():
            return dtype.KIND.BOOLEAN
        if self.is_int():
            return dtype.KIND.INTEGRAL
        if self.is_floating():
            return dtype.KIND.FLOATING
        raise LanguageTypeError(f"{self} is no number type")

    def get_int_max_value(self) -> int:
        self._only_ints()
        return (1 << (self.primitive_bitwidth - self.is_int_signed())) - 1

    def get_int_min_value(self) -> int:
        self._only_ints()
        return -(1 << (self.primitive_bitwidth - 1)) if self.is_int_signed() else 0

    def _only_ints(self) -> None:
        if not self.is_int():
            raise LanguageTypeError(f"{self} is no integer type")

    # -- predicates ------------------------------------------------------------------------------------------------

    def is_fp8(self) -> bool:
        return self.name.startswith("fp8")

    def is_fp8e4nv(self) -> bool:
        return self.name == "fp8e4nv"

    def is_fp8e4b8(self) -> bool:
        return self.name == "fp8e4b8"

    def is_fp8e4b15(self) -> bool:
        return self.name == "fp8e4b15"

    def is_fp8e5(self) -> bool:
        return self.name == "fp8e5"

    def is_fp8e5b16(self) -> bool:
        return self.name == "fp8e5b16"

    def is_fp16(self) -> bool:
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        return self.name == "fp64"

    def is_int1(self) -> bool:
        return self.name == "int1"

    def is_int8(self) -> bool:
        return self.name == "int8"

    def is_int16(self) -> bool:
        return self.name == "int16"

    def is_int32(self) -> bool:
        return self.name == "int32"

    def is_int64(self) -> bool:
        return self.name == "int64"

    def is_uint8(self) -> bool:
        return self.name == "uint8"

    def is_uint16(self) -> bool:
        return self.name == "uint16"

    def is_uint32(self) -> bool:
        return self.name == "uint32"

    def is_uint64(self) -> bool:
        return self.name == "uint64"

    def is_floating(self) -> bool:
        return self.name in _FLOATS

    def is_standard_floating(self) -> bool:
        return self.name in dtype.STANDARD_FP_TYPES

    def is_int(self) -> bool:
        return self.name in _INTS or self.name in _UINTS

    def is_int_signed(self) -> bool:
        return self.name in dtype.SINT_TYPES

    def is_int_unsigned(self) -> bool:
        return self.name in dtype.UINT_TYPES

    def is_bool(self) -> bool:
        return self.is_int1()

    def is_void(self) -> bool:
        return self.name == "void"

    def is_const(self) -> bool:
        return False

    @staticmethod
    def is_dtype(type_str: str) -> bool:
        return type_str in dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES + dtype.OTHER_TYPES

    # -- as a value ------------------------------------------------------------------------------------------------

    def to_ir(self) -> ir.Scalar:
        """The IR type."""
        if self.name in _FLOATS:
            return _FLOATS[self.name][0]
        if self.is_void():
            raise LanguageTypeError("void has no values")
        return (_INTS | _UINTS)[self.name]

    def with_element_ty(self, element_ty: Any) -> Any:
        """This type's shape with another element: for a scalar, just the element."""
        return element_ty

    def mangle(self) -> str:
        """A short name for symbols: i32, u8, fp32."""
        if self.is_int():
            return f"{'i' if self.is_int_signed() or self.is_int1() else 'u'}{self.int_bitwidth}"
        return "V" if self.is_void() else self.name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, base_type):
            return NotImplemented       # a constexpr that holds a type compares its value
        return isinstance(other, dtype) and other.name == self.name

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((dtype, self.name))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{self.codegen_name}"


class pointer_type(base_type):
    """A pointer to elements of `element_ty`; arithmetic counts elements; `const` forbids stores."""

    def __init__(self, element_ty: Any, address_space: Any = "global", const: bool = False) -> None:
        element_ty = getattr(element_ty, "value", element_ty)
        if not isinstance(element_ty, dtype | pointer_type):
            raise LanguageTypeError(f"a pointer points to a scalar type such as tl.float32, not {element_ty!r}")
        self.element_ty: dtype | pointer_type = element_ty
        self.address_space = address_space
        self.const = bool(const)
        self.name = f"{'const_' if self.const else ''}pointer<{element_ty}>"

    primitive_bitwidth = 64
    itemsize = 8

    @property
    def scalar(self) -> Any:
        return self

    @property
    def cache_key_part(self) -> str:
        return self.name

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return self.const

    def __getattr__(self, name: str) -> Any:
        # the number predicates of `dtype` are all false for a pointer
        if name.startswith("is_") and hasattr(dtype, name):
            return lambda: False
        raise AttributeError(f"pointer_type has no attribute {name!r}")

    def to_ir(self) -> ir.Pointer:
        return ir.Pointer(self.element_ty.to_ir(), self.const)

    def with_element_ty(self, element_ty: Any) -> Any:
        return element_ty

    def mangle(self) -> str:
        return f"P{self.element_ty.mangle()}"

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, pointer_type) and other.element_ty == self.element_ty
                and other.const == self.const)

    def __hash__(self) -> int:
        return hash((pointer_type, self.element_ty, self.const))

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


Scalar = dtype | pointer_type


class block_type(base_type):
    """The type of a tile: shape and element."""

    def __init__(self, element_ty: Scalar, shape: Iterable[Any]) -> None:
        self.element_ty: Scalar = element_ty
        self.shape: tuple[int, ...] = tuple(operator.index(s) for s in shape)
        check_shape(self.shape)
        self.numel = math.prod(self.shape)
        self.name = f"<{list(self.shape)}, {element_ty}>"

    @property
    def scalar(self) -> Scalar:
        return self.element_ty

    @property
    def nbytes(self) -> int:
        return self.numel * (self.element_ty.primitive_bitwidth // 8)

    @property
    def cache_key_part(self) -> str:
        return self.name

    def is_block(self) -> bool:
        return True

    def get_block_shapes(self) -> tuple[int, ...]:
        return self.shape

    def with_element_ty(self, element_ty: Scalar) -> block_type:
        return block_type(element_ty, self.shape)

    def __getattr__(self, name: str) -> Any:
        # x.type.is_fp16() and the like ask the element
        if name.startswith("is_") and hasattr(dtype, name):
            return getattr(self.element_ty, name)
        raise AttributeError(f"block_type has no attribute {name!r}")

    def to_ir(self) -> ir.Tile:
        return ir.Tile(self.shape, self.element_ty.to_ir())

    def mangle(self) -> str:
        return f"{self.element_ty.mangle()}S{'_'.join(map(str, self.shape))}S"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, block_type) and other.element_ty == self.element_ty and other.shape == self.shape

    def __hash__(self) -> int:
        return hash((block_type, self.element_ty, self.shape))

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


ValueType = dtype | pointer_type | block_type


class const:
    """Annotation of a pointer parameter through which nothing may be stored: `x_ptr: tl.const`."""


def check_shape(shape: tuple[int, ...]) -> None:
    """A tile's sizes are >= 1 and its elements are at most `TRITON_MAX_TENSOR_NUMEL`; any size is allowed."""
    if not shape:
        raise LanguageValueError("a tile has at least one dimension; a value without shape is a scalar")
    for i, size in enumerate(shape):
        if size < 1:
            raise LanguageValueError(f"shape {shape} has size {size} in dimension {i}; sizes are 1 or more")
    if math.prod(shape) > TRITON_MAX_TENSOR_NUMEL:
        raise LanguageValueError(f"numel ({math.prod(shape)}) of shape {shape} exceeds triton maximum tensor numel "
                                 f"({TRITON_MAX_TENSOR_NUMEL}); use smaller blocks")


def shape_of(t: ValueType) -> tuple[int, ...]:
    """The shape of a tile type; () for a scalar type."""
    return t.shape if isinstance(t, block_type) else ()


def make_type(shape: tuple[int, ...], element: Scalar) -> ValueType:
    """A tile type, or the bare element for the shape ()."""
    return block_type(element, shape) if shape else element


def from_ir_type(t: ir.Type, signed: bool = True) -> ValueType:
    """A language type of an IR type; IR integers do not know their sign, so the caller says it."""
    if isinstance(t, ir.Tile):
        element = from_ir_type(t.element, signed)
        assert isinstance(element, dtype | pointer_type)
        return block_type(element, t.shape)
    if isinstance(t, ir.Pointer):
        pointee = from_ir_type(t.element, signed)
        assert isinstance(pointee, dtype | pointer_type)
        return pointer_type(pointee, const=t.const)
    if t.is_int:
        return dtype(t.name.replace("i", "int" if signed or t.bits == 1 else "uint"))
    return next(dtype(name) for name, row in _FLOATS.items() if row[0] == t)


void = dtype("void")
int1, int8, int16, int32, int64 = (dtype(n) for n in _INTS)
uint8, uint16, uint32, uint64 = (dtype(n) for n in _UINTS)
float8e4b15, float8e4nv, float8e4b8, float8e5, float8e5b16 = (dtype(n) for n in _FLOATS if n.startswith("fp8"))
float16, bfloat16, float32, float64 = (dtype(n) for n in dtype.STANDARD_FP_TYPES)
pi32_t = pointer_type(int32)

_SHORT_NAMES: dict[str, dtype] = {
    "i1": int1, "u1": int1, "i8": int8, "i16": int16, "i32": int32, "i64": int64, "u8": uint8, "u16": uint16,
    "u32": uint32, "u64": uint64, "fp8e4nv": float8e4nv, "fp8e5": float8e5, "fp8e4b15": float8e4b15,
    "fp8e4b8": float8e4b8, "fp8e5b16": float8e5b16, "fp16": float16, "bf16": bfloat16, "fp32": float32,
    "f32": float32, "fp64": float64, "f64": float64, "f16": float16, "B": int1, "void": void,
}


# what other languages call a type -> its name here
_MEANT = {"float": "fp32", "double": "fp64", "half": "fp16", "int": "i32", "long": "i64", "bool": "i1", "char": "i8"}


def parse_type(name: str) -> dtype | pointer_type:
    """The type that a launch signature or an annotation spells: "*fp32", "*kfp16" (const), "i32"."""
    word = name.strip().strip("'\"")
    stars = []      # without `re`, whose first expressions would take longer than a kernel's whole signature
    while word.startswith("*"):
        stars.append("*k" if word.startswith("*k") else "*")
        word = word.removeprefix(stars[-1])
    if word in _SHORT_NAMES:
        found: dtype | pointer_type = _SHORT_NAMES[word]
    elif dtype.is_dtype(word):
        found = dtype(word)
    else:
        near = _MEANT.get(word)
        hint = f"did you mean {''.join(stars)}{near}?" if near else "examples: i32, u8, fp32, bf16, *fp32, *ki64"
        raise LanguageValueError(f"no type is spelt {name!r}; {hint}")
    for mark in reversed(stars):
        found = pointer_type(found, const=mark == "*k")
    return found


def str_to_ty(name: str, c: object = None) -> dtype | pointer_type:
    """`parse_type` under triton's name; `c`, a compile-time value that goes with the type there, is not used."""
    return parse_type(name)


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of a width and a signedness."""
    if bitwidth == 1:
        return int1
    return dtype(f"{'int' if signed else 'uint'}{bitwidth}")
