"""The lines of device_print: index, operand numbers, signs, hexadecimal, every element type."""

import numpy as np
import pytest

from tilewright.interpret.printing import print_lines
from tilewright.ir import fp
from tilewright.ir.types import BF16, F8E4M3, F16, F32, F64, I1, I8, I16, I32, I64, Pointer, Tile


def one(value, t, hex=False, signed=True):
    (line,) = print_lines((0, 0, 0), "v", hex, [signed], [np.asarray(value)], [t])
    return line.removeprefix("pid (0, 0, 0) idx () v: ")


@pytest.mark.parametrize("value,t,hex,signed,text", [
    (np.int8(-1), I8, False, True, "-1"), (np.int8(-1), I8, False, False, "255"), (np.int8(-1), I8, True, True, "0xff"),
    (np.int16(5), I16, True, True, "0x0005"), (np.int32(-2), I32, True, False, "0xfffffffe"),
    (np.int64(-1), I64, False, False, "18446744073709551615"), (np.bool_(True), I1, False, True, "1"),
    (np.float32(1.5), F32, False, True, "1.500000"), (np.float32(np.nan), F32, False, True, "nan"),
    (np.float64(-np.inf), F64, False, True, "-inf"), (np.float16(0.1), F16, False, True, "0.099976"),
    (np.float32(1.5), F32, True, True, "0x1.8000000000000p+0"),
    (fp.encode(np.array(2.5), BF16), BF16, False, True, "2.500000"),
    (fp.encode(np.array(448.0), F8E4M3), F8E4M3, False, True, "448.000000"),
    (np.int64(4096), Pointer(F32), False, True, "0x0000000000001000"),
])
def test_elements(value, t, hex, signed, text):
    assert one(value, t, hex, signed) == text


def test_each_element_once_with_its_index():
    lines = print_lines((1, 2, 3), " grid: ", False, [True, True], [np.arange(4).reshape(2, 2), np.int32(7)],
                        [Tile((2, 2), I64), I32])
    place = "pid (1, 2, 3) idx"
    assert lines == [f"{place} ({i}, {j}) grid: (operand 0) {2 * i + j}" for i in range(2) for j in range(2)] + [
        f"{place} () grid: (operand 1) 7"]


def test_without_operands():
    assert print_lines((0, 1, 0), "here", False, [], [], []) == ["pid (0, 1, 0) here"]
