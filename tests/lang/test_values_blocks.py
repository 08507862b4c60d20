"""Block pointers and tensor descriptors on every engine: matrix products, edges, padding, negative offsets, atomics."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def block_matmul(c, a, b, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    pa = tl.make_block_ptr(base=a, shape=(M, K), strides=(sam, sak), offsets=(pm * BM, 0), block_shape=(BM, BK),
                           order=(1, 0))
    pb = tl.make_block_ptr(b, (K, N), (sbk, sbn), (0, pn * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(pa, boundary_check=(0, 1))
        y = tl.load(pb, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, y, input_precision="ieee")
        pa = tl.advance(pa, (0, BK))
        pb = pb.advance([BK, 0])
    pc = tl.make_block_ptr(c, (M, N), (scm, scn), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(pc, acc.to(tl.float32), boundary_check=(0, 1))


@triton.jit
def column_sums(out, x, M, N, BM: tl.constexpr, BN: tl.constexpr, PADDING: tl.constexpr):
    pid = tl.program_id(0)
    p = tl.make_block_ptr(x, (M, N), (N, 1), (0, pid * BN), (BM, BN), (1, 0))
    total = tl.zeros((BN,), tl.float32)
    i = 0
    while i < M:
        total += tl.sum(tl.load(p, boundary_check=(0, 1), padding_option=PADDING), axis=0)
        p = tl.advance(p, (BM, 0))
        i += BM
    tl.store(out + pid * BN + tl.arange(0, BN), total)


@triton.jit
def column_major(out, x, T, K: tl.constexpr, BT: tl.constexpr):
    p = tl.make_block_ptr(x, (K, T), (1, K), (0, 0), (K, BT), (0, 1))
    v = tl.load(p, boundary_check=(1,))
    tl.store(out + tl.arange(0, K)[:, None] * BT + tl.arange(0, BT)[None, :], v)


@triton.jit
def choose_direction(out, x, N: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr, n):
    p = tl.make_block_ptr(x, (N, N), (N, 1), (0, 0), (B, B), (1, 0))
    if AXIS == 0:
        step = (B, 0)
    else:
        step = (0, B)
    total = tl.zeros((B, B), tl.int32)
    for i in range(n):
        total += tl.load(p)
        if i % 2 == 0:
            p = tl.advance(p, step)
        else:
            p = tl.advance(p, (0, 0))
    tl.store(tl.make_block_ptr(out, (B, B), (B, 1), (0, 0), (B, B), (1, 0)), total)


@triton.jit
def shifted(out, x, n, start, B: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (start,), (B,), (0,))
    v = tl.load(p, boundary_check=(0,), padding_option="nan")
    tl.store(out + tl.arange(0, B), v)
    q = tl.make_block_ptr(x, (n,), (1,), (start,), (B,), (0,))
    tl.store(q, v + 1, boundary_check=0)


@triton.jit
def flags(out, x, n, B: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (B,), (0,))
    v = tl.load(p, boundary_check=(0,))
    tl.store(out + tl.arange(0, B), v)


@triton.jit
def described_copy(out, x, M, N, BM: tl.constexpr, BN: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN], padding_option=PADDING)
    target = tl.make_tensor_descriptor(out, [M + 1, N + 2], [N + 2, 1], [BM, BN])
    row = tl.program_id(0) * BM
    for column in tl.range(0, N, BN, num_stages=3):
        block = source.load([row, column])
        tl.store_tensor_descriptor(target, [row, column], block * 2)
        tl.static_assert(source.block_shape == [BM, BN])


@triton.jit
def host_matmul(c, a, b, K):
    BM: tl.constexpr = a.block_shape[0]
    BK: tl.constexpr = a.block_shape[1]
    BN: tl.constexpr = b.block_shape[1]
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc, input_precision="ieee")
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def rows(out, x, index, M, N, R: tl.constexpr, B: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, B])
    r = tl.load(index + tl.arange(0, R))
    block = desc.gather(r, 3)
    tl.store(out + tl.arange(0, R)[:, None] * B + tl.arange(0, B)[None, :], block)
    desc.scatter(block + 100, r, 1)


@triton.jit
def accumulate(x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    desc.atomic_add([0, 0], tl.full((BM, BN), 1, tl.int32))
    desc.atomic_max([-1, 2], tl.full((BM, BN), 1, tl.int32) * tl.program_id(0))


@differs("Block pointers stay", topic="Names and signatures",
         peer="3.9 has removed `tl.advance`, and `tl.make_block_ptr` raises.",
         ours="They work as in 3.6, beside tensor descriptors.")
@pytest.mark.parametrize("m, n, k", [(33, 40, 50), (16, 16, 16), (5, 70, 3)])
def test_matrix_product(launch, m, n, k):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (k, n)))
    for x, y in ((a, b), (a.T.copy().T, b.T.copy().T)):
        c = np.full((m, n), -7.0, np.float32)
        strides = [s // 4 for v in (x, y, c) for s in v.strides]
        launch(block_matmul, (-(-m // 16), -(-n // 32)), c, x, y, m, n, k, *strides, BM=16, BN=32, BK=16)
        np.testing.assert_array_equal(c, a @ b)


@differs("Block pointers stay")
@pytest.mark.parametrize("padding", ["zero", "", "nan"])
def test_padding(launch, padding):
    """Traps F31."""
    x = np.random.default_rng(2).integers(0, 9, (33, 32)).astype(np.float32)
    out = np.zeros(32, np.float32)
    launch(column_sums, (2,), out, x, 33, 32, BM=32, BN=16, PADDING=padding)
    np.testing.assert_array_equal(out, np.full(32, np.nan) if padding == "nan" else x.sum(0))


@pytest.mark.parametrize("t", [1, 5, 16])
def test_column_major(launch, t):
    """Traps F32."""
    x = np.random.default_rng(3).standard_normal((t, 8)).astype(np.float32)
    out = np.ones((8, 16), np.float32)
    launch(column_major, (1,), out, x, t, K=8, BT=16)
    np.testing.assert_array_equal(out[:, :t], x.T)
    assert not out[:, t:].any()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_offsets_from_a_variable(launch, axis, n):
    """Traps J53; the pointer is changed in both branches of an `if` in a loop."""
    x = np.arange(144, dtype=np.int32).reshape(12, 12)
    out = np.full((4, 4), -1, np.int32)
    launch(choose_direction, (1,), out, x, N=12, B=4, AXIS=axis, n=n)
    want, at = np.zeros((4, 4), np.int64), 0
    for i in range(n):
        want += x[at:at + 4, :4] if axis == 0 else x[:4, at:at + 4]
        at += 4 * (i % 2 == 0)
    np.testing.assert_array_equal(out, want)


@differs("Blocks of arrays may be of any size, at any place", topic="Shapes",
         peer="3.6: offsets of block pointers have 32 bits. 3.9: those of descriptors too, a row of a block has at "
              "least 16 bytes, and a gather at least 8 rows.",
         ours="Offsets have 64 bits, and a block one element or more.")
@pytest.mark.parametrize("start", [-5, 0, 3, 9, 20, -40, -2**40, 2**40])
def test_outside_on_both_sides(launch, start):
    x = np.arange(10, dtype=np.float32)
    before, out = x.copy(), np.zeros(16, np.float32)
    launch(shifted, (1,), out, x, 10, start, B=16)
    places = start + np.arange(16)
    inside = (places >= 0) & (places < 10)
    np.testing.assert_array_equal(out, [before[p] if i else np.nan for p, i in zip(places.tolist(), inside)])
    touched = places[inside]
    before[touched] += 1
    np.testing.assert_array_equal(x, before)


def test_bool_arrays_are_read_as_bytes(launch):
    x, out = np.array([True, False, True]), np.full(4, 9, np.int8)
    launch(flags, (1,), out, x, 3, B=4)
    assert out.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_descriptors_made_in_a_kernel(launch, padding):
    x = np.random.default_rng(4).standard_normal((5, 37)).astype(np.float32)
    out = np.full((6, 39), 5, np.float32)
    launch(described_copy, (3,), out, x, 5, 37, BM=2, BN=16, PADDING=padding)
    want = np.full((6, 39), np.nan if padding == "nan" else 0, np.float32)
    want[:5, :37] = x * 2
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_descriptors_of_the_host(launch, kind):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((37, 40), (40, 24)))
    c = np.zeros((37, 24), np.float16)
    arrays = [c, a, b]
    if kind == "torch":
        torch = pytest.importorskip("torch")
        arrays = [torch.from_numpy(v) for v in arrays]
    blocks = ([16, 16], [16, 32], [32, 16])
    descriptors = [TensorDescriptor.from_tensor(v, s) for v, s in zip(arrays, blocks, strict=True)]
    launch(host_matmul, (3, 2), *descriptors, 40)
    np.testing.assert_array_equal(c, (a @ b).astype(np.float16))


@differs("Blocks of arrays may be of any size, at any place")
def test_gather_and_scatter_rows(launch):
    x = np.arange(60, dtype=np.float32).reshape(5, 12)
    index = np.array([4, 0, 7, -1, 2, 1, 3, 9], np.int32)
    before, out = x.copy(), np.ones((8, 16), np.float32)
    launch(rows, (1,), out, x, index, 5, 12, R=8, B=16)
    want = np.zeros((8, 16), np.float32)
    for k, r in enumerate(index):
        if 0 <= r < 5:
            want[k, :9] = before[r, 3:]
            before[r, 1:] = want[k, :11] + 100
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(x, before)


def test_atomics_on_blocks(launch):
    x = np.zeros((3, 5), np.int32)
    launch(accumulate, (4,), x, 3, 5, BM=4, BN=8)
    assert (x[:, :2] == 4).all() and (x[:, 2:] >= 3).all() and (x <= 7).all()


@triton.jit
def stored_as_what_is_there(out, x, N: tl.constexpr):
    source = tl.make_block_ptr(x, (N,), (1,), (0,), (N,), (0,))
    target = tl.make_block_ptr(out, (N,), (1,), (0,), (N,), (0,))
    tl.static_assert(source.dtype.element_ty == tl.float32)
    tl.static_assert(target.type.element_ty == target.dtype.element_ty)
    tl.store(target, (tl.load(source) * 2).to(target.dtype.element_ty), boundary_check=(0,))


def test_a_block_pointer_tells_its_element(launch):
    out = np.zeros(8, np.float16)
    launch(stored_as_what_is_there, (1,), out, np.arange(8, dtype=np.float32), 8)
    assert out.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
