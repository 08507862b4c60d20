"""atom and red: every operation and type, against Python, lane after lane; contended and not; global and shared."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import aligned, run_body
from tilewright.targets.nvidia.ptx import floats


def wrap(value: int, type: str) -> int:
    bits = int(type[1:])
    value %= 2**bits
    return value - 2**bits if type[0] == "s" and value >= 2**(bits - 1) else value


OPERATIONS = {
    "add": lambda o, v: o + v, "min": min, "max": max, "and": lambda o, v: o & v, "or": lambda o, v: o | v,
    "xor": lambda o, v: o ^ v, "exch": lambda o, v: v, "inc": lambda o, v: 0 if o >= v else o + 1,
    "dec": lambda o, v: v if o == 0 or o > v else o - 1,
}
CASES = [("add", "u32"), ("add", "s32"), ("add", "u64"), ("min", "u32"), ("max", "s32"), ("min", "s64"),
         ("max", "u64"), ("and", "b32"), ("or", "b64"), ("xor", "b32"), ("exch", "b32"), ("exch", "b64"),
         ("inc", "u32"), ("dec", "u32")]


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("operation, type", CASES)
def test_integers(operation: str, type: str, space: str) -> None:
    size = int(type[1:]) // 8
    rng = np.random.default_rng(1)
    dtype = f"{'i' if type[0] == 's' else 'u'}{size}"
    start = rng.integers(0, 20, 4).astype(dtype)
    value = rng.integers(0, 20, 32).astype(dtype) if operation in ("inc", "dec") else \
        rng.integers(0, 2**62, 32).astype(dtype)
    memory, old = start.copy(), np.zeros(32, dtype)
    r = "rd" if size == 8 else "r"
    copy_in = f"""mov.u64 %rd3, cells; mul.wide.u32 %rd4, %r1, {size}; add.u64 %rd3, %rd3, %rd4;
        ld.global.b{8 * size} %{r}30, [%rd5]; st.shared.b{8 * size} [%rd3], %{r}30; bar.warp.sync -1;""" \
        if space == "shared" else "mov.u64 %rd3, %rd5;"
    copy_out = f"bar.warp.sync -1; ld.shared.b{8 * size} %{r}31, [%rd3]; st.global.b{8 * size} [%rd5], %{r}31;" \
        if space == "shared" else ""
    run_body(f""".shared .align 8 .b8 cells[64]; and.b32 %r1, %r100, 3; mad.wide.u32 %rd5, %r1, {size}, %rd100;
        {copy_in} mad.wide.u32 %rd6, %r100, {size}, %rd101; ld.global.b{8 * size} %{r}10, [%rd6];
        atom.{space}.{operation}.{type} %{r}11, [%rd3], %{r}10; mad.wide.u32 %rd7, %r100, {size}, %rd102;
        st.global.b{8 * size} [%rd7], %{r}11; {copy_out} ret;""", memory, value, old, block=32)
    cells = [int(v) for v in start]
    for lane in range(32):
        assert int(old[lane]) == cells[lane % 4]
        cells[lane % 4] = wrap(OPERATIONS[operation](cells[lane % 4], int(value[lane])), type)
    assert memory.tolist() == cells


@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16", "f16x2", "bf16x2"])
def test_floats(type: str) -> None:
    rng = np.random.default_rng(2)
    element = type.replace("x2", "")
    pair = 2 if type.endswith("x2") else 1
    size = {"f64": 8, "f32": 4}.get(element, 2)
    values = rng.integers(-8, 8, (64, pair)).astype("f8")
    raw = floats.encode(values, element) if element != "f64" else values
    memory = np.zeros((2, pair), raw.dtype)
    r = {8: "rd", 4: "r", 2: "rs"}[size * pair]
    bits = 8 * size * pair
    modifier = ".noftz" if size == 2 else ""
    run_body(f"""and.b32 %r1, %r100, 1; mad.wide.u32 %rd5, %r1, {size * pair}, %rd100;
        mad.wide.u32 %rd6, %r100, {size * pair}, %rd101; ld.global.b{bits} %{r}10, [%rd6];
        red.global.add{modifier}.{type} [%rd5], %{r}10; ret;""", memory, np.ascontiguousarray(raw), block=64)
    got = floats.decode(memory, element) if element != "f64" else memory
    assert (got == values.reshape(32, 2, pair).sum(0)).all()


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_compare_and_swap(bits: int) -> None:
    """Exactly one lane of those that ask for the old value wins."""
    memory, old = np.full(2, 7, f"u{bits // 8}"), np.zeros(32, f"u{bits // 8}")
    r = {16: "rs", 32: "r", 64: "rd"}[bits]
    run_body(f"""and.b32 %r1, %r100, 1; mad.wide.u32 %rd5, %r1, {bits // 8}, %rd100; cvt.u{bits}.u32 %{r}10, %r100;
        add.u{bits} %{r}10, %{r}10, 100;
        atom.global.cas.b{bits} %{r}11, [%rd5], 7, %{r}10; mad.wide.u32 %rd7, %r100, {bits // 8}, %rd101;
        st.global.b{bits} [%rd7], %{r}11; ret;""", memory, old, block=32)
    assert memory.tolist() == [100, 101]
    assert old.tolist() == [7, 7] + [100, 101] * 15


def test_compare_and_swap_of_128_bits() -> None:
    memory, old = np.array([1, 2], "u8"), np.zeros((2, 2), "u8")
    raw = aligned(2, "u8")
    raw[:] = memory
    run_body("""mov.b64 %rd1, 1; mov.b64 %rd2, 2; cvt.u64.u32 %rd3, %r100; mov.b128 %q1, {%rd1, %rd2};
        mov.b128 %q2, {%rd3, %rd3}; atom.global.cas.b128 %q3, [%rd100], %q1, %q2; mov.b128 {%rd4, %rd5}, %q3;
        mad.wide.u32 %rd7, %r100, 16, %rd101; st.global.b64 [%rd7], %rd4; st.global.b64 [%rd7+8], %rd5; ret;""",
             raw, old, block=2)
    assert raw.tolist() == [0, 0]
    assert old.tolist() == [[1, 2], [0, 0]]


def test_vectors() -> None:
    memory = aligned(4, "f4")
    run_body("""mov.b32 %r1, 0f3F800000; mov.b32 %r2, 0f40000000; mov.b32 %r3, 0f40400000; mov.b32 %r4, 0f40800000;
        red.global.add.v4.f32 [%rd100], {%r1, %r2, %r3, %r4}; ret;""", memory, block=32)
    assert memory.tolist() == [32, 64, 96, 128]


def test_a_guard_keeps_lanes_out() -> None:
    memory = np.zeros(1, "u4")
    run_body("setp.lt.u32 %p1, %r100, 10; @%p1 red.global.add.u32 [%rd100], 1; ret;", memory)
    assert memory[0] == 10
