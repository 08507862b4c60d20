"""map_elementwise and inline_asm_elementwise: what is refused."""

import pytest

from tests.departures import differs
from tests.lang.recorder import call, trace
from tilewright import language as tl


def test_one_op():
    done = trace(lambda b, x: call(b, tl.map_elementwise, lambda v: v * 2, x), "fp32[4, 8]")
    assert done.names == ["map"] and str(done.result) == "fp32[constexpr[4], constexpr[8]]"


@pytest.mark.parametrize("use, message", [
    (lambda b, x: call(b, tl.map_elementwise, lambda v, w: v, x, 1.0), "maps tensors, not 1.0"),
    (lambda b, x: call(b, tl.map_elementwise, lambda v: v), "needs at least one tensor"),
    (lambda b, x: call(b, tl.map_elementwise, lambda *v: v, x, pack=3), "pack of tl.map_elementwise must divide"),
    (lambda b, x: call(b, tl.map_elementwise, lambda v, w: v, x, pack=2), "returned 1 values, which are not 2"),
    (lambda b, x: call(b, tl.map_elementwise, lambda v: v[None], x), "must return scalars"),
])
def test_refusals(use, message):
    with pytest.raises((TypeError, ValueError), match=message):
        trace(use, "fp32[8]")


@differs("Assembly is for GPUs", topic="Names and signatures",
         peer="`tl.inline_asm_elementwise` compiles PTX.",
         ours="On CPUs and in interpreters it raises NotImplementedError at its line.")
def test_assembly_is_for_gpus():
    with pytest.raises(NotImplementedError, match="PTX assembly, which runs on NVIDIA GPUs only; on the CPU"):
        trace(lambda b, x: call(b, tl.inline_asm_elementwise, "mov", "=r,r", [x], tl.int32, True, 1), "int32[4]")
