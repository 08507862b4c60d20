"""`tl.core`: the language's values, types, builtins and their machinery under triton's module name.

Only re-exports; each name is defined in the module that its topic names.
"""

from __future__ import annotations

from tilewright.language.aggregates import aggregate, aggregate_replace, aggregate_value
from tilewright.language.aggregates import aggregate as _aggregate
from tilewright.language.atomics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_store,
    atomic_xchg,
    atomic_xor,
)
from tilewright.language.block_pointers import advance, block_pointer, make_block_ptr
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
from tilewright.language.creation import arange, cast, full, num_programs, program_id, to_tensor, zeros, zeros_like
from tilewright.language.debug import assume, debug_barrier, device_assert, device_print, static_assert, static_print
from tilewright.language.descriptors import (
    load_tensor_descriptor,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
)
from tilewright.language.dot import dot
from tilewright.language.dot_scaled import dot_scaled
from tilewright.language.elementwise import PropagateNan, add, clamp, maximum, minimum, mul, sub, where
from tilewright.language.errors import (
    IncompatibleTypeErrorImpl,
    LanguageAttributeError,
    LanguageError,
    LanguageTypeError,
    LanguageValueError,
    NotYetImplementedError,
)
from tilewright.language.hints import max_constancy, max_contiguous, multiple_of
from tilewright.language.mapping import inline_asm_elementwise, map_elementwise
from tilewright.language.memory_ops import load, store
from tilewright.language.ordering import bitonic_merge, flip, gather, histogram, sort, topk
from tilewright.language.pending import PENDING
from tilewright.language.ranges import condition, range, static_range
from tilewright.language.reduction import reduce
from tilewright.language.scans import associative_scan, cumprod, cumsum
from tilewright.language.shape_ops import (
    broadcast,
    broadcast_to,
    cat,
    expand_dims,
    interleave,
    item,
    join,
    permute,
    ravel,
    reshape,
    split,
    squeeze,
    trans,
    unsqueeze,
    view,
)
from tilewright.language.structures import structure
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
    "PENDING",
    "TRITON_BUILTIN",
    "TRITON_MAX_TENSOR_NUMEL",
    "BoundBuiltin",
    "Builder",
    "Builtin",
    "Handle",
    "IncompatibleTypeErrorImpl",
    "LanguageAttributeError",
    "LanguageError",
    "LanguageTypeError",
    "LanguageValueError",
    "NotYetImplementedError",
    "PropagateNan",
    "_aggregate",
    "_unwrap_if_constexpr",
    "add",
    "advance",
    "aggregate",
    "aggregate_replace",
    "aggregate_value",
    "arange",
    "associative_scan",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_xchg",
    "atomic_xor",
    "base_type",
    "base_value",
    "bfloat16",
    "bitonic_merge",
    "block_pointer",
    "block_type",
    "broadcast",
    "broadcast_to",
    "builtin",
    "cast",
    "cat",
    "clamp",
    "condition",
    "const",
    "constexpr",
    "constexpr_type",
    "cumprod",
    "cumsum",
    "debug_barrier",
    "device_assert",
    "device_print",
    "dot",
    "dot_scaled",
    "dtype",
    "expand_dims",
    "flip",
    "float8e4b8",
    "float8e4b15",
    "float8e4nv",
    "float8e5",
    "float8e5b16",
    "float16",
    "float32",
    "float64",
    "from_ir_type",
    "full",
    "gather",
    "get_int_dtype",
    "histogram",
    "inline_asm_elementwise",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "interleave",
    "is_builtin",
    "item",
    "join",
    "load",
    "load_tensor_descriptor",
    "make_block_ptr",
    "make_tensor_descriptor",
    "map_elementwise",
    "max_constancy",
    "max_contiguous",
    "maximum",
    "minimum",
    "mul",
    "multiple_of",
    "num_programs",
    "parse_type",
    "permute",
    "pi32_t",
    "pointer_type",
    "program_id",
    "range",
    "ravel",
    "reduce",
    "reshape",
    "sort",
    "split",
    "squeeze",
    "static_assert",
    "static_print",
    "static_range",
    "store",
    "store_tensor_descriptor",
    "structure",
    "sub",
    "tensor",
    "tensor_descriptor",
    "tensor_member",
    "to_tensor",
    "topk",
    "trans",
    "tuple",
    "tuple_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsqueeze",
    "view",
    "void",
    "where",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Builtin:
    if name in PENDING:
        return PENDING[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
