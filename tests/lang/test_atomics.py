"""Atomics: the op that each name becomes, conversions, what is refused."""

import pytest

from tests.lang.recorder import call, trace
from tilewright import language as tl
from tilewright.ir.ops.attributes import Rmw, Scope, Sem


def done(name, *types, **options):
    return trace(lambda b, p, *v: call(b, getattr(tl, name), p, *v, **options), *types)


@pytest.mark.parametrize("name, kinds", [
    ("atomic_add", (Rmw.FADD, Rmw.ADD, Rmw.ADD)), ("atomic_max", (Rmw.FMAX, Rmw.MAX_S, Rmw.MAX_U)),
    ("atomic_min", (Rmw.FMIN, Rmw.MIN_S, Rmw.MIN_U)), ("atomic_xchg", (Rmw.XCHG, Rmw.XCHG, Rmw.XCHG)),
])
def test_the_kind_follows_from_the_type(name, kinds):
    for element, kind in zip(("fp32", "int64", "uint32"), kinds, strict=True):
        found = done(name, f"*{element}[4]", "int32")
        assert found.op("atomic_rmw").attrs["kind"] is kind and str(found.result) == f"{element}[constexpr[4]]"


def test_order_and_scope():
    attrs = done("atomic_and", "*int32", "int32", sem="relaxed", scope="sys").op("atomic_rmw").attrs
    assert (attrs["sem"], attrs["scope"], attrs["has_mask"]) == (Sem.RELAXED, Scope.SYS, False)
    attrs = done("atomic_cas", "*fp16", "int32", "fp32", sem="", scope=None).op("atomic_cas").attrs
    assert (attrs["sem"], attrs["scope"]) == (Sem.ACQ_REL, Scope.GPU)
    with pytest.raises(ValueError, match=r"Memory semantic 'seq_cst' not supported; allowed are 'relaxed', 'acquire'"):
        done("atomic_or", "*int32", "int32", sem="seq_cst")
    with pytest.raises(ValueError, match="Memory scope 'warp' not supported"):
        done("atomic_or", "*int32", "int32", scope="warp")


@pytest.mark.parametrize("name, types, message", [
    ("atomic_max", ("*fp16", "fp16"), "atomic_max does not support fp16"),
    ("atomic_add", ("*int16", "int16"), "atomic_add does not support int16.*or are fp16 or bf16"),
    ("atomic_xor", ("*fp32", "fp32"), "atomic_xor works on integers, not on fp32"),
    ("atomic_cas", ("*int8", "int8", "int8"), "atomic_cas only supports elements with width {16, 32, 64}, not int8"),
    ("atomic_add", ("int32", "int32"), "Unsupported ptr type int32 in `tl.atomic_add`"),
    ("atomic_add", ("*int32", "int32[4]"), "Val argument cannot be block type if pointer argument is not a block"),
    ("atomic_add", ("*int32[4]", "int32", "int32[4]"), "Mask must have boolean scalar type"),
    ("atomic_add", ("*int32[4]", "int32[3]"), "incompatible dimensions"),
])
def test_refusals(name, types, message):
    with pytest.raises((TypeError, ValueError), match=message):
        done(name, *types)


def test_constant_pointers_are_refused():
    const = tl.pointer_type(tl.int32, const=True)
    with pytest.raises(ValueError, match="Cannot store to a constant pointer"):
        trace(lambda b, p: p.atomic_add(1), const)


def test_load_and_store():
    assert str(done("atomic_load", "*fp64[4]").result) == "fp64[constexpr[4]]"
    assert done("atomic_store", "*fp32", "int32").result is None


@pytest.mark.parametrize("kind, arguments, words", [
    ("*fp32", (1,), "integers of 16, 32 or 64 bits, not for fp32"), ("*int8", (1,), "not for int8"),
    ("*int32[4]", (1,), "waits for one element"), ("*int32", (1, "release"), "'acquire' .default. or"),
    ("*int32", (1, None, None, -1), "timeout_ns must be 0 or more"),
])
def test_what_atomic_poll_refuses(kind, arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        trace(lambda b, p: call(b, tl.atomic_poll, p, *arguments), kind)
