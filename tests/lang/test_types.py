"""The types of the language as values: names, predicates, relation to the IR, spelling in signatures."""

import pytest

from tilewright import language as tl
from tilewright.ir import types as ir
from tilewright.language.core import from_ir_type, get_int_dtype
from tilewright.language.types import dtype, parse_type

ALL = [*dtype.SINT_TYPES, *dtype.UINT_TYPES, *dtype.FP_TYPES]
WITH_IR = [n for n in ALL if n not in ("fp8e4b15", "fp8e4b8", "fp8e5b16")]


@pytest.mark.parametrize("name, bits", [("int1", 1), ("int8", 8), ("uint16", 16), ("int32", 32), ("uint64", 64),
                                        ("fp8e5", 8), ("fp16", 16), ("bf16", 16), ("fp32", 32), ("fp64", 64)])
def test_widths(name, bits):
    t = dtype(name)
    assert t.primitive_bitwidth == bits and t.itemsize == bits // 8
    assert t.int_bitwidth == (bits if t.is_int() else 0)


def test_kinds_and_predicates():
    for name in ALL:
        t = dtype(name)
        assert t.is_int() + t.is_floating() == 1 and str(t) == name and t.scalar is t
        assert t.is_int_signed() == (name in dtype.SINT_TYPES)
        assert sum(getattr(t, p)() for p in dir(t) if p.startswith("is_") and p[3:] in
                   ("int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "fp16", "bf16",
                    "fp32", "fp64", "fp8e5", "fp8e4nv", "fp8e4b8", "fp8e4b15", "fp8e5b16")) == 1
    assert tl.int1.is_bool() and tl.int1.is_int_unsigned() and not tl.int1.is_ptr() and not tl.int1.is_block()
    assert tl.void.is_void() and not tl.void.is_int()
    assert tl.int1.kind().value < tl.int8.kind().value < tl.float8e5.kind().value
    with pytest.raises(TypeError):
        tl.void.kind()


def test_limits():
    assert (tl.int8.get_int_min_value(), tl.int8.get_int_max_value()) == (-128, 127)
    assert (tl.uint64.get_int_min_value(), tl.uint64.get_int_max_value()) == (0, 2**64 - 1)
    assert (tl.int1.get_int_min_value(), tl.int1.get_int_max_value()) == (0, 1)
    with pytest.raises(TypeError):
        tl.float32.get_int_max_value()
    assert (tl.float16.fp_mantissa_width, tl.bfloat16.exponent_bias) == (10, 127)


def test_equality_and_hash_are_by_content():
    assert dtype("fp32") == tl.float32 and tl.float32 != tl.float64 and hash(dtype("fp32")) == hash(tl.float32)
    assert tl.pointer_type(tl.int8) == tl.pointer_type(tl.int8) != tl.pointer_type(tl.int8, const=True)
    assert tl.pointer_type(tl.int8) != tl.int8 and tl.int8 != "int8" and tl.int8 is not None
    assert tl.block_type(tl.int8, [4, tl.constexpr(2)]) == tl.block_type(tl.int8, (4, 2))
    assert bool(tl.float32 == tl.constexpr(tl.float32)) and not bool(tl.float32 == tl.constexpr(tl.int8))
    assert repr(tl.bfloat16) == "triton.language.bfloat16" and repr(tl.float8e4nv) == "triton.language.float8e4nv"


def test_unknown_names():
    with pytest.raises(TypeError, match="no type is called 'float32'; there are"):
        dtype("float32")
    with pytest.raises(TypeError, match="a pointer points to a scalar type"):
        tl.pointer_type("fp32")


def test_blocks():
    t = tl.block_type(tl.float16, (4, 8))
    assert (t.shape, t.numel, t.nbytes, t.scalar, t.get_block_shapes()) == ((4, 8), 32, 64, tl.float16, (4, 8))
    assert t.is_block() and t.is_fp16() and not t.is_int() and str(t) == "<[4, 8], fp16>"
    assert t.with_element_ty(tl.int8) == tl.block_type(tl.int8, (4, 8))
    for sizes, words in (((), "at least one dimension"), ((0,), "sizes are 1 or more"), ((2**11, 2**10), "numel")):
        with pytest.raises(ValueError, match=words):
            tl.block_type(tl.int8, sizes)
    assert tl.block_type(tl.int8, (3, 5, 7)).numel == 105


def test_pointers():
    p = tl.pointer_type(tl.float32)
    assert p.is_ptr() and not p.is_floating() and not p.is_const() and p.primitive_bitwidth == 64
    assert tl.pointer_type(p).element_ty == p and tl.pointer_type(tl.int8, const=True).is_const()
    with pytest.raises(AttributeError):
        p.no_such_name


@pytest.mark.parametrize("name", WITH_IR)
def test_ir_types_there_and_back(name):
    t = dtype(name)
    assert from_ir_type(t.to_ir(), signed=t.is_int_signed()) == t
    assert from_ir_type(tl.block_type(t, (2, 3)).to_ir(), t.is_int_signed()) == tl.block_type(t, (2, 3))
    p = tl.pointer_type(t, const=True)
    assert from_ir_type(p.to_ir(), t.is_int_signed()) == p


def test_what_has_no_ir_type():
    with pytest.raises(TypeError, match="void"):
        tl.void.to_ir()
    assert tl.uint32.to_ir() is not None and tl.uint32.to_ir() == tl.int32.to_ir() == ir.I32


@pytest.mark.parametrize("text, want", [
    ("i32", tl.int32), ("u8", tl.uint8), ("i1", tl.int1), ("u1", tl.int1), ("fp16", tl.float16), ("bf16", tl.bfloat16),
    ("*fp32", tl.pointer_type(tl.float32)), ("*ki64", tl.pointer_type(tl.int64, const=True)),
    ("**fp32", tl.pointer_type(tl.pointer_type(tl.float32))), ("'i32'", tl.int32), ("fp64", tl.float64),
    ("int64", tl.int64),
])
def test_spelling_in_signatures(text, want):
    assert parse_type(text) == tl.str_to_ty(text, None) == want


@pytest.mark.parametrize("text, said", [("flow", "'flow'; examples: i32"), ("float", "'float'; did you mean fp32"),
                                        ("*kdouble", r"'\*kdouble'; did you mean \*kfp64"), ("**", "'..'; examples")])
def test_wrong_spelling(text, said):
    with pytest.raises(ValueError, match=f"no type is spelt {said}"):
        parse_type(text)


def test_get_int_dtype():
    assert get_int_dtype(16, False) == tl.uint16 and get_int_dtype(1, True) == tl.int1


def test_names_for_symbols():
    assert [t.mangle() for t in (tl.int32, tl.uint8, tl.int1, tl.bfloat16, tl.pointer_type(tl.int8))] == [
        "i32", "u8", "i1", "bf16", "Pi8"]
    assert tl.block_type(tl.int8, (4, 2)).mangle() == "i8S4_2S"
