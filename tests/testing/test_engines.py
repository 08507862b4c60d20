"""All engines run one kernel, with the same answer, the same checks and the same printed text."""

import sys
from dataclasses import replace

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import InternalError
from tilewright.testing import ptx_machine
from tilewright.testing.engines import ENGINES, launch, number


@triton.jit
def affine(x, out, a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, v * a + b, mask=i < n)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.float64])
def test_same_answer(engine, dtype):
    x = np.arange(50).astype(dtype)
    out = np.zeros(50, np.float32)
    launch(engine, affine, lambda meta: (triton.cdiv(50, meta["BLOCK"]),), x, out, 0.5, -3, 50, BLOCK=16)
    np.testing.assert_array_equal(out, x.astype(np.float32) * np.float32(0.5) - 3)


class Held:
    """An address and a dtype: what does not tell where it ends."""

    def __init__(self, array, offset=0):
        self.array, self.dtype, self.offset = array, array.dtype, offset

    def data_ptr(self):
        return self.array.ctypes.data + self.offset


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory of no argument cannot be read safely")
@pytest.mark.parametrize("engine", [*ENGINES, "checked"])
def test_what_does_not_tell_where_it_ends(engine):
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    for given in ((Held(x), out), (x, Held(out)), (Held(x), Held(out))):
        out[:] = 0
        launch(engine, affine, (1,), *given, 1.0, 2, 16, BLOCK=16)
        assert (out == x + 2).all()
    nowhere = Held(x, (1 << 44) - x.ctypes.data)
    with pytest.raises((triton.TritonError, triton.InterpreterError), match="'x'"):
        launch(engine, affine, (1,), nowhere, out, 1.0, 2, 16, BLOCK=16)


def test_the_ptx_machine_has_to_know_where_tensors_end():
    x = np.zeros(16, np.float32)
    with pytest.raises(ValueError, match="does not tell where its memory ends"):
        launch("ptx", affine, (1,), Held(x), x, 1.0, 2, 16, BLOCK=16)


@pytest.mark.parametrize("engine", ENGINES)
def test_read_only_is_refused(engine):
    x = np.zeros(16, np.float32)
    out = np.zeros(16, np.float32)
    out.setflags(write=False)
    with pytest.raises((ValueError, triton.InterpreterError), match="read-only"):
        launch(engine, affine, (1,), x, out, 1.0, 2, 16, BLOCK=16)
    assert not out.any()


@triton.jit
def talks(x):
    tl.device_print("value", tl.load(x + tl.program_id(0)))


@pytest.mark.parametrize("engine", ENGINES)
def test_same_text(engine, capfd):
    launch(engine, talks, (2,), np.array([1.5, -2.0], np.float32))
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == ["pid (0, 0, 0) idx () value: 1.500000", "pid (1, 0, 0) idx () value: -2.000000"]


def test_ptx_with_a_register_that_is_not_always_written_is_refused():
    x, o = np.ones(16, np.float32), np.zeros(16, np.float32)
    code = ptx_machine.run(affine, (1,), (x, o, 2.0, 3, 16), {"BLOCK": 16})
    lines = code.texts["ptx"].splitlines()
    kept = [line for line in lines if not line.strip().startswith("cvt.rn.f32.s32")]     # b as a float
    assert len(kept) == len(lines) - 1
    broken = replace(code, texts={**code.texts, "ptx": "\n".join(kept)})
    with pytest.raises(InternalError, match="PTX of affine reads registers that some way does not write: %"):
        ptx_machine.launch(broken, (1,), [x, o, 0x40000000, 3, 16])


def test_unknown_engine():
    with pytest.raises(ValueError, match="no engine 'gpu'"):
        launch("gpu", talks, (1,), np.zeros(1))


@pytest.mark.parametrize("pattern, text, value", [
    (0x3FC0, "bf16", 1.5), (0x3F800000, "f32", 1.0), (2**64 - 1, "i32", 2**64 - 1)])
def test_number_of_a_pattern(pattern, text, value):
    from tilewright.ir.types import Scalar

    assert number(pattern, Scalar(text)) == value
