"""Matrix products: every element type, any M, N and K, batches, accumulation in a loop, masks and wraps."""

import dataclasses
import re

import numpy as np
import pytest

from tests.targets.cpu.harness import (
    BF16,
    DTYPES,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    WIDE,
    Options,
    both,
    generated,
    kernel,
    ptr,
    run_oracle,
    target,
    words,
)
from tilewright.ir.types import Tile
from tilewright.passes.manager import run_passes
from tilewright.targets.cpu.generate import generate
from tilewright.targets.cpu.host.tile_permission import without_tiles
from tilewright.targets.cpu.packing import spread_type
from tilewright.targets.cpu.product import row_blocks
from tilewright.targets.cpu.target import CpuTarget
from tilewright.targets.llvm.isa import Isa

X86 = target().machine.triple.startswith("x86_64")
SHAPES = [(16, 16, 16), (1, 1, 1), (3, 5, 7), (1, 64, 16), (64, 1, 8), (17, 33, 9), (64, 64, 32), (9, 48, 1),
          (8, 32, 20), (7, 31, 64)]


def tile_at(b, p, rows, columns):
    return b.at(p, b.add(b.mul(b.col(b.iota(rows)), columns), b.row(b.iota(columns))))


def product(m, n, k, t, acc):
    def body(b, x, y, o):
        a, c = b.load(tile_at(b, x, m, k)), b.load(tile_at(b, y, k, n))
        where = tile_at(b, o, m, n)
        b.store(where, b.op("dot", a, c, b.load(where)))
    return kernel([("x", ptr(t)), ("y", ptr(t)), ("o", ptr(acc))], body)


@pytest.mark.parametrize("m,n,k", SHAPES)
def test_f32(m, n, k):
    rng = np.random.default_rng(0)
    x, y, o = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    both(product(m, n, k, F32, F32), (1,), [x, y, o], exact=False, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("t,acc", [(F64, F64), (F16, F32), (F16, F16), (BF16, F32), (I8, I32), (F8E4M3, F32),
                                   (F8E5M2, F16)])
@pytest.mark.parametrize("m,n,k", [(16, 16, 16), (3, 5, 7), (33, 40, 18), (21, 112, 24), (4, 48, 6)])
def test_types(t, acc, m, n, k):
    """Small whole numbers, so that every sum is exact."""
    from tilewright.ir import fp
    rng = np.random.default_rng(1)
    def make(shape, element):
        numbers = rng.integers(-8, 8, shape) if element.bits > 8 or not element.is_float else rng.integers(-2, 3, shape)
        if element.is_float:
            return np.ascontiguousarray(fp.encode(numbers.astype(np.float64), element))
        return (numbers * (16 if element == I8 else 1)).astype(np.int8 if element == I8 else np.int32)
    both(product(m, n, k, t, acc), (1,), [make((m, k), t), make((k, n), t), make((m, n), acc)])


@pytest.mark.parametrize("m,n,k", [(5, 32, 8), (16, 64, 64), (7, 96, 4), (4, 128, 36), (33, 192, 16), (8, 80, 12)])
def test_int8_columns_of_any_count(m, n, k):
    """What the bias adds is summed for one, two or four vectors of columns at once."""
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    both(product(m, n, k, I8, I32), (1,), [x, y, rng.integers(-99, 99, (m, n)).astype(np.int32)])


def test_int8_wraps_in_32_bits_only():
    x, y = np.full((10, 20), 127, np.int8), np.full((20, 10), -128, np.int8)
    both(product(10, 10, 20, I8, I32), (1,), [x, y, np.full((10, 10), -2**31 + 5, np.int32)])


@pytest.mark.parametrize("t,name", [(BF16, "dpbf16ps"), (I8, "vpdpbusd")])
def test_group_instructions(t, name):
    isa = dataclasses.replace(WIDE, bf16=True, vnni=True)
    text = generated(product(64, 64, 32, t, F32 if t == BF16 else I32), isa=isa).text
    assert name in text and "gather" not in text
    with_sse2 = generate(product(64, 64, 32, t, F32 if t == BF16 else I32), Isa(), 128).text
    assert name not in with_sse2


@pytest.mark.skipif(not X86, reason="x86 machine code")
@pytest.mark.parametrize("name,lanes", [("x86-64", 4), ("x86-64-v2", 4), ("avx2", 8)])
@pytest.mark.parametrize("m,n,k", [(16, 16, 64), (5, 24, 6), (9, 72, 130)])
def test_bytes_as_words(name, lanes, m, n, k):
    """Sums of two products of words; the greatest is 2 * 128 * 128.  Sums of products of 32 bits where k is odd."""
    machine = CpuTarget(cpu=name)
    module = product(m, n, k, I8, I32)
    isa = machine.machine.isa
    assert isa.word_lanes == lanes and "pmadd.wd" in generate(module, isa, 32 * lanes).text
    assert "pmadd.wd" not in generate(product(m, n, 7, I8, I32), isa, 32 * lanes).text
    assert "pmadd.wd" not in generate(module, WIDE, 512).text
    rng = np.random.default_rng(5)
    x, y = (rng.choice(np.array([-128, -127, 0, 1, 127], np.int8), s) for s in ((m, k), (k, n)))
    args = [x, y, rng.integers(-2**31, 2**31, (m, n)).astype(np.int32)]
    expected = [a.copy() for a in args]
    run_oracle(module, (1,), expected)
    machine.load(machine.compile(module, Options())).launch((1, 1, 1), words(args, module.entry.params))
    np.testing.assert_array_equal(args[2], expected[2])


@pytest.mark.parametrize("t,acc", [(BF16, F32), (I8, I32)])
@pytest.mark.parametrize("m,n,k", [(16, 16, 64), (33, 48, 36), (64, 64, 128)])
def test_group_instructions_where_others_would_be_faster(t, acc, m, n, k):
    """On a machine with AMX its products take most shapes."""
    from tilewright.ir import fp
    rng = np.random.default_rng(8)
    def make(shape, element):
        whole = rng.integers(-9, 9, shape)
        if element.is_float:
            return np.ascontiguousarray(fp.encode(whole.astype(np.float64), element))
        return whole.astype(np.int8 if element == I8 else np.int32)
    args = [make((m, k), t), make((k, n), t), make((m, n), acc)]
    expected = [a.copy() for a in args]
    module = product(m, n, k, t, acc)
    run_oracle(module, (1,), expected)
    machine = CpuTarget(without_tiles(target().machine))
    module = run_passes(module, machine.passes(Options()))
    machine.load(machine.compile(module, Options())).launch((1, 1, 1), words(args, module.entry.params))
    np.testing.assert_array_equal(args[2], expected[2])


def matmul(bm, bn, bk, t=F32, wrap=False, masked=True, in_place=True, group=0):
    """Tiled product with run-time strides and pointers that the K loop carries."""
    def body(b, x, y, o, m, n, k, sa, sb, so):
        pm, pn = b.pid(0), b.pid(1)
        i, j = b.add(b.mul(pm, bm), b.iota(bm)), b.add(b.mul(pn, bn), b.iota(bn))
        kk = b.iota(bk)
        ai = b.binary("rem_s", i, m) if wrap else i
        bj = b.binary("rem_s", j, n) if wrap else j
        pa = b.at(x, b.add(b.mul(b.col(ai), sa), b.row(kk)))
        pb = b.at(y, b.add(b.mul(b.col(kk), sb), b.row(bj)))
        def step(at, pa, pb, acc):
            left = b.binary("sub", k, at) if masked else None
            ma = b.like(b.row(b.binary("cmp_lt_s", kk, left)), pa) if masked else None
            mb = b.like(b.col(b.binary("cmp_lt_s", kk, left)), pb) if masked else None
            acc = b.op("dot", b.load(pa, ma), b.load(pb, mb), acc)
            return [b.op("ptr_add", pa, b.const(bk, I32, (bm, bk))),
                    b.op("ptr_add", pb, b.splat(b.mul(sb, bk), (bk, bn))), acc]
        _, _, acc = b.for_(0, k, bk, [pa, pb, b.const(0.0, F32, (bm, bn))], step)
        mask = b.binary("and", b.col(b.binary("cmp_lt_s", i, m)), b.row(b.binary("cmp_lt_s", j, n)))
        value = acc if t == F32 else b.op("fp_trunc", acc, to=t)
        b.store(b.at(o, b.add(b.mul(b.col(i), so), b.row(j))), value, mask)
    return kernel([("x", ptr(t)), ("y", ptr(t)), ("o", ptr(t)), *((s, I32) for s in "mnk"),
                   *((s, I32) for s in ("sa", "sb", "so"))], body)


@pytest.mark.parametrize("m,n,k", [(64, 64, 64), (65, 33, 70), (1, 1, 1), (20, 100, 31), (128, 64, 32)])
@pytest.mark.parametrize("blocks", [(32, 32, 16), (16, 48, 32)])
def test_matmul(m, n, k, blocks):
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    grid = (-(-m // blocks[0]), -(-n // blocks[1]))
    args = [x, y, np.zeros((m, n), np.float32), m, n, k, k, n, n]
    for wrap in (False, True):
        if wrap or (m % blocks[0] == 0 and n % blocks[1] == 0):      # otherwise it would read beyond
            both(matmul(*blocks, wrap=wrap), grid, args, exact=False, rtol=1e-4, atol=1e-4)


def test_a_sum_that_is_not_cleared_before_its_loop():
    """Programs find the sums of those before them in scratch; some loops do not run, and one tile starts at -0.0."""
    m, n = 9, 48
    def body(b, x, y, o, start):
        p = b.pid(0)
        first = b.op("splat", b.op("constant", value=start, type=F32), shape=(m, n))
        at = b.at(o, b.mul(p, m * n))
        (acc,) = b.for_(0, p, 1, [first], lambda i, acc: [
            b.op("dot", b.load(tile_at(b, x, m, 8)), b.load(tile_at(b, y, 8, n)), acc)])
        b.store(tile_at(b, at, m, n), acc)
    rng = np.random.default_rng(6)
    x, y = (rng.integers(-9, 9, s).astype(np.float32) for s in ((m, 8), (8, n)))
    for start in (0.0, -0.0):
        module = kernel([("x", ptr(F32)), ("y", ptr(F32)), ("o", ptr(F32))],
                        lambda b, x, y, o, start=start: body(b, x, y, o, start))
        both(module, (4,), [x, y, np.full((4, m, n), 7, np.float32)])
        both(module, (4,), [-np.zeros_like(x), np.zeros_like(y), np.full((4, m, n), 7, np.float32)])


def test_matmul_of_halves():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((40, 50)).astype(np.float16), rng.standard_normal((50, 70)).astype(np.float16)
    both(matmul(16, 32, 16, F16, wrap=True), (3, 3), [x, y, np.zeros((40, 70), np.float16), 40, 70, 50, 50, 70, 70],
         exact=False, rtol=2e-2, atol=2e-2)


def test_matmul_is_vectors_without_gathers_or_copies_of_a():
    text = generated(matmul(64, 64, 32, masked=False), isa=WIDE).text
    assert "gather" not in text and "scatter" not in text and "call <16 x float> @llvm.fma" in text


def test_the_left_operands_next_tile_is_asked_for():
    """Where it is read in place and moves; each block of 8 rows asks for its part of the lines, two a row here."""
    def asked(module):
        return len(re.findall(r"call void @llvm.prefetch.*i32 3, i32 1", generated(module, isa=WIDE).text))

    def same_each_time(b, x, y, o, depth):
        left, right = b.load(tile_at(b, x, 64, 32)), b.load(tile_at(b, y, 32, 64))
        (total,) = b.for_(0, depth, 1, [b.const(0.0, F32, (64, 64))], lambda k, t: [b.op("dot", left, right, t)])
        b.store(tile_at(b, o, 64, 64), total)

    assert asked(matmul(64, 64, 32, masked=False)) == 8
    assert asked(matmul(64, 128, 32, masked=False)) == 4
    assert asked(matmul(64, 64, 64, masked=False)) == 16
    assert asked(matmul(64, 64, 32, F16, masked=False)) == 0       # packed
    assert asked(kernel([("x", ptr(F32)), ("y", ptr(F32)), ("o", ptr(F32)), ("depth", I32)], same_each_time)) == 0


def test_a_large_tile_is_asked_for_in_the_second_cache():
    def levels(module):
        lines = generated(module, isa=WIDE).text.splitlines()
        return {line.split(", ")[2] for line in lines if "call void @llvm.prefetch" in line}

    assert levels(matmul(64, 64, 32, masked=False)) == {"i32 3", "i32 2"}      # the second: what else is wanted
    assert levels(matmul(128, 128, 64, masked=False)) == {"i32 2"}


@pytest.mark.parametrize("height", [4, 6, 8, 12])
@pytest.mark.parametrize("rows", range(1, 40))
def test_row_blocks_cover_each_row_once(height, rows):
    blocks = list(row_blocks(rows, height))
    covered = [r for start, stop, part in blocks for r in range(start, stop, part) for r in range(r, r + part)]
    assert covered == list(range(rows)) and all(part <= height for _, _, part in blocks)


def test_few_rows_left_share_with_the_block_before():
    assert list(row_blocks(128, 6)) == [(0, 120, 6), (120, 128, 4)]
    assert list(row_blocks(64, 6)) == [(0, 60, 6), (60, 64, 4)]
    assert list(row_blocks(7, 4)) == [(0, 4, 4), (4, 6, 2), (6, 7, 1)]


def test_rows_of_a_crowded_panel_are_a_line_longer():
    assert spread_type(Tile((64, 128), F32), 256).shape == (64, 144)
    assert spread_type(Tile((2, 64, 64), F64), 128).shape == (2, 64, 72)
    assert spread_type(Tile((32, 64), F32), 256).shape == (32, 64)
    assert spread_type(Tile((64, 130), F32), 256).shape == (64, 130)
    assert spread_type(Tile((64, 128), F32), 512).shape == (64, 128)


@pytest.mark.parametrize("t", [F32, F16])
@pytest.mark.parametrize("masked", [False, True])
def test_crowded_panels(t, masked):
    """Whole numbers: every sum is exact."""
    m, n, k = 64, 256, 128
    rng = np.random.default_rng(7)
    x, y, o = (rng.integers(-2, 3, s).astype(np.float32 if t == F32 else np.float16) for s in ((m, k), (k, n), (m, n)))
    both(matmul(32, 128, 64, t, masked=masked), (2, 2), [x, y, o, m, n, k, k, n, n])


@pytest.mark.parametrize("t,acc", [(F32, F32), (F64, F64), (F16, F32), (I8, I32)])
def test_crowded_rows_without_a_loop(t, acc):
    m, n, k = 7, 128, 64
    rng = np.random.default_rng(8)
    x, y, o = (rng.integers(-5, 6, s).astype(DTYPES[e]) for s, e in (((m, k), t), ((k, n), t), ((m, n), acc)))
    both(product(m, n, k, t, acc), (1,), [x, y, o])


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("m,n,k", [(128, 128, 64), (64, 64, 32), (64, 96, 48), (48, 112, 80), (128, 256, 64)])
def test_blocks_of_every_machine_ask_for_lines(bits, m, n, k):
    """Also where a block's share is more than half a row (six rows of four lines for eight blocks)."""
    module = run_passes(matmul(m, n, k, masked=False), target().passes(Options()))
    isa = WIDE if bits == 512 else dataclasses.replace(WIDE, avx512=False) if bits == 256 else Isa()
    assert "call void @llvm.prefetch" in generate(module, isa, bits).text


@pytest.mark.parametrize("batch", [(2,), (2, 3)])
def test_batches(batch):
    shape_a, shape_b, shape_c = (*batch, 5, 6), (*batch, 6, 18), (*batch, 5, 18)
    def body(b, x, y, o):
        def load(p, s):
            return b.load(b.op("reshape", b.at(p, b.iota(int(np.prod(s)))), shape=s))
        acc = b.op("dot", load(x, shape_a), load(y, shape_b), b.const(1.0, F32, shape_c))
        b.store(b.op("reshape", b.at(o, b.iota(int(np.prod(shape_c)))), shape=shape_c), acc)
    rng = np.random.default_rng(4)
    x, y = (rng.integers(-9, 9, s).astype(np.float32) for s in (shape_a, shape_b))
    both(kernel([("x", ptr(F32)), ("y", ptr(F32)), ("o", ptr(F32))], body), (1,), [x, y, np.zeros(shape_c, np.float32)])


def test_batches_of_int8():
    """Each matrix has its own row of what the bias adds."""
    m, n, k = 5, 32, 8
    def body(b, x, y, o):
        def tile(p, r, c):
            return b.op("reshape", b.at(p, b.iota(2 * r * c)), shape=(2, r, c))
        where = tile(o, m, n)
        b.store(where, b.op("dot", b.load(tile(x, m, k)), b.load(tile(y, k, n)), b.load(where)))
    rng = np.random.default_rng(7)
    x, y = (rng.integers(-128, 128, s).astype(np.int8) for s in ((2, m, k), (2, k, n)))
    both(kernel([("x", ptr(I8)), ("y", ptr(I8)), ("o", ptr(I32))], body), (1,), [x, y, np.zeros((2, m, n), np.int32)])


def test_attention_like_loop():
    """Online softmax: a carried accumulator is scaled by row before each product; the row statistics go round too."""
    m, d, n, blocks = 17, 24, 16, 3
    def body(b, q, k, v, o):
        def tile(p, r, c):
            return b.load(b.at(p, b.add(b.mul(b.col(b.iota(r)), c), b.row(b.iota(c)))))
        qt = tile(q, m, d)
        def step(i, top, total, acc):
            kt = b.load(b.at(b.at(k, b.mul(i, n * d)), b.add(b.row(b.mul(b.iota(n), d)), b.col(b.iota(d)))))
            vt = tile(b.at(v, b.mul(i, n * d)), n, d)
            s = b.op("dot", qt, kt, b.const(0.0, F32, (m, n)))
            new = b.op("max_f", top, b.max(s, 1))
            p = b.op("exp", b.binary("sub_f", s, b.col(new)))
            alpha = b.op("exp", b.op("sub_f", top, new))
            total = b.op("add_f", b.op("mul_f", total, alpha), b.sum(p, 1))
            acc = b.op("dot", p, vt, b.mul(acc, b.like(b.col(alpha), acc)))
            return [new, total, acc]
        _, total, acc = b.for_(0, blocks, 1, [b.const(-1e30, F32, (m,)), b.const(0.0, F32, (m,)),
                                              b.const(0.0, F32, (m, d))], step)
        b.store(b.at(o, b.add(b.mul(b.col(b.iota(m)), d), b.row(b.iota(d)))), b.binary("div_rn", acc, b.col(total)))
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((m, d), (blocks * n, d), (blocks * n, d)))
    both(kernel([(s, ptr(F32)) for s in "qkvo"], body), (1,), [q, k, v, np.zeros((m, d), np.float32)], exact=False,
         rtol=1e-4, atol=1e-5)


def test_the_accumulator_is_still_needed():
    """The old accumulator is stored after the product: it must not be overwritten."""
    def body(b, x, o):
        where = tile_at(b, x, 16, 16)
        a = b.load(where)
        acc = b.mul(a, b.const(2.0, F32))
        kept = b.op("dot", a, a, acc)
        again = b.op("dot", a, a, kept)
        b.store(tile_at(b, o, 16, 16), b.op("add_f", acc, b.op("sub_f", again, kept)))
        b.store(tile_at(b, b.at(o, b.const(256)), 16, 16), kept)
    x = np.random.default_rng(6).integers(-5, 5, (16, 16)).astype(np.float32)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [x, np.zeros(512, np.float32)])


def test_a_computed_accumulator_that_is_needed_later():
    """exp(...) starts the sum, goes round a loop and is stored at the end: three roots need it."""
    def body(b, x, o):
        where = tile_at(b, x, 16, 16)
        a = b.load(where)
        row = b.sum(a, 1)
        start = b.op("exp", b.binary("sub_f", a, b.col(row)))
        once = b.op("dot", a, a, start)
        (looped,) = b.for_(0, 2, 1, [start], lambda i, s: [b.op("dot", a, a, s)])
        more = b.mul(b.op("dot", a, a, b.const(0.0, F32, (16, 16))), b.const(2.0, F32))
        for k, v in enumerate((once, looped, start, more)):
            b.store(tile_at(b, b.at(o, b.const(256 * k)), 16, 16), v)
    x = (np.arange(256).reshape(16, 16) % 7 / 8).astype(np.float32)
    both(kernel([("x", ptr(F32)), ("o", ptr(F32))], body), (1,), [x, np.zeros(1024, np.float32)], exact=False)


def test_a_left_operand_read_in_place_only_where_its_mask_is_certain():
    """Masks of many kinds on the left operand; all but the first two must be looked at element by element."""
    rng = np.random.default_rng(7)
    x, y = rng.integers(-5, 5, (16, 16)).astype(np.float32), rng.integers(-5, 5, (16, 16)).astype(np.float32)
    masks = [lambda b, i, j, n: b.like(b.binary("cmp_lt_s", i, n), b.add(i, j)),
             lambda b, i, j, n: b.like(b.const(1, I1), b.add(i, j)),
             lambda b, i, j, n: b.binary("cmp_le_s", i, j),
             lambda b, i, j, n: b.like(b.binary("cmp_eq", b.binary("and", j, 1), 0), b.add(i, j)),
             lambda b, i, j, n: b.op("reshape", b.op("join", b.const(1, I1, (128,)), b.const(0, I1, (128,))),
                                     shape=(16, 16))]
    for mask in masks:
        def body(b, x, y, o, n):
            i, j = b.col(b.iota(16)), b.row(b.iota(16))
            at = b.add(b.mul(i, 16), j)
            a = b.load(b.at(x, at), mask(b, i, j, n))
            b.store(b.at(o, at), b.op("dot", a, b.load(b.at(y, at)), b.const(0.0, F32, (16, 16))))
        for n in (16, 9):
            both(kernel([("x", ptr(F32)), ("y", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body), (1,),
                 [x, y, np.zeros((16, 16), np.float32), n])
