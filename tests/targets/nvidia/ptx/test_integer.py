"""Integer and bit instructions against Python's integers, on edge values of every width."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import INTEGERS, apply, pairs


def signed(value: int, bits: int) -> int:
    return value - 2**bits if value >= 2**(bits - 1) else value


def reading(type: str):
    """An unsigned pattern as the integer that `type` sees."""
    bits = int(type[1:])
    return (lambda v: signed(v, bits)) if type[0] == "s" else (lambda v: v)


def check(opcode: str, type: str, meaning, sources, result_bits: int = 0) -> None:
    bits = int(type[1:])
    result_bits = result_bits or bits
    read = reading(type)
    out = apply(opcode, f"u{result_bits // 8}", *sources)
    want = [meaning(*(read(int(x)) for x in row)) % 2**result_bits for row in zip(*sources)]
    assert out.tolist() == want


def divided(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


TWO = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b, "min": min, "max": max,
}
TYPES = ["u16", "s16", "u32", "s32", "u64", "s64"]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", TWO)
def test_two_sources(name: str, type: str) -> None:
    check(f"{name}.{type}", type, TWO[name], pairs(INTEGERS[int(type[1:])]))


@pytest.mark.parametrize("type", TYPES)
def test_high_half(type: str) -> None:
    bits = int(type[1:])
    check(f"mul.hi.{type}", type, lambda a, b: a * b >> bits, pairs(INTEGERS[bits]))


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32"])
def test_wide(type: str) -> None:
    bits = int(type[1:])
    check(f"mul.wide.{type}", type, lambda a, b: a * b, pairs(INTEGERS[bits]), 2 * bits)
    a, b = pairs(INTEGERS[bits])
    c = np.resize(INTEGERS[2 * bits], len(a))
    out = apply(f"mad.wide.{type}", f"u{bits // 4}", a, b, c)
    read = reading(type)
    assert out.tolist() == [(read(int(x)) * read(int(y)) + int(z)) % 2**(2 * bits) for x, y, z in zip(a, b, c)]


@pytest.mark.parametrize("type", TYPES)
def test_division(type: str) -> None:
    a, b = pairs(INTEGERS[int(type[1:])])
    a, b = a[b != 0], b[b != 0]
    check(f"div.{type}", type, divided, [a, b])
    check(f"rem.{type}", type, lambda x, y: x - divided(x, y) * y, [a, b])


@pytest.mark.parametrize("type", ["s32"])
def test_saturation(type: str) -> None:
    def clamp(x: int) -> int:
        return max(-2**31, min(2**31 - 1, x))

    check("add.sat.s32", type, lambda a, b: clamp(a + b), pairs(INTEGERS[32]))
    check("sub.sat.s32", type, lambda a, b: clamp(a - b), pairs(INTEGERS[32]))


@pytest.mark.parametrize("type", TYPES)
def test_multiply_add(type: str) -> None:
    a, b = pairs(INTEGERS[int(type[1:])])
    check(f"mad.lo.{type}", type, lambda x, y, z: x * y + z, [a, b, a[::-1].copy()])


@pytest.mark.parametrize("type", ["s16", "s32", "s64"])
def test_one_source(type: str) -> None:
    values = [INTEGERS[int(type[1:])]]
    check(f"abs.{type}", type, abs, values)
    check(f"neg.{type}", type, lambda a: -a, values)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic(bits: int) -> None:
    type = f"b{bits}"
    check(f"and.{type}", type, lambda a, b: a & b, pairs(INTEGERS[bits]))
    check(f"or.{type}", type, lambda a, b: a | b, pairs(INTEGERS[bits]))
    check(f"xor.{type}", type, lambda a, b: a ^ b, pairs(INTEGERS[bits]))
    check(f"not.{type}", type, lambda a: ~a, [INTEGERS[bits]])
    check(f"cnot.{type}", type, lambda a: int(a == 0), [INTEGERS[bits]])


@pytest.mark.parametrize("type", ["b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"])
def test_shifts(type: str) -> None:
    bits = int(type[1:])
    a = np.repeat(INTEGERS[bits], 7)
    by = np.resize(np.array([0, 1, bits - 1, bits, bits + 1, 200, 2**32 - 1], np.uint32), len(a))
    read = reading(type)
    if type[0] == "b":
        out = apply(f"shl.{type}", f"u{bits // 8}", a, by)
        assert out.tolist() == [(int(x) << min(int(s), bits)) % 2**bits for x, s in zip(a, by)]
    else:
        out = apply(f"shr.{type}", f"u{bits // 8}", a, by)
        assert out.tolist() == [(read(int(x)) >> min(int(s), bits)) % 2**bits for x, s in zip(a, by)]


def test_funnel_shifts() -> None:
    a, b = pairs(INTEGERS[32])
    by = np.resize(np.array([0, 1, 16, 31, 32, 33, 63, 64, 200], np.uint32), len(a))
    for mode, distance in (("wrap", lambda s: s & 31), ("clamp", lambda s: min(s, 32))):
        pair = [int(y) << 32 | int(x) for x, y in zip(a, b)]
        left = [(p << distance(int(s)) >> 32) % 2**32 for p, s in zip(pair, by)]
        right = [(p >> distance(int(s))) % 2**32 for p, s in zip(pair, by)]
        assert apply(f"shf.l.{mode}.b32", np.uint32, a, b, by).tolist() == left
        assert apply(f"shf.r.{mode}.b32", np.uint32, a, b, by).tolist() == right


@pytest.mark.parametrize("table", [0x80, 0x96, 0xE8, 0x1B, 0xFE, 0x00])
def test_lop3(table: int) -> None:
    a, b = pairs(INTEGERS[32])
    c = a[::-1].copy()

    def bit(x: int, y: int, z: int) -> int:
        return sum((table >> ((x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1)) & 1) << i for i in range(32))

    out = apply("lop3.b32", np.uint32, a, b, c, operands=f"{{d}}, {{0}}, {{1}}, {{2}}, {table:#x}")
    assert out.tolist() == [bit(int(x), int(y), int(z)) for x, y, z in zip(a, b, c)]


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_counts(bits: int) -> None:
    values = INTEGERS[bits]
    assert apply(f"popc.b{bits}", np.uint32, values).tolist() == [int(v).bit_count() for v in values]
    assert apply(f"clz.b{bits}", np.uint32, values).tolist() == [bits - int(v).bit_length() for v in values]
    assert apply(f"brev.b{bits}", f"u{bits // 8}", values).tolist() == \
        [int(format(int(v), f"0{bits}b")[::-1], 2) for v in values]
    found = [int(v).bit_length() - 1 if v else 2**32 - 1 for v in values]
    assert apply(f"bfind.u{bits}", np.uint32, values).tolist() == found
    amounts = [bits - int(v).bit_length() if v else 2**32 - 1 for v in values]
    assert apply(f"bfind.shiftamt.u{bits}", np.uint32, values).tolist() == amounts
    plain = [signed(int(v), bits) for v in values]
    want = [(~v if v < 0 else v).bit_length() - 1 for v in plain]
    assert apply(f"bfind.s{bits}", np.uint32, values).tolist() == [w % 2**32 for w in want]


def field(value: int, position: int, length: int, bits: int, is_signed: bool) -> int:
    """bfe as PTX ISA 9.7.1.19 spells it out, bit by bit."""
    msb = bits - 1
    pos, size = position & 255, length & 255
    if not is_signed or size == 0:
        sign = 0
    else:
        sign = value >> min(pos + size - 1, msb) & 1
    return sum((value >> (pos + i) & 1 if i < size and pos + i <= msb else sign) << i for i in range(bits))


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
def test_extract_field(type: str) -> None:
    bits = int(type[1:])
    places = [(0, 0), (0, 1), (3, 5), (bits - 4, 4), (bits - 4, 9), (0, bits), (bits, 3), (5, 255), (255, 255)]
    a = np.repeat(INTEGERS[bits], len(places))
    b, c = (np.resize(np.array([p[i] for p in places], np.uint32), len(a)) for i in (0, 1))
    out = apply(f"bfe.{type}", f"u{bits // 8}", a, b, c)
    assert out.tolist() == [field(int(x), int(p), int(n), bits, type[0] == "s") for x, p, n in zip(a, b, c)]


@pytest.mark.parametrize("bits", [32, 64])
def test_insert_field(bits: int) -> None:
    places = [(0, 0), (0, 1), (3, 5), (bits - 4, 9), (0, bits), (bits, 3), (255, 255), (1, bits - 1)]
    a = np.repeat(INTEGERS[bits], len(places))
    b, (c, d) = a[::-1].copy(), (np.resize(np.array([p[i] for p in places], np.uint32), len(a)) for i in (0, 1))

    def insert(x: int, y: int, pos: int, size: int) -> int:
        for i in range(size):
            if pos + i < bits:
                y = y & ~(1 << (pos + i)) | (x >> i & 1) << (pos + i)
        return y

    out = apply(f"bfi.b{bits}", f"u{bits // 8}", a, b, c, d)
    assert out.tolist() == [insert(int(x), int(y), int(p), int(n)) for x, y, p, n in zip(a, b, c, d)]


def test_permute_bytes() -> None:
    a, b = pairs(INTEGERS[32])
    c = np.resize(np.array([0x3210, 0x7654, 0x0123, 0xBA98, 0x5410, 0xFFFF, 0x8001], np.uint32), len(a))

    def permute(x: int, y: int, s: int) -> int:
        raw = [(y << 32 | x) >> 8 * i & 255 for i in range(8)]
        picks = [s >> 4 * i & 15 for i in range(4)]
        return sum((raw[p & 7] if p < 8 else 255 * (raw[p & 7] >> 7)) << 8 * i for i, p in enumerate(picks))

    want = [permute(int(x), int(y), int(s)) for x, y, s in zip(a, b, c)]
    assert apply("prmt.b32", np.uint32, a, b, c).tolist() == want
    fixed = apply("prmt.b32", np.uint32, a, b, operands="{d}, {0}, {1}, 0x7531")
    assert fixed.tolist() == [permute(int(x), int(y), 0x7531) for x, y in zip(a, b)]


def test_carries() -> None:
    """A 64-bit sum and product of 32-bit halves."""
    from tests.targets.nvidia.ptx.harness import run_body

    a, b = pairs(INTEGERS[64])
    n = len(a) // 32 * 32
    a, b = a[:n].copy(), b[:n].copy()
    out, less, high = np.zeros(n, np.uint64), np.zeros(n, np.uint64), np.zeros(n, np.uint32)
    run_body("""mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 32, %r100; mul.wide.u32 %rd1, %r1, 8;
        add.u64 %rd2, %rd100, %rd1; add.u64 %rd3, %rd101, %rd1; add.u64 %rd4, %rd102, %rd1; add.u64 %rd5, %rd103, %rd1;
        ld.global.v2.b32 {%r2, %r3}, [%rd2]; ld.global.v2.b32 {%r4, %r5}, [%rd3];
        add.cc.u32 %r6, %r2, %r4; addc.u32 %r7, %r3, %r5; st.global.v2.b32 [%rd4], {%r6, %r7};
        sub.cc.u32 %r6, %r2, %r4; subc.u32 %r7, %r3, %r5; st.global.v2.b32 [%rd5], {%r6, %r7};
        mad.lo.cc.u32 %r8, %r2, %r4, %r3; madc.hi.u32 %r9, %r2, %r4, 0;
        mad.wide.u32 %rd6, %r1, 4, %rd104; st.global.b32 [%rd6], %r9; ret;""",
             a, b, out, less, high, block=32, grid=(n // 32,))
    assert out.tolist() == [(int(x) + int(y)) % 2**64 for x, y in zip(a, b)]
    assert less.tolist() == [(int(x) - int(y)) % 2**64 for x, y in zip(a, b)]
    m = 2**32 - 1
    assert high.tolist() == [((int(x) & m) * (int(y) & m) + (int(x) >> 32)) >> 32 for x, y in zip(a, b)]


@pytest.mark.parametrize("type", TYPES)
def test_comparisons(type: str) -> None:
    import operator

    a, b = pairs(INTEGERS[int(type[1:])])
    read = reading(type)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        out = apply(f"setp.{name}.{type}", np.uint16, a, b, predicate=True)
        assert out.tolist() == [int(getattr(operator, name)(read(int(x)), read(int(y)))) for x, y in zip(a, b)]


def test_small_families() -> None:
    a, b = pairs(INTEGERS[32])
    c = a[::-1].copy()

    def low24(x: int) -> int:
        return (x & 0xFFFFFF) - (1 << 24 if x & 0x800000 else 0)

    rows = list(zip(*(v.tolist() for v in (a, b, c))))
    assert apply("mul24.lo.s32", np.uint32, a, b).tolist() == [low24(x) * low24(y) % 2**32 for x, y, _ in rows]
    assert apply("mul24.hi.s32", np.uint32, a, b).tolist() == [(low24(x) * low24(y) >> 16) % 2**32 for x, y, _ in rows]
    assert apply("sad.u32", np.uint32, a, b, c).tolist() == [(abs(x - y) + z) % 2**32 for x, y, z in rows]

    def bytes_of(x: int, s: bool) -> list[int]:
        return [signed(x >> 8 * i & 255, 8) if s else x >> 8 * i & 255 for i in range(4)]

    want = [(z + sum(p * q for p, q in zip(bytes_of(x, True), bytes_of(y, False)))) % 2**32 for x, y, z in rows]
    assert apply("dp4a.s32.u32", np.uint32, a, b, c).tolist() == want
    n = np.resize(np.array([0, 1, 8, 31, 32, 40], np.uint32), len(a))

    def sext(x: int, k: int) -> int:
        k = min(k, 32)
        low = x & ((1 << k) - 1)
        return (low - (1 << k) if k and low >> (k - 1) & 1 else low) % 2**32

    assert apply("szext.clamp.s32", np.uint32, a, n).tolist() == [sext(x, int(k)) for (x, _, _), k in zip(rows, n)]
    ones = [(((1 << min(int(k), 32)) - 1) << min(x, 32)) % 2**32 for (x, _, _), k in zip(rows, n)]
    assert apply("bmsk.clamp.b32", np.uint32, a, n).tolist() == ones
