"""Blocks of described arrays copied by hardware: on the PTX machine, which lets copies land as late as they may."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import launch_code
from tilewright.ir.ops import Stage
from tilewright.ir.parse import parse_module
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.assemble import find_assembler
from tilewright.targets.nvidia.ptx import Fault, TensorMap
from tilewright.targets.nvidia.ptx.bulk import box_places
from tilewright.targets.nvidia.ptx.tensor_maps import unpack
from tilewright.targets.nvidia.tensor_maps import computed, resolved
from tilewright.testing import ptx_machine
from tilewright.tools.tensor_descriptor import TensorDescriptor

describe = TensorDescriptor.from_tensor
COPY = "cp.async.bulk.tensor"
SEEDS = (0, 1, 2)


def array(*shape, dtype=np.float32, seed=None):
    """An array at a multiple of 64 bytes: zeros, or small numbers."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    made = memory[start:start + size].view(dtype).reshape(shape)
    if seed is not None:
        made[...] = np.random.default_rng(seed).integers(-7, 8, shape)
    return made


def block_of(x, corner, shape, fill=0.0):
    """The block of `x` at `corner`, `fill` outside of it."""
    found = np.full(shape, fill, x.dtype)
    for inside in itertools.product(*map(range, shape)):
        at = tuple(c + i for c, i in zip(corner, inside))
        if all(0 <= a < n for a, n in zip(at, x.shape)):
            found[inside] = x[at]
    return found


def run(kernel, grid, args, constants, seed=0, target=ptx_machine.TARGET):
    return ptx_machine.run(kernel, grid, args, constants, target, seed=seed)


@triton.jit
def added(x, y, out, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    out.store([i, j], x.load([i, j]) + y.load([i, j]))


@triton.jit
def moved(x, out, row, column, BM: tl.constexpr, BN: tl.constexpr):
    out.store([0, 0], x.load([row, column]))


@triton.jit
def placed(x, out, row, column, BM: tl.constexpr, BN: tl.constexpr):
    out.store([row, column], x.load([0, 0]))


@triton.jit
def stepping(x, out, BM: tl.constexpr, BN: tl.constexpr, STEP: tl.constexpr):
    out.store([tl.program_id(0) * STEP, 0], x.load([0, 0]))


@triton.jit
def known(x, out, BM: tl.constexpr, BN: tl.constexpr, STEP: tl.constexpr):
    out.store([0, STEP], x.load([0, 0]))


@triton.jit
def aside(x, out, BM: tl.constexpr, BN: tl.constexpr):
    out.store([0, tl.program_id(0) * BN], x.load([0, 0]))


@triton.jit
def twice(x, out, row, column, BM: tl.constexpr, BN: tl.constexpr, BACK: tl.constexpr):
    v = x.load([0, 0])
    out.store([row, 0], v)
    out.store([0, column], v + 1)
    if BACK:
        x.store([0, 0], out.load([0, 0]))


@triton.jit
def in_a_loop(x, out, n, BM: tl.constexpr, BN: tl.constexpr):
    for i in range(0, n, BM):
        v = x.load([i, 0])
        if i > 20:
            v = v + x.load([i - 7, 3])
        out.store([i, 0], v)


@triton.jit
def branching(x, out, n, BM: tl.constexpr, BN: tl.constexpr):
    v = x.load([0, 0])
    if n > 3:
        v += x.load([8, 0]) + x.load([16, 0])
    else:
        v *= x.load([24, 0])
    out.store([0, 0], v)


@triton.jit
def while_some(x, out, n, BM: tl.constexpr, BN: tl.constexpr):
    i = 0
    total = tl.zeros((BM, BN), tl.float32)
    while i < n:
        total += x.load([i, 0])
        i += BM
    out.store([0, 0], total)


@triton.jit
def in_place(x, n, BM: tl.constexpr, BN: tl.constexpr):
    for i in range(0, n, BM):
        x.store([i + 3, 1], x.load([i, 0]) + 1)


@triton.jit
def read_back(x, out, p, BM: tl.constexpr, BN: tl.constexpr):
    x.store([0, 0], tl.full((BM, BN), 3.0, tl.float32))
    x.store([4, 0], tl.full((BM, BN), 4.0, tl.float32))
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    v = tl.load(p + m[:, None] * BN + n[None, :])
    tl.store(p + m[:, None] * BN + n[None, :], v + 1)
    out.store([0, 0], x.load([0, 0]))


@triton.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    k = 0
    while k < K:
        total = tl.dot(a.load([i, k]), b.load([k, j]), total)
        k += BK
    c.store([i, j], total.to(tl.float16))


@triton.jit
def turned(x, out, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    out.store([j, i], tl.trans(x.load([i, j])))


@triton.jit
def in_three_dimensions(x, out, LAST: tl.constexpr):
    out.store([1, 2, LAST], x.load([-1, 5, -3]))


@triton.jit
def in_one_dimension(x, out, B: tl.constexpr):
    out.store([tl.program_id(0) * B], x.load([tl.program_id(0) * B]))


@triton.jit
def made_in_the_kernel(x, out, M, N, rows, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N * 8], [N * 8, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M + rows, N * 8], [N * 8, 1], [BM, BN])
    target.store([tl.program_id(0) * BM, 0], source.load([tl.program_id(0) * BM, 0]))


@triton.jit
def of_batches(x, out, M, stride, BM: tl.constexpr, BN: tl.constexpr):
    at = x + tl.program_id(0) * stride
    source = tl.make_tensor_descriptor(at, [M, BN], [BN, 1], [BM, BN])
    tl.store(out + tl.program_id(0) * BM * BN + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :],
             source.load([0, 0]))


@pytest.mark.parametrize("seed", SEEDS)
def test_two_loads_wait_once(seed):
    x, y, out = (array(50, 80, seed=k) for k in range(3))
    code = run(added, (4, 3), [describe(v, [16, 32]) for v in (x, y, out)], {"BM": 16, "BN": 32}, seed)
    np.testing.assert_array_equal(out, x + y)
    ptx = code.texts["ptx"]
    assert ptx.count(COPY) == 3 and ptx.count("mbarrier.try_wait") == 1
    assert "ld.global" not in ptx and "st.global" not in ptx
    assert len(code.metadata["tensor_maps"]) == 3


@pytest.mark.parametrize("capability, copies", [(80, False), (89, False), (90, True), (100, True), (120, True)])
def test_which_gpus_have_the_instruction(capability, copies):
    args = [describe(array(50, 80), [16, 32]) for _ in range(3)]
    code = launch_code(added, args, {"BM": 16, "BN": 32}, NvidiaTarget(capability, assemble=False))
    assert (COPY in code.texts["ptx"]) == copies and bool(code.metadata["tensor_maps"]) == copies


def test_it_can_be_turned_off():
    args = [describe(array(50, 80), [16, 32]) for _ in range(3)]
    off = NvidiaTarget(90, assemble=False, tensor_maps=False)
    code = launch_code(added, args, {"BM": 16, "BN": 32}, off)
    assert COPY not in code.texts["ptx"] and "box" not in code.texts["laid-out"]
    assert off.key() != NvidiaTarget(90, assemble=False).key()


@pytest.mark.parametrize("corner", [(0, 0), (-3, 5), (45, 70), (-16, 0), (60, 0), (0, -40), (0, 2**31 - 1), (-2**31, 0),
                                    (2**40, 0), (0, -2**40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64, np.float64])
def test_blocks_over_the_edge(corner, dtype):
    x, out = array(50, 80, dtype=dtype, seed=1), array(32, 64, dtype=dtype, seed=2)
    args = (describe(x, [32, 64]), describe(out, [32, 64]), *corner)
    assert COPY in run(moved, (1,), args, {"BM": 32, "BN": 64}).texts["ptx"]
    np.testing.assert_array_equal(out, block_of(x, corner, (32, 64)))


@pytest.mark.parametrize("corner", [(0, 0), (-3, -5), (1, -1), (-1, 1), (45, 3), (5, 77), (-31, -63), (-32, 0), (0, 80),
                                    (49, 79), (0, 2**31 - 1), (-2**31, 0), (2**40, 0), (0, -2**40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_blocks_stored_at_any_place(corner, dtype):
    """The hardware stores none that starts at a negative place or within 16 bytes of a row."""
    x, out = array(32, 64, dtype=dtype, seed=1), array(50, 80, dtype=dtype)
    code = run(placed, (1,), (describe(x, [32, 64]), describe(out, [32, 64]), *corner), {"BM": 32, "BN": 64})
    assert code.texts["ptx"].count(COPY) == 2 - (corner[1] == 1) and "st.global" in code.texts["ptx"]   # 1: a constant
    wide = np.zeros((50 + 64, 80 + 128), dtype)
    row, column = (min(max(c, -n), e) for c, n, e in zip(corner, (32, 64), out.shape))
    wide[32 + row:64 + row, 64 + column:128 + column] = x
    np.testing.assert_array_equal(out, wide[32:82, 64:144])


@pytest.mark.parametrize("row, column", [(-8, -8), (-3, 3), (0, 0), (0, -8), (8, -8), (-8, 8), (3, -3), (8, 8)])
@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_stores_of_threads_and_of_the_hardware_in_order(row, column, back, seed):
    """Which of them store is seen when it runs; each sees what the other did."""
    x, out = array(16, 64, seed=1), array(16, 64)
    want = np.zeros((16 + 32, 64 + 32), np.float32)
    want[16 + row:32 + row, 16:80] = x
    want[16:32, 16 + column:80 + column] = x + 1
    args = (describe(x, [16, 64]), describe(out, [16, 64]), row, column)
    run(twice, (1,), args, {"BM": 16, "BN": 64, "BACK": back}, seed)
    np.testing.assert_array_equal(out, want[16:32, 16:80])
    if back:
        np.testing.assert_array_equal(x, out)


@pytest.mark.parametrize("kernel, step, threads", [(stepping, 32, False), (stepping, 16, True), (stepping, 48, True),
                                                   (aside, None, False), (known, 4, False), (known, 6, True)])
def test_threads_stand_ready_where_a_block_may_be_cut_in_front(kernel, step, threads):
    """A block that starts at a multiple of its size lies wholly in the array or wholly in front of it."""
    args = (describe(array(64, 64), [32, 64]), describe(array(64, 64), [32, 64]))
    constants = {"BM": 32, "BN": 64} if step is None else {"BM": 32, "BN": 64, "STEP": step}
    code = launch_code(kernel, args, constants, ptx_machine.TARGET)
    assert code.texts["ptx"].count(COPY) == (1 if (kernel, step) == (known, 6) else 2)
    assert ("st.global" in code.texts["ptx"]) == threads


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_padding_with_nan(dtype):
    x, out = array(50, 64, dtype=dtype, seed=1), array(32, 64, dtype=dtype)
    source = TensorDescriptor.from_tensor(x, [32, 64], padding="nan")
    code = run(moved, (1,), (source, describe(out, [32, 64]), 30, -5), {"BM": 32, "BN": 64})
    assert [m["nan"] for m in code.metadata["tensor_maps"]] == [True, False]
    np.testing.assert_array_equal(out, block_of(x, (30, -5), (32, 64), np.nan))


@pytest.mark.parametrize("columns, swizzle", [(16, 32), (32, 64), (64, 128), (128, 0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_every_swizzle(columns, swizzle, seed):
    """A layout in which threads would meet in banks without a swizzle: the accumulator of a product."""
    a, b, c = (array(*s, dtype=np.float16, seed=k) for k, s in enumerate([(64, 32), (32, columns), (64, columns)]))
    args = (describe(a, [64, 32]), describe(b, [32, columns]), describe(c, [64, columns]), 32)
    code = run(product, (1, 1), args, {"BM": 64, "BN": columns, "BK": 32}, seed)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
    assert code.metadata["tensor_maps"][-1]["swizzle"] == swizzle


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loop_and_a_branch(seed):
    x, out = array(50, 64, seed=1), array(50, 64)
    run(in_a_loop, (1,), (describe(x, [8, 64]), describe(out, [8, 64]), 50), {"BM": 8, "BN": 64}, seed)
    want = x.copy()
    for i in range(24, 50, 8):
        want[i:i + 8] += block_of(x, (i - 7, 3), (8, 64))[:len(want[i:i + 8])]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("n", [3, 4])
def test_branches(n):
    x, out = array(50, 64, seed=1), array(8, 64)
    run(branching, (1,), (describe(x, [8, 64]), describe(out, [8, 64]), n), {"BM": 8, "BN": 64}, 1)
    np.testing.assert_array_equal(out, x[:8] + x[8:16] + x[16:24] if n > 3 else x[:8] * x[24:32])


def test_what_is_in_a_loop_stays_with_the_threads():
    args = (describe(array(50, 64), [8, 64]), describe(array(50, 64), [8, 64]), 50)
    assert COPY not in launch_code(in_a_loop, args, {"BM": 8, "BN": 64}, ptx_machine.TARGET).texts["ptx"]


@pytest.mark.parametrize("n", [0, 8, 50])
def test_a_while_loop(n):
    x, out = array(56, 64, seed=1), array(8, 64)
    run(while_some, (1,), (describe(x, [8, 64]), describe(out, [8, 64]), n), {"BM": 8, "BN": 64}, 1)
    np.testing.assert_array_equal(out, x[:-(-n // 8) * 8].reshape(-1, 8, 64).sum(0))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_sees_its_own_stores(seed):
    x = array(50, 64, seed=1)
    want = x.copy()
    run(in_place, (1,), (describe(x, [8, 64]), 50), {"BM": 8, "BN": 64}, seed)
    for i in range(0, 50, 8):
        block = block_of(want, (i, 0), (8, 64)) + 1
        want[i + 3:i + 11, 1:] = block[:len(want[i + 3:i + 11]), :-1]
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_sees_its_own_stores_through_pointers(seed):
    x, out = array(16, 64), array(8, 64)
    args = (describe(x, [8, 64]), describe(out, [8, 64]), x)
    code = run(read_back, (1,), args, {"BM": 8, "BN": 64}, seed)
    assert code.texts["laid-out"].count("shared = true, again = true") == 3
    assert code.texts["laid-out"].count("everywhere = true") == 1
    want = np.where(np.arange(8)[:, None] < 4, 4.0, 5.0) * np.ones((8, 64))
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(x[:8], want)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_product_of_blocks(seed):
    a, b, c = (array(*s, dtype=np.float16, seed=k) for k, s in enumerate([(64, 96), (96, 80), (64, 80)]))
    args = (describe(a, [32, 32]), describe(b, [32, 64]), describe(c, [32, 64]), 96)
    code = run(product, (2, 2), args, {"BM": 32, "BN": 64, "BK": 32}, seed)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
    assert code.texts["laid-out"].count("box_store") == 1


def test_a_conversion_between_load_and_store():
    x, out = array(80, 64, dtype=np.float16, seed=1), array(64, 80, dtype=np.float16)
    run(turned, (3, 1), (describe(x, [32, 64]), describe(out, [64, 32])), {"BM": 32, "BN": 64})
    np.testing.assert_array_equal(out, x.T)


def test_other_numbers_of_dimensions():
    x = array(4, 20, 32, seed=1)
    block = block_of(x, (-1, 5, -3), (2, 16, 16))
    for last, copies in ((4, 2), (-4, 1)):      # the hardware stores no block that starts at a negative place
        out, want = array(4, 20, 32), array(4, 20, 32)
        code = run(in_three_dimensions, (1,), (describe(x, [2, 16, 16]), describe(out, [2, 16, 16])), {"LAST": last})
        assert code.texts["ptx"].count(COPY + ".3d") == copies
        want[1:3, 2:18, max(last, 0):last + 16] = block[:, :, max(-last, 0):]
        np.testing.assert_array_equal(out, want)
    line, copied = array(1008, seed=2), array(1008)
    code = run(in_one_dimension, (4,), (describe(line, [256]), describe(copied, [256])), {"B": 256})
    assert code.texts["ptx"].count(COPY + ".1d") == 2
    np.testing.assert_array_equal(copied, line)


def test_descriptors_made_in_the_kernel_from_its_arguments():
    x, out = array(50, 64, seed=1), array(52, 64)
    args = (x, out, 50, 8, 2)
    code = run(made_in_the_kernel, (2,), args, {"BM": 32, "BN": 64})
    np.testing.assert_array_equal(out[:50], x)
    assert code.texts["ptx"].count(COPY) == 2
    assert [computed(e, [0, 0, 50, 8, 2]) for e in code.metadata["tensor_maps"][1]["sizes"]] == [52, 64]


@pytest.mark.parametrize("kernel, args, constants", [
    (of_batches, (array(3, 50, 64, seed=1), array(3, 32, 64), 50, 50 * 64), {"BM": 32, "BN": 64}),
    (in_one_dimension, (describe(array(100), [32]), describe(array(100), [32])), {"B": 32}),
    (in_one_dimension, (describe(array(1000), [192]), describe(array(1000), [192])), {"B": 192}),
    (in_one_dimension, (describe(array(1000), [512]), describe(array(1000), [512])), {"B": 512}),
    (moved, (describe(array(50, 50), [32, 64]), describe(array(32, 66), [32, 64]), 0, 0), {"BM": 32, "BN": 64}),
    (moved, (describe(array(50, 64)[:, 1:], [32, 64]), describe(array(40, 72)[:, 1:], [32, 64]), 0, 0),
     {"BM": 32, "BN": 64}),
    (moved, (describe(array(300, 4), [256, 2]), describe(array(300, 4), [256, 2]), 0, 0), {"BM": 256, "BN": 2}),
], ids=["base of a program", "few bytes", "no power of two", "large box", "strides", "base", "narrow rows"])
def test_what_has_no_map_is_moved_by_threads(kernel, args, constants):
    code = launch_code(kernel, args, constants, ptx_machine.TARGET)
    assert COPY not in code.texts["ptx"] and "box" not in code.texts["laid-out"]
    run(kernel, (3,), args, constants)


def test_a_row_that_is_written_ends_at_a_multiple_of_16_bytes():
    """The hardware writes all of the last 16 bytes, so a row's size must be known to be such a multiple."""
    x, out = array(50, 64, seed=1), array(50, 64, seed=2)
    want = out.copy()
    want[:32, :61] = x[:32, :61]
    code = run(cut, (1,), (x, out, 61), {"BM": 32, "BN": 64})
    assert code.texts["laid-out"].count("box_copy") == 1 and "box_store" not in code.texts["laid-out"]
    np.testing.assert_array_equal(out, want)
    described = {"base": 0, "element": "f32", "sizes": [50, 61], "strides": [64], "box": [32, 64], "swizzle": 0}
    told = machine_map(array(50, 64), resolved({**described, "nan": False}, [4096]))
    assert list(inside_columns(told, written=False)) == [*range(61)]
    assert list(inside_columns(told, written=True)) == [*range(64)]


def machine_map(memory, numbers):
    made = TensorMap(memory, numbers.box, numbers.swizzle, 2, False, numbers.sizes, (*numbers.strides, 4))
    return unpack(made.packed(4096))


def inside_columns(fields, written):
    _, address, inside = box_places(fields, [0, 0], 0, written)
    return np.unique((address[inside] - 4096) % 256 // 4)


@triton.jit
def cut(x, out, columns, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [50, columns], [64, 1], [BM, BN])
    tl.make_tensor_descriptor(out, [50, columns], [64, 1], [BM, BN]).store([0, 0], source.load([0, 0]))


@pytest.mark.parametrize("numbers", [(0, 64, 64), (50, 0, 64), (50, 64, 0), (1, 64, -64), (50, -1, 64)])
def test_numbers_that_no_map_has_are_found_at_the_launch(numbers):
    x, out = array(50, 64, seed=1), array(32, 64, seed=2)
    rows, columns, stride = numbers
    code = run(of_numbers, (1,), (x, describe(out, [32, 64]), rows, columns, stride), {"BM": 32, "BN": 64})
    assert COPY not in code.texts["ptx"]
    want = np.zeros((32, 64), np.float32)
    for i in range(min(32, rows)):
        want[i, :max(columns, 0)] = x[i * stride // 64, :max(columns, 0)]
    np.testing.assert_array_equal(out, want)


@triton.jit
def of_numbers(x, out, rows, columns, stride, BM: tl.constexpr, BN: tl.constexpr):
    out.store([0, 0], tl.make_tensor_descriptor(x, [rows, columns], [stride, 1], [BM, BN]).load([0, 0]))


def test_numbers_are_computed_as_the_kernel_does():
    wrapped = ["mul", 32, ["param", 0, 32], ["param", 1, 32]]
    assert computed(wrapped, [1 << 20, 1 << 12]) == 0
    assert computed(["ext_s", 64, ["param", 0, 32]], [(1 << 64) - 5]) == -5
    assert computed(["ext_u", 32, ["param", 0, 32]], [(1 << 64) - 5]) == (1 << 32) - 5
    assert computed(["sub", 64, ["add", 64, ["param", 0, 64], 7], ["param", 0, 64]], [99]) == 7
    assert computed(["trunc", 8, 257], []) == 1


def test_what_a_map_may_be():
    described = {"base": 0, "element": "f16", "sizes": [["param", 1, 32], 64], "strides": [["param", 2, 32]],
                 "box": [16, 64], "swizzle": 128, "nan": False}
    found = resolved(described, [4096, 50, 72])
    assert found is not None and (found.sizes, found.strides, found.data_type) == ((50, 64), (144,), "UINT16")
    assert found._replace(nan=True).data_type == "FLOAT16"
    for slots in ((4104, 50, 72), (4096, 0, 72), (4096, 50, 68), (4096, 50, 0), (4096, 50, -72), (4096, 2**31 - 1, 72)):
        assert resolved(described, slots) is None


def test_what_comes_out_is_verified_and_printed():
    x, out = describe(array(50, 64), [8, 64]), describe(array(50, 64), [8, 64])
    text = launch_code(branching, (x, out, 3), {"BM": 8, "BN": 64}, ptx_machine.TARGET).texts["laid-out"]
    module = parse_module(text)
    verify(module, Stage.LAID_OUT)
    assert print_module(module) == text and text.count("mbarrier_wait") == 3


@pytest.mark.skipif(find_assembler() is None, reason="no assembler on this machine")
@pytest.mark.parametrize("capability", [90, 100, 120])
@pytest.mark.parametrize("kernel, shapes, rest, constants", [
    (added, [[16, 32]] * 3, (), {"BM": 16, "BN": 32}),
    (in_a_loop, [[8, 64]] * 2, (50,), {"BM": 8, "BN": 64}),
    (product, [[32, 32], [32, 64], [32, 64]], (96,), {"BM": 32, "BN": 64, "BK": 32}),
], ids=["added", "in_a_loop", "product"])
def test_assemblers_take_it(kernel, shapes, rest, constants, capability):
    dtype = np.float16 if kernel is product else np.float32
    args = [*(describe(array(96, 128, dtype=dtype), s) for s in shapes), *rest]
    code = launch_code(kernel, args, constants, NvidiaTarget(capability))
    assert code.metadata["binary"] == "cubin" and code.metadata["advisories"] == []
    assert code.metadata["spill_bytes"] == code.metadata["local_bytes"] == 0


@pytest.mark.parametrize("line, put, message", [
    (r"fence\.proxy\.async\.shared::cta;\n(?=(?:.*\n)?\s*bar\.sync\s+0;\n(?:.*\n){1,9}.*bulk_group)", "",
     "proxy fence"),
    (r"@%p\d+ bra(\s+\$exit\d+;)", r"bra.uni\1", "never written"),
    (r"bar\.sync\s+0;\n(?=(?:.*\n)*.*st\.shared)", "", "race|has not|no mbarrier"),
    (r"@%p\d+ cp\.async\.bulk\.wait_group\.read 0;", "", "still reads its shared memory"),
    (r"mbarrier\.expect_tx(.*), %r\d+;", r"mbarrier.expect_tx\1, 16;", "deadlock|in flight|bytes"),
    (r"(bulk\.tensor\.2d\.shared.*), \[(%r\d+)\];", r"\1, [\2+64];", "no mbarrier"),
], ids=["fence", "wait", "barrier", "wait for the store", "bytes", "mbarrier"])
def test_the_machine_finds_faults_that_are_planted(line, put, message):
    args = [describe(array(50, 80), [16, 32]) for _ in range(3)]
    with pytest.raises(Fault, match=message):
        launch_changed(added, args, {"BM": 16, "BN": 32}, (line, put))


@pytest.mark.parametrize("put", [r"sub.s32 \1, \2, 4;", r"add.s32 \1, \2, 2;"], ids=["negative", "within 16 bytes"])
def test_the_machine_stores_no_block_at_such_a_place(put):
    args = [describe(array(64, 64), [64, 32]), describe(array(64, 64), [64, 32])]
    start, guard = r"shl\.b32\s+(%r\d+), (%r\d+), 5;", r"and\.pred\s+(%p\d+), (%p\d+), %p\d+;"
    if "sub" in put:        # what LLVM knows of multiples it does not test
        launch_changed(aside, args, {"BM": 64, "BN": 32}, (start, put))
        assert not args[1].base.any()
    with pytest.raises(Fault, match="negative, or within"):
        launch_changed(aside, args, {"BM": 64, "BN": 32}, (start, put), (guard, r"mov.pred \1, \2;"))


def launch_changed(kernel, args, constants, *changes):
    """Launch one program with patterns of its PTX replaced."""
    code = launch_code(kernel, args, constants, ptx_machine.TARGET)
    changed = code.texts["ptx"]
    for line, put in changes:
        changed, count = re.subn(line, put, changed)
        assert count
    slots = kernel.specializer.split(kernel.bind(args, constants)[0])
    arguments = [dict(slots.pointers)[k] if k in dict(slots.pointers) else v for k, v in enumerate(slots.slots)]
    arguments = [ptx_machine._pointer(a) if not isinstance(a, int) else a for a in arguments]
    ptx_machine.launch(replace(code, texts={**code.texts, "ptx": changed}), (1, 1, 1), arguments, seed=1)


@triton.jit
def many(x, out, n, BM: tl.constexpr, BN: tl.constexpr):
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.static_range(40):
        rows = tl.make_tensor_descriptor(x, [n + k, 64], [64, 1], [BM, BN])
        total += rows.load([k, 0])
    tl.make_tensor_descriptor(out, [n, 64], [64, 1], [BM, BN]).store([0, 0], total)


def test_no_more_maps_than_parameters_have_room_for():
    code = launch_code(many, (array(90, 64), array(50, 64), 50), {"BM": 8, "BN": 64}, ptx_machine.TARGET)
    assert 20 < len(code.metadata["tensor_maps"]) <= 31


@triton.jit
def asserting(x, out, rows, BM: tl.constexpr, BN: tl.constexpr):
    block = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [BM, BN]).load([0, 0])
    tl.device_assert(rows > 1, "too few")
    tl.make_tensor_descriptor(out, [50, 64], [64, 1], [BM, BN]).store([0, 0], block)


@pytest.mark.parametrize("rows", [1, 0])
def test_the_kernel_without_maps_knows_the_lines(rows):
    args, constants = (array(50, 64), array(50, 64), rows), {"BM": 8, "BN": 64, "debug": True}
    with pytest.raises(triton.KernelAssertionError, match="too few") as caught:
        run(asserting, (1,), args, constants)
    assert 'tl.device_assert(rows > 1, "too few")' in str(caught.value)
