"""`tilewright.language`, imported as `tl`: the names that kernels are written with.

Every name is defined in the module of its topic and re-exported here.  Tests: tests/lang/test_surface.py.
"""

from __future__ import annotations

from tilewright.language import core, extra, math, random, semantic, standard
from tilewright.language.aggregates import aggregate_replace
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
from tilewright.language.constexpr import constexpr, constexpr_type
from tilewright.language.creation import arange, cast, full, num_programs, program_id, to_tensor, zeros, zeros_like
from tilewright.language.debug import (
    assume,
    debug_barrier,
    device_assert,
    device_print,
    expect_zero,
    static_assert,
    static_print,
)
from tilewright.language.descriptors import (
    load_tensor_descriptor,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
)
from tilewright.language.dot import dot
from tilewright.language.dot_scaled import dot_scaled
from tilewright.language.elementwise import PropagateNan, add, clamp, maximum, minimum, mul, sub, where
from tilewright.language.hints import max_constancy, max_contiguous, multiple_of
from tilewright.language.mapping import inline_asm_elementwise, map_elementwise
from tilewright.language.math import (
    abs,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from tilewright.language.memory_ops import load, store
from tilewright.language.ordering import bitonic_merge, flip, gather, histogram, sort, topk
from tilewright.language.polling import atomic_poll
from tilewright.language.random import (
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
from tilewright.language.ranges import condition, range, static_range
from tilewright.language.reduction import argmax, argmin, max, min, reduce, reduce_or, sum, xor_sum
from tilewright.language.scans import associative_scan, cumprod, cumsum
from tilewright.language.shape_ops import (
    broadcast,
    broadcast_to,
    cat,
    expand_dims,
    interleave,
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
from tilewright.language.standard import cdiv, sigmoid, softmax, swizzle2d
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
    int1,
    int8,
    int16,
    int32,
    int64,
    pi32_t,
    pointer_type,
    str_to_ty,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)

__all__ = [
    "TRITON_MAX_TENSOR_NUMEL", "PropagateNan", "abs", "add", "advance", "aggregate_replace", "arange", "argmax",
    "argmin", "associative_scan", "assume", "atomic_add", "atomic_and", "atomic_cas", "atomic_load", "atomic_max",
    "atomic_min", "atomic_or", "atomic_poll", "atomic_store", "atomic_xchg", "atomic_xor", "base_type", "base_value",
    "bfloat16", "bitonic_merge", "block_pointer", "block_type", "broadcast", "broadcast_to", "cast", "cat", "cdiv",
    "ceil", "clamp", "condition", "const", "constexpr", "constexpr_type", "core", "cos", "cumprod", "cumsum",
    "debug_barrier", "device_assert", "device_print", "div_rn", "dot", "dot_scaled", "dtype", "erf", "exp", "exp2",
    "expand_dims", "expect_zero", "extra", "fdiv", "flip", "float8e4b8", "float8e4b15", "float8e4nv", "float8e5",
    "float8e5b16", "float16", "float32", "float64", "floor", "fma", "full", "gather", "histogram",
    "inline_asm_elementwise", "int1", "int8", "int16", "int32", "int64", "interleave", "join", "load",
    "load_tensor_descriptor", "log", "log2", "make_block_ptr", "make_tensor_descriptor", "map_elementwise", "math",
    "max", "max_constancy", "max_contiguous", "maximum", "min", "minimum", "mul", "multiple_of", "num_programs",
    "pair_uniform_to_normal", "permute", "philox", "philox_impl", "pi32_t", "pointer_type", "program_id", "rand",
    "rand4x", "randint", "randint4x", "randn", "randn4x", "random", "range", "ravel", "reduce", "reduce_or",
    "reshape", "rsqrt", "semantic", "sigmoid", "sin", "softmax", "sort", "split", "sqrt", "sqrt_rn", "squeeze",
    "standard", "static_assert", "static_print", "static_range", "store", "store_tensor_descriptor", "str_to_ty",
    "structure", "sub", "sum", "swizzle2d", "tensor", "tensor_descriptor", "to_tensor", "topk", "trans", "tuple",
    "tuple_type", "uint8", "uint16", "uint32", "uint64", "uint_to_uniform_float", "umulhi", "unsqueeze", "view",
    "void", "where", "xor_sum", "zeros", "zeros_like",
]
