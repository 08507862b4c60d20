"""wgmma: operands in shared memory in every layout that descriptors have, accumulators in every type.

The layouts are written here element by element, as a device was measured to read them (H200).
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import aligned, run_body
from tilewright.targets.nvidia.ptx import Fault, floats

ITEM = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


def draw(rng: np.random.Generator, type: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(storage, values)."""
    if type in ("s8", "u8"):
        value = rng.integers(-128 if type == "s8" else 0, 128 if type == "s8" else 256, shape)
        return value.astype("i1" if type == "s8" else "u1").view("u1"), value
    value = floats.round_to(rng.standard_normal(shape), type)
    if type == "tf32":
        return value.astype("f4").view("u4"), value
    return floats.encode(value, type).view(f"u{ITEM[type]}"), value


def lay_out(raw: np.ndarray, swizzle: int, mn_major: bool) -> tuple[np.ndarray, int, int]:
    """(image of shared memory, leading byte offset, stride byte offset) of an operand [rows, depth]."""
    rows, depth = raw.shape
    item = raw.itemsize
    width = swizzle or 16
    per = width // item
    image = np.zeros(rows * depth * item + 1024, "u1")
    if swizzle == 0:        # core matrices of 8 x 16 bytes
        leading, stride = (depth * 16, 128) if mn_major else (rows * 16, 128)
    else:                   # panels of `width` bytes
        leading, stride = (depth * width, 8 * width) if mn_major else (rows * width, 8 * width)
    for r in range(rows):
        for k in range(depth):
            if mn_major:
                byte = r // per * leading + k * width + r % per * item
            else:
                byte = k // per * leading + r * width + k % per * item
            if swizzle:
                byte ^= (byte >> 7 & swizzle // 16 - 1) << 4
            image[byte:byte + item] = np.frombuffer(raw[r, k].tobytes(), "u1")
    if swizzle == 0 and mn_major:
        leading, stride = stride, leading
    return image, leading, stride


def descriptor(start: int, leading: int, stride: int, swizzle: int) -> int:
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[swizzle]
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def multiply(a_image, b_image, a_desc: int, b_desc: int, opcode: str, registers: int, flags: str, scale: int = 1,
             seed: int = 0) -> np.ndarray:
    """One product by 128 threads, added to accumulators of 1; [thread, register]."""
    out = np.zeros((128, registers), "u4")
    image = aligned(16384, "u1")
    image[:min(8192, len(a_image))] = a_image[:8192]
    image[8192:8192 + min(8192, len(b_image))] = b_image[:8192]
    names = [f"%r{110 + i}" for i in range(registers)]
    one = {"f32": "0f3F800000", "f16": "0x3C003C00", "s32": "1"}[opcode.split(".")[5]]
    body = f"""mov.u32 %r1, tile; mad.lo.u32 %r2, %r100, 128, %r1; mad.wide.u32 %rd1, %r100, 128, %rd100;
        mov.u32 %r3, 0;
        fill: ld.global.b64 %rd2, [%rd1]; st.shared.b64 [%r2], %rd2; add.u64 %rd1, %rd1, 8; add.u32 %r2, %r2, 8;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 16; @%p1 bra fill; fence.proxy.async; bar.sync 0;
        {' '.join(f'mov.b32 {n}, {one};' for n in names)} setp.ne.u32 %p2, {scale}, 0;
        mov.b64 %rd3, {a_desc}; mov.b64 %rd4, {b_desc}; wgmma.fence.sync.aligned;
        {opcode} {{{', '.join(names)}}}, %rd3, %rd4, %p2{flags};
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        mad.wide.u32 %rd5, %r100, {4 * registers}, %rd101;
        {' '.join(f'st.global.b32 [%rd5+{4 * i}], {n};' for i, n in enumerate(names))} ret;"""
    run_body(body, image, out, before=".shared .align 1024 .b8 tile[16384];", seed=seed)
    return out


def unpacked(out: np.ndarray, n: int, type: str) -> np.ndarray:
    """Accumulators as the matrix [64, n], register by register."""
    result = np.zeros((64, n))
    values = out.view({"f32": "f4", "s32": "i4", "f16": "f2"}[type]).reshape(128, -1)
    for thread in range(128):
        warp, lane = thread // 32, thread % 32
        for i in range(values.shape[1]):
            row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
            result[row, 8 * (i // 4) + lane % 4 * 2 + i % 2] = values[thread, i]
    return result


@pytest.mark.parametrize("b_major", [False, True])
@pytest.mark.parametrize("a_major", [False, True])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_layouts_of_operands(swizzle: int, a_major: bool, b_major: bool) -> None:
    """The second of the two k16 steps of a 32-deep tile (four of 64 where the panel is that wide)."""
    rng = np.random.default_rng(1)
    n, depth = 64, 64 if swizzle == 128 else 32
    a_raw, a = draw(rng, "f16", (64, depth))
    b_raw, b = draw(rng, "f16", (n, depth))
    descriptors = []
    for raw, major, start, rows in ((a_raw, a_major, 0, 64), (b_raw, b_major, 8192, n)):
        _, leading, stride = lay_out(raw, swizzle, major)
        width = swizzle or 16
        if major:
            advance = 16 * width if swizzle else 256
        else:
            advance = 2 * rows * 16 if swizzle == 0 else (32 if width > 32 else rows * width)
        descriptors.append(descriptor(start + advance, leading, stride, swizzle))
    flags = f", 1, 1, {int(a_major)}, {int(b_major)}"
    out = multiply(lay_out(a_raw, swizzle, a_major)[0], lay_out(b_raw, swizzle, b_major)[0], *descriptors,
                   f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16", n // 2, flags)
    assert np.abs(unpacked(out, n, "f32") - 1 - a[:, 16:32] @ b[:, 16:32].T).max() < 1e-4


@pytest.mark.parametrize("d_type, type", [("f32", "bf16"), ("f16", "f16"), ("f32", "tf32"), ("f32", "e4m3"),
                                          ("f32", "e5m2"), ("f16", "e4m3"), ("s32", "s8"), ("s32", "u8")])
@pytest.mark.parametrize("n", [8, 24, 96])
def test_types(d_type: str, type: str, n: int) -> None:
    rng = np.random.default_rng(2)
    depth = 32 // ITEM[type]
    a_raw, a = draw(rng, type, (64, depth))
    b_raw, b = draw(rng, type, (n, depth))
    (a_image, *a_offsets), (b_image, *b_offsets) = lay_out(a_raw, 32, False), lay_out(b_raw, 32, False)
    flags = "" if d_type == "s32" else ", 1, 1, 0, 0" if type in ("f16", "bf16") else ", 1, 1"
    opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{d_type}.{type}.{type}"
    out = multiply(a_image, b_image, descriptor(0, *a_offsets, 32), descriptor(8192, *b_offsets, 32), opcode,
                   n // 4 if d_type == "f16" else n // 2, flags)
    want = a @ b.T + 1
    tolerance = 0 if d_type == "s32" else 0.02 if d_type == "f16" else 1e-4
    assert np.abs(unpacked(out, n, d_type) - want).max() <= tolerance * max(1, np.abs(want).max())


@pytest.mark.parametrize("flags, sign", [(", 1, 1, 0, 0", 1), (", -1, 1, 0, 0", -1), (", -1, -1, 0, 0", 1)])
@pytest.mark.parametrize("scale", [0, 1])
def test_scales(flags: str, sign: int, scale: int) -> None:
    rng = np.random.default_rng(3)
    (a_raw, a), (b_raw, b) = draw(rng, "f16", (64, 16)), draw(rng, "f16", (8, 16))
    (a_image, *a_offsets), (b_image, *b_offsets) = lay_out(a_raw, 32, False), lay_out(b_raw, 32, False)
    out = multiply(a_image, b_image, descriptor(0, *a_offsets, 32), descriptor(8192, *b_offsets, 32),
                   "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 4, flags, scale, seed=1)
    assert np.abs(unpacked(out, 8, "f32") - scale - sign * a @ b.T).max() < 1e-4


def test_a_part_of_a_warpgroup() -> None:
    with pytest.raises(Fault, match="warpgroup") as caught:
        run_body("wgmma.fence.sync.aligned; ret;", block=64)
    assert caught.value.kind == "operand"
    with pytest.raises(Fault, match="hold at PTX line") as caught:
        run_body("setp.lt.u32 %p1, %r100, 96; @%p1 bra a; bar.sync 1, 64; a: wgmma.fence.sync.aligned; ret;")
    assert caught.value.kind == "deadlock"


def test_registers_written_with_no_fence_before_the_product() -> None:
    """wgmma.fence orders ordinary writes of registers before products (PTX ISA 9.7.15.7.1)."""
    with pytest.raises(Fault, match=r"wgmma\.fence is missing") as caught:
        run_body("""mov.u32 %r9, t; mad.lo.u32 %r9, %r100, 32, %r9; mov.b64 %rd1, 0;
            st.shared.v2.b64 [%r9], {%rd1, %rd1};
            st.shared.v2.b64 [%r9+16], {%rd1, %rd1}; fence.proxy.async; bar.sync 0;
            mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
            wgmma.fence.sync.aligned; add.f32 %r1, %r2, %r3; setp.eq.u32 %p1, %r100, %r100;
            wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, %rd1, %rd1, %p1, 1, 1, 0, 0;
            ret;""",
                 before=".shared .align 128 .b8 t[4096];")
    assert caught.value.kind == "in flight"


def test_a_fragment_overwritten_while_it_is_read() -> None:
    body = """mov.u32 %r9, t; mad.lo.u32 %r9, %r100, 32, %r9; mov.b64 %rd1, 0; st.shared.v2.b64 [%r9], {%rd1, %rd1};
        st.shared.v2.b64 [%r9+16], {%rd1, %rd1}; fence.proxy.async; bar.sync 0;
        mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0;
        wgmma.fence.sync.aligned; setp.eq.u32 %p1, %r100, %r100;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r5, %r6}, %rd1, %p1, 1,
        1, 0;
        wgmma.commit_group.sync.aligned; FIRST SECOND ret;"""
    wait, write = "wgmma.wait_group.sync.aligned 0;", "add.u32 %r5, %r5, 1;"
    before = ".shared .align 128 .b8 t[4096];"
    run_body(body.replace("FIRST", wait).replace("SECOND", write), before=before)
    with pytest.raises(Fault, match="%r5 is written while a wgmma still reads it"):
        run_body(body.replace("FIRST", write).replace("SECOND", wait), before=before)
