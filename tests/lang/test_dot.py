"""Semantics §6: types, shapes and arguments of tl.dot."""

import numpy as np
import pytest

from tests.departures import differs
from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl
from tilewright.ir.ops.attributes import Precision
from tilewright.language.options import Options


def dot(*types, **kwargs):
    return trace(lambda b, *v: call(b, tl.dot, *v, **kwargs), *types)


@pytest.mark.parametrize("name, want, in_fp16", [
    ("int8", "int32", "int32"), ("fp16", "fp32", "fp16"), ("bf16", "fp32", "fp32"), ("fp32", "fp32", "fp32"),
    ("fp64", "fp64", "fp64"), ("fp8e5", "fp32", "fp16"), ("fp8e4nv", "fp32", "fp16"),
])
def test_result_types(name, want, in_fp16):
    a, b = f"{name}[4, 8]", f"{name}[8, 3]"
    assert str(dot(a, b).result.type) == f"<[4, 3], {want}>"
    assert str(dot(a, b, out_dtype=tl.float16).result.dtype) == in_fp16
    assert str(dot(a, b, f"{want}[4, 3]").result.dtype) == want
    with pytest.raises(ValueError, match="out_dtype=bfloat16 is unsupported"):
        dot(a, b, out_dtype=tl.bfloat16)


@differs("The accumulator decides the type of `tl.dot`", topic="Names and signatures",
         peer="In 3.6 `out_dtype` is fp32 by default, so an fp16 accumulator fails.",
         ours="As in 3.9: by default the type of `acc`, else fp32.")
def test_the_accumulator_decides_the_default_out_dtype():
    assert dot("fp16[4, 8]", "fp16[8, 4]", "fp16[4, 4]").result.dtype == tl.float16
    with pytest.raises(TypeError, match="acc of tl.dot has type fp16, but a dot of fp32 accumulates in fp32"):
        dot("fp32[4, 8]", "fp32[8, 4]", "fp16[4, 4]")
    with pytest.raises(TypeError, match="acc of tl.dot has type fp32, but a dot of fp64 accumulates in fp64"):
        dot("fp64[4, 8]", "fp64[8, 4]", "fp32[4, 4]")
    with pytest.raises(TypeError, match="acc of tl.dot has type fp16, but a dot of fp16 accumulates in fp32"):
        dot("fp16[4, 8]", "fp16[8, 4]", "fp16[4, 4]", out_dtype=tl.float32)


@pytest.mark.parametrize("name", ["uint8", "int16", "int32", "int64", "int1"])
def test_types_without_a_product(name):
    with pytest.raises(TypeError, match=f"Unsupported dtype {name}"):
        dot(f"{name}[4, 4]", f"{name}[4, 4]")


def test_operands_have_one_type_but_any_two_fp8():
    assert dot("fp8e5[4, 8]", "fp8e4nv[8, 4]").names[-1] == "dot"
    with pytest.raises(TypeError, match="Both operands must be same dtype. Got fp16 and bf16"):
        dot("fp16[4, 8]", "bf16[8, 4]")


@pytest.mark.parametrize("a, b, message", [
    ("fp32[4, 8]", "fp32[4, 8]", r"second index of first shape \(8\) must be equal to first .* \(4\)"),
    ("fp32[4]", "fp32[4]", "either 2D or 3D"), ("fp32[2, 4, 4]", "fp32[4, 4]", "either 2D or 3D"),
    ("fp32[2, 4, 4]", "fp32[3, 4, 4]", "batch sizes"),
])
def test_shapes_that_do_not_fit(a, b, message):
    with pytest.raises(ValueError, match=message):
        dot(a, b)


def test_the_accumulator_has_the_shape_of_the_product():
    with pytest.raises(ValueError, match=r"must have the shape \[4, 3\] of the product"):
        dot("fp32[4, 8]", "fp32[8, 3]", "fp32[3, 4]")
    with pytest.raises(TypeError, match="acc of tl.dot must be a tensor, not 0.0"):
        dot("fp32[4, 8]", "fp32[8, 3]", acc=0.0)
    with pytest.raises(TypeError, match="other of tl.dot must be a tile"):
        trace(lambda b, x: call(b, tl.dot, x, 2.0), "fp32[4, 4]")


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 8, 3), (16, 16, 16), (5, 7, 2)])
def test_values(sizes):
    m, k, n = sizes
    rng = np.random.default_rng(0)
    x, y = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    for name in ("int8", "fp16", "bf16", "fp32", "fp64"):
        got = evaluate(lambda b, x, y: call(b, tl.dot, x, y), (x, name), (y, name))
        assert got.tolist() == (x @ y).tolist()
        more = evaluate(lambda b, x, y: call(b, tl.dot, x, y, call(b, tl.dot, x, y)), (x, name), (y, name))
        assert more.tolist() == (2 * (x @ y)).tolist()


def test_int8_does_not_wrap():
    assert evaluate(lambda b, x, y: call(b, tl.dot, x, y), ([[10, 20]], "int8"), ([[10], [20]], "int8")) == 500


def test_batches():
    x, y = np.arange(24).reshape(2, 3, 4), np.arange(16).reshape(2, 4, 2)
    assert evaluate(lambda b, x, y: call(b, tl.dot, x, y), (x, "fp32"), (y, "fp32")).tolist() == (x @ y).tolist()
    assert dot("fp32[2, 2, 4, 4]", "fp32[2, 2, 4, 8]", input_precision="ieee").result.shape == (2, 2, 4, 8)


class TestPrecision:
    def of(self, options=None, name="fp32", **kwargs):
        done = trace(lambda b, x: call(b, tl.dot, x, x, **kwargs), f"{name}[4, 4]", options=options)
        return done.op("dot").attrs["precision"]

    def test_names(self):
        for p in Precision:
            assert self.of(input_precision=p.value) is p
        assert self.of(input_precision="IEEE") is Precision.IEEE
        assert self.of() is Precision.TF32
        assert self.of(Options(default_dot_input_precision="ieee")) is Precision.IEEE
        assert self.of(allow_tf32=False) is Precision.IEEE and self.of(allow_tf32=True) is Precision.TF32
        assert self.of(name="fp16", input_precision="tf32") is Precision.IEEE

    def test_refuses(self):
        with pytest.raises(ValueError, match="Only one of input_precision and allow_tf32"):
            self.of(input_precision="ieee", allow_tf32=True)
        with pytest.raises(ValueError, match="input_precision must be one of"):
            self.of(input_precision="fp32")

    def test_imprecise_accumulation(self):
        assert dot("fp8e5[4, 8]", "fp8e5[8, 4]", max_num_imprecise_acc=8).names[-1] == "dot"
        with pytest.raises(ValueError, match=r"max_num_imprecise_acc \(16\) must be <= K \(8\)"):
            dot("fp8e5[4, 8]", "fp8e5[8, 4]", max_num_imprecise_acc=16)
