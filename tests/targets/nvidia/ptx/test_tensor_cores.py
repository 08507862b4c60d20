"""mma.sync, ldmatrix, stmatrix, movmatrix; fragments spelled out register by register, after the ISA's figures."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import run_body
from tilewright.targets.nvidia.ptx import PtxSyntaxError, floats

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "f64": 64}


def draw(rng: np.random.Generator, type: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(bits, one element an entry, values)."""
    if type in ("s8", "u8", "s4", "u4"):
        bits = BITS[type]
        low, high = (-(2**(bits - 1)), 2**(bits - 1)) if type[0] == "s" else (0, 2**bits)
        value = rng.integers(low, high, shape)
        return value % 2**bits, value
    if type == "f64":
        value = rng.standard_normal(shape)
        return value.view("u8"), value
    if type == "tf32":
        value = floats.round_to(rng.standard_normal(shape), "tf32")
        return value.astype("f4").view("u4").astype("u8"), value
    raw = floats.encode(rng.standard_normal(shape), type)
    raw = raw.view("u2") if type == "f16" else raw
    return raw.astype("u8"), floats.decode(raw.view("f2") if type == "f16" else raw, type)


def packed(bits: np.ndarray, place, registers: int, width: int, register_bits: int) -> np.ndarray:
    """[32 lanes, registers]: `place(lane, register, e)` is the index of an element."""
    per = register_bits // width
    out = np.zeros((32, registers), f"u{register_bits // 8}")
    for lane in range(32):
        for register in range(registers):
            word = sum(int(bits[place(lane, register, e)]) << e * width for e in range(per))
            out[lane, register] = word
    return out


PRODUCTS = [
    ("m16n8k8", "f32", "f16"), ("m16n8k16", "f32", "f16"), ("m16n8k16", "f16", "f16"), ("m16n8k8", "f16", "f16"),
    ("m16n8k8", "f32", "bf16"), ("m16n8k16", "f32", "bf16"), ("m16n8k4", "f32", "tf32"), ("m16n8k8", "f32", "tf32"),
    ("m16n8k32", "f32", "e4m3"), ("m16n8k32", "f32", "e5m2"), ("m16n8k16", "s32", "s8"), ("m16n8k32", "s32", "u8"),
    ("m8n8k16", "s32", "s8"), ("m16n8k64", "s32", "s4"), ("m16n8k32", "s32", "u4"), ("m8n8k4", "f64", "f64"),
    ("m16n8k4", "f64", "f64"), ("m16n8k8", "f64", "f64"), ("m16n8k16", "f64", "f64"),
]


@pytest.mark.parametrize("shape, out_type, in_type", PRODUCTS)
def test_products(shape: str, out_type: str, in_type: str) -> None:
    rng = np.random.default_rng(3)
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    width = BITS[in_type]
    word = 64 if width == 64 else 32
    per = word // width
    a_bits, a = draw(rng, in_type, (m, k))
    b_bits, b = draw(rng, in_type, (k, n))
    na, nb = m * k // 32 // per, k * n // 32 // per
    tall = m == 16

    def a_at(lane: int, register: int, e: int) -> tuple[int, int]:
        row = lane // 4 + (8 * (register % 2) if tall else 0)
        block = register // 2 if tall else register
        return row, block * 4 * per + lane % 4 * per + e

    def b_at(lane: int, register: int, e: int) -> tuple[int, int]:
        return register * 4 * per + lane % 4 * per + e, lane // 4

    half = out_type == "f16"
    nc = m * n // 32 // (2 if half else 1)
    c = rng.integers(-5, 5, (m, n)).astype("f8")

    def c_at(lane: int, register: int, e: int) -> tuple[int, int]:
        i = 2 * register + e if half else register
        return lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2

    c_dtype = {"f16": "f2", "f32": "f4", "f64": "f8", "s32": "i4"}[out_type]
    c_bits = c.astype(c_dtype).view(f"u{np.dtype(c_dtype).itemsize}")
    out_word = 64 if out_type == "f64" else 32
    arrays = [packed(a_bits, a_at, na, width, word), packed(b_bits, b_at, nb, width, word),
              packed(c_bits, c_at, nc, 16 if half else out_word, out_word)]
    out = np.zeros((32, nc), f"u{out_word // 8}")
    lines, names, first = [], [], 0
    for i, array in enumerate(arrays):
        count, size = array.shape[1], array.itemsize
        prefix = "rd" if size == 8 else "r"
        lines.append(f"mad.wide.u32 %rd{90 + i}, %r100, {size * count}, %rd{100 + i};")
        registers = [f"%{prefix}{first + j}" for j in range(count)]
        lines += [f"ld.global.b{8 * size} {r}, [%rd{90 + i}+{size * j}];" for j, r in enumerate(registers)]
        names.append("{" + ", ".join(registers) + "}")
        first += 20
    size = out.itemsize
    results = [f"%{'rd' if size == 8 else 'r'}{70 + j}" for j in range(nc)]
    opcode = f"mma.sync.aligned.{shape}.row.col.{out_type}.{in_type}.{in_type}.{out_type}"
    lines.append(f"{opcode} {{{', '.join(results)}}}, {', '.join(names)};")
    lines.append(f"mad.wide.u32 %rd95, %r100, {size * nc}, %rd103;")
    lines += [f"st.global.b{8 * size} [%rd95+{size * j}], {r};" for j, r in enumerate(results)]
    run_body("\n".join([*lines, "ret;"]), *arrays, out, block=32)
    product = (c + a @ b).astype(c_dtype).view(f"u{np.dtype(c_dtype).itemsize}")
    want = packed(product, c_at, nc, 16 if half else out_word, out_word)
    if in_type == "f64":
        assert np.allclose(out.view("f8"), want.view("f8"), rtol=1e-14)
    else:
        assert (out == want).all()


def test_integer_sums_saturate_where_asked() -> None:
    ones = np.full((32, 4), 0x7F7F7F7F, "u4")
    c = np.full((32, 4), 2**31 - 100, "i4")
    for modifier, want in ((".satfinite", 2**31 - 1), ("", (2**31 - 100 + 32 * 127 * 127) - 2**32)):
        out = np.zeros((32, 4), "i4")
        run_body(f"""mul.wide.u32 %rd1, %r100, 16; add.u64 %rd2, %rd100, %rd1; add.u64 %rd3, %rd101, %rd1;
            add.u64 %rd4, %rd102, %rd1;
            ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd2]; ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%rd3];
            mma.sync.aligned.m16n8k32.row.col{modifier}.s32.s8.s8.s32 {{%r11, %r12, %r13, %r14}}, {{%r1, %r2, %r3,
            %r4}}, {{%r1, %r2}}, {{%r5, %r6, %r7, %r8}}; st.global.v4.b32 [%rd4], {{%r11, %r12, %r13, %r14}}; ret;""",
            ones, c, out, block=32)
        assert (out == want).all()


def test_a_shape_that_does_not_exist() -> None:
    with pytest.raises(PtxSyntaxError, match="no such product"):
        run_body("""mma.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32 {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4},
            {%r1, %r2}, {%r1, %r2, %r3, %r4}; ret;""", block=32)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices(count: int, transposed: bool) -> None:
    """ldmatrix against the ISA's figure, and stmatrix as its inverse; two warps."""
    x = np.arange(2 * 4 * 64, dtype="u2").reshape(2, 4, 8, 8) * 7
    out, back = np.zeros((64, count), "u4"), np.zeros((2, 4, 8, 8), "u2")
    registers = ", ".join(f"%r{10 + i}" for i in range(count))
    trans = ".trans" if transposed else ""
    stores = "\n".join(f"st.global.b32 [%rd3+{4 * i}], %r{10 + i};" for i in range(count))
    run_body(f"""mul.wide.u32 %rd1, %r100, 16; add.u64 %rd2, %rd100, %rd1; mov.u32 %r1, tile;
        shl.b32 %r2, %r100, 4; add.u32 %r3, %r1, %r2;
        ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd2]; st.shared.v4.b32 [%r3], {{%r4, %r5, %r6, %r7}};
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r3];
        mad.wide.u32 %rd3, %r100, {4 * count}, %rd101; {stores}
        bar.sync 0;
        stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r3+1024], {{{registers}}};
        bar.sync 0;
        and.b32 %r20, %r100, 31; setp.ge.u32 %p1, %r20, {8 * count}; @%p1 bra done;
        ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r3+1024]; add.u64 %rd4, %rd102, %rd1;
        st.global.v4.b32 [%rd4], {{%r4, %r5, %r6, %r7}};
        done: ret;""", x, out, back, block=64, before=".shared .align 16 .b8 tile[2048];")
    for warp in range(2):
        for matrix in range(count):
            values = x[warp, matrix].T if transposed else x[warp, matrix]
            got = out.reshape(2, 32, count)[warp, :, matrix].copy().view("u2").reshape(8, 8)
            assert (got == values).all()
    assert (back[:, :count] == x[:, :count]).all()


def test_movmatrix() -> None:
    x = np.arange(64, dtype="u2").reshape(8, 8)
    out = np.zeros((8, 8), "u2")
    run_body("""mul.wide.u32 %rd1, %r100, 4; add.u64 %rd2, %rd100, %rd1; add.u64 %rd3, %rd101, %rd1;
        ld.global.b32 %r1, [%rd2]; movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; st.global.b32 [%rd3], %r2; ret;""",
             x, out, block=32)
    assert (out == x.T).all()
