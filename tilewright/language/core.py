"""`tl.core`: the language's values, types and the machinery of builtins under triton's module name.

Only re-exports; each name is defined in the module that its topic names.
"""

from __future__ import annotations

from tilewright.language.builder import Builder, Handle
from tilewright.language.builtin import (
    TRITON_BUILTIN,
    BoundBuiltin,
    Builtin,
    builtin,
    is_builtin,
    tensor_member,
)
from tilewright.language.constexpr import constexpr, constexpr_type
from tilewright.language.constexpr import unwrap as _unwrap_if_constexpr
from tilewright.language.errors import (
    IncompatibleTypeErrorImpl,
    LanguageAttributeError,
    LanguageError,
    LanguageTypeError,
    LanguageValueError,
    NotYetImplementedError,
)
from tilewright.language.tensor import base_value, tensor
from tilewright.language.tuples import tuple, tuple_type
from tilewright.language.types import (
    TRITON_MAX_TENSOR_NUMEL,
    base_type,
    bfloat16,
    block_type,
    const,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    from_ir_type,
    get_int_dtype,
    int1,
    int8,
    int16,
    int32,
    int64,
    parse_type,
    pi32_t,
    pointer_type,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)

__all__ = [
    "TRITON_BUILTIN", "TRITON_MAX_TENSOR_NUMEL", "BoundBuiltin", "Builder", "Builtin", "Handle",
    "IncompatibleTypeErrorImpl", "LanguageAttributeError", "LanguageError", "LanguageTypeError", "LanguageValueError",
    "NotYetImplementedError", "_unwrap_if_constexpr", "base_type", "base_value", "bfloat16", "block_type", "builtin",
    "const", "constexpr", "constexpr_type", "dtype", "float8e4b8", "float8e4b15", "float8e4nv", "float8e5",
    "float8e5b16", "float16", "float32", "float64", "from_ir_type", "get_int_dtype", "int1", "int8", "int16", "int32",
    "int64", "is_builtin", "parse_type", "pi32_t", "pointer_type", "tensor", "tensor_member", "tuple", "tuple_type",
    "uint8", "uint16", "uint32", "uint64", "void",
]
