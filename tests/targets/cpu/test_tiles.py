"""Products of tiles (AMX): all shapes, rounds of a K loop, and who configures and releases the registers.

What needs the instructions is skipped where they are missing; the text is made, and compiled, everywhere.
"""

import ctypes
import mmap

import numpy as np
import pytest

from tests.targets.cpu.harness import (
    BF16,
    F32,
    I8,
    I32,
    Options,
    both,
    generate,
    kernel,
    ptr,
    run_oracle,
    target,
    words,
)
from tests.targets.cpu.test_dot import product, tile_at
from tests.targets.cpu.test_panels import Context, entry_of
from tilewright.diagnostics import MemoryFaultError
from tilewright.ir import fp
from tilewright.passes.manager import run_passes
from tilewright.targets.cpu.host.choice import best_kind
from tilewright.targets.cpu.machines import NAMED
from tilewright.targets.cpu.schemes import choose
from tilewright.targets.llvm.machine import ASSEMBLY, Machine, Request
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.toolchain import Loader, compile_object, compile_request
from tilewright.targets.llvm.types import PTR

MACHINE = Machine("x86_64-unknown-linux-gnu", "sapphirerapids",
                  NAMED["avx512"][1] + ",+avx512bf16,+avx512vnni,+amx-tile,+amx-bf16,+amx-int8")
needs_tiles = pytest.mark.skipif(not target().machine.isa.tiles, reason="no AMX here, or Linux does not grant it")


def text_of(module, optimise=True):
    """For a machine with the instructions, whatever this one has."""
    if optimise:
        module = run_passes(module, target().passes(Options()))
    return generate(module, MACHINE.isa, 512)


def listing(module):
    """The instructions on tiles, in order."""
    lines = compile_request(Request(text_of(module).text, MACHINE, ASSEMBLY)).decode().splitlines()
    opcodes = [line.split()[0] for line in lines if line.startswith("\t") and line.strip()]
    return [o for o in opcodes if o.startswith(("tile", "tdp", "ldtile", "sttile"))]


def numbers(rng, shape, t):
    """Whole ones, so that every sum is exact."""
    if t == I8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    if t == I32:
        return rng.integers(-10**9, 10**9, shape).astype(np.int32)
    return np.ascontiguousarray(fp.encode(rng.integers(-8, 9, shape).astype(np.float64), t))


def shape_for(m, n, k, t, acc):
    (dot,) = (op for op in product(m, n, k, t, acc).entry.body.ops if op.name == "dot")
    return choose(MACHINE.isa, dot).tiles


# --- one product

TYPES = [(BF16, F32), (I8, I32)]


@needs_tiles
@pytest.mark.parametrize("t,acc", TYPES)
@pytest.mark.parametrize("m,n,k", [(16, 16, 64), (64, 64, 64), (16, 64, 64), (64, 16, 128), (48, 48, 192), (24, 80, 96),
                                   (12, 112, 128), (80, 48, 64), (4, 32, 64), (33, 16, 320), (112, 176, 36)])
def test_shapes(m, n, k, t, acc):
    assert shape_for(m, n, k, t, acc) is not None
    rng = np.random.default_rng(0)
    both(product(m, n, k, t, acc), (1,), [numbers(rng, (m, k), t), numbers(rng, (k, n), t), numbers(rng, (m, n), acc)])


def test_the_choice_of_tiles():
    assert shape_for(64, 64, 32, BF16, F32) == (16, 64) and shape_for(64, 64, 64, I8, I32) == (16, 64)
    assert shape_for(24, 16, 48, BF16, F32) == (12, 48) and shape_for(16, 16, 16, BF16, F32) == (16, 32)
    for shape in ((64, 24, 64), (3, 64, 64), (64, 64, 33), (64, 64, 2), (17, 64, 64)):
        assert shape_for(*shape, BF16, F32) is None


@needs_tiles
def test_bytes_are_signed_and_wrap_in_32_bits_only():
    x, y = np.full((16, 64), -128, np.int8), np.full((64, 16), -128, np.int8)
    y[:, ::2] = 127
    both(product(16, 16, 64, I8, I32), (1,), [x, y, np.full((16, 16), 2**31 - 5, np.int32)])


@needs_tiles
def test_what_is_no_number_stays_none():
    x, y = np.ones((16, 32)), np.ones((32, 16))
    x[3, 5], x[4, 6], y[7, 2] = np.nan, np.inf, -np.inf
    args = [np.ascontiguousarray(fp.encode(v, BF16)) for v in (x, y)]
    both(product(16, 16, 32, BF16, F32), (1,), [*args, np.ones((16, 16), np.float32)])


@needs_tiles
@pytest.mark.parametrize("t,acc", TYPES)
def test_batches(t, acc):
    m, n, k = 16, 32, 64
    def body(b, x, y, o):
        def tile(p, r, c):
            return b.op("reshape", b.at(p, b.iota(2 * r * c)), shape=(2, r, c))
        where = tile(o, m, n)
        b.store(where, b.op("dot", b.load(tile(x, m, k)), b.load(tile(y, k, n)), b.load(where)))
    rng = np.random.default_rng(1)
    both(kernel([("x", ptr(t)), ("y", ptr(t)), ("o", ptr(acc))], body), (1,),
         [numbers(rng, (2, m, k), t), numbers(rng, (2, k, n), t), numbers(rng, (2, m, n), acc)])


# --- a K loop

M, N, K = 32, 48, 64


def k_loop(t, acc, masked=False, looks=False, written=False, twice=False, disjoint=True):
    """Tiles of M x N of x @ y; rows and columns are whole, the depth is not if `masked`.

    `looks`: something else in the loop needs the sums.  `written`: the loop writes into `x`, where it has been read.
    `twice`: the right tile is added to itself, so it is computed.
    """
    def body(b, x, y, o, depth, sx, sy, so):
        i, j, kk = b.add(b.mul(b.pid(0), M), b.iota(M)), b.add(b.mul(b.pid(1), N), b.iota(N)), b.iota(K)
        def step(at, total):
            k = b.add(at, kk)
            pa, pb = (b.at(p, b.add(b.mul(b.col(r), s), b.row(c))) for p, r, s, c in ((x, i, sx, k), (y, k, sy, j)))
            inside = b.binary("cmp_lt_s", k, depth)
            left = b.load(pa, b.like(b.row(inside), pa) if masked else None)
            right = b.load(pb, b.like(b.col(inside), pb) if masked else None)
            if twice:
                right = b.add(right, right)
            made = b.op("dot", left, right, total)
            if looks:
                b.store(b.at(o, b.add(b.mul(b.col(i), so), b.row(j))), made)
            if written:
                b.store(b.at(x, b.add(b.mul(i, sx), at)), b.const(1.0 if t.is_float else 1, t, (M,)))
            return [made]
        (total,) = b.for_(0, depth, K, [b.const(0.0 if acc.is_float else 0, acc, (M, N))], step)
        b.store(b.at(o, b.add(b.mul(b.col(i), so), b.row(j))), total)
    return kernel([("x", ptr(t)), ("y", ptr(t)), ("o", ptr(acc)), *((s, I32) for s in ("depth", "sx", "sy", "so"))],
                  body, disjoint)


def k_arguments(t, acc, depth, rows=1, columns=1, stride=0, shift=0, seed=0):
    """`x` has rows of `stride` elements and begins `shift` elements behind a line of the cache."""
    rng = np.random.default_rng(seed)
    stride = stride or depth
    room = np.zeros(rows * M * stride + shift + 64, np.uint16 if t == BF16 else np.int8)
    first = (-room.ctypes.data % 64) // room.itemsize + shift
    x = room[first:first + rows * M * stride].reshape(rows * M, stride)
    x[...] = numbers(rng, x.shape, t)
    y = numbers(rng, (depth, columns * N), t)
    o = np.zeros((rows * M, columns * N), np.float32 if acc.is_float else np.int32)
    return [x, y, o, depth, stride, columns * N, columns * N]


def rounds_in(module):
    """Whether steps wait for each other: a step's left matrix is then noted, and found by a multiplication."""
    return any(line.strip().startswith("store ptr ") for line in text_of(module).text.splitlines())


def compare(module, grid, args):
    """As `both`, with operands where they are."""
    expected = [v.copy() if isinstance(v, np.ndarray) else v for v in args]
    run_oracle(module, grid, expected)
    for optimise in (True, False):
        done = run_passes(module, target().passes(Options())) if optimise else module
        args[2][...] = 0
        target().load(target().compile(done, Options())).launch((*grid, 1, 1)[:3], words(args, done.entry.params))
        np.testing.assert_array_equal(args[2], expected[2])


@needs_tiles
@pytest.mark.parametrize("t,acc", TYPES)
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 8, 9, 15, 16, 17, 33])
def test_rounds_of_any_number_of_steps(t, acc, steps):
    assert rounds_in(k_loop(t, acc))
    compare(k_loop(t, acc), (2, 3), k_arguments(t, acc, steps * K, 2, 3, stride=max(steps, 1) * K))


@needs_tiles
@pytest.mark.parametrize("t,acc", TYPES)
@pytest.mark.parametrize("stride,shift", [(700, 0), (704, 0), (704, 32), (704, 1), (701, 3)])
def test_masked_steps_and_rows_across_lines_of_the_cache(t, acc, stride, shift):
    assert rounds_in(k_loop(t, acc, masked=True))
    compare(k_loop(t, acc, masked=True), (3, 2), k_arguments(t, acc, 650, 3, 2, stride, shift))


@needs_tiles
@pytest.mark.parametrize("t,acc", TYPES)
def test_more_steps_than_slots_of_the_panel(t, acc):
    """As many as fit, less than a round's: the last ones share the slots of a round."""
    compare(k_loop(t, acc), (4, 1), k_arguments(t, acc, 150 * K, 4, 1))


@needs_tiles
@pytest.mark.parametrize("options", [{"looks": True}, {"written": True}, {"disjoint": False}])
def test_steps_that_have_to_multiply_at_once(options):
    module = k_loop(BF16, F32, **options)
    assert not rounds_in(module)
    if options.get("disjoint", True):
        args = k_arguments(BF16, F32, 9 * K, 1, 1)
        both(module, (1,), args)


@needs_tiles
def test_a_right_operand_that_is_computed():
    compare(k_loop(I8, I32, twice=True), (2, 1), k_arguments(I8, I32, 11 * K, 2, 1))


@needs_tiles
def test_sums_that_do_not_start_at_zero():
    def body(b, x, y, o, steps):
        where = tile_at(b, o, M, N)
        (total,) = b.for_(0, steps, 1, [b.load(where)], lambda i, total: [
            b.op("dot", b.load(tile_at(b, b.at(x, b.mul(i, M * K)), M, K)),
                 b.load(tile_at(b, b.at(y, b.mul(i, K * N)), K, N)), total)])
        b.store(where, total)
    rng = np.random.default_rng(3)
    module = kernel([("x", ptr(I8)), ("y", ptr(I8)), ("o", ptr(I32)), ("steps", I32)], body)
    assert rounds_in(module)
    for steps in (0, 3, 16, 21):
        both(module, (1,), [numbers(rng, (22, M, K), I8), numbers(rng, (22, K, N), I8), numbers(rng, (M, N), I32),
                            steps])


# --- the registers


def chained(depths=(64, 64)):
    """o = (x @ y) @ z in bytes, the product in between cut to bytes: two shapes of tiles if the depths differ."""
    first, second = depths
    def body(b, x, y, z, o):
        inner = b.op("dot", b.load(tile_at(b, x, 16, first)), b.load(tile_at(b, y, first, second)),
                     b.const(0, I32, (16, second)))
        cut = b.op("trunc", inner, to=I8)
        b.store(tile_at(b, o, 16, 32), b.op("dot", cut, b.load(tile_at(b, z, second, 32)), b.const(0, I32, (16, 32))))
    return kernel([*((s, ptr(I8)) for s in "xyz"), ("o", ptr(I32))], body)


def chained_arguments(first, second):
    rng = np.random.default_rng(4)
    return [numbers(rng, s, I8) for s in ((16, first), (first, second), (second, 32))] + [np.zeros((16, 32), np.int32)]


def test_they_are_configured_once_where_all_tiles_are_alike():
    made = listing(chained())
    assert made.count("ldtilecfg") == 1 and "sttilecfg" not in made and made.count("tilerelease") == 1
    made = listing(chained((64, 32)))
    assert made.count("sttilecfg") == 2 and made.count("tilerelease") == 1


def test_their_instructions():
    made = listing(product(64, 64, 32, BF16, F32))
    assert made.count("tdpbf16ps") == 4 and made.count("tileloadd") == 8 and made.count("tilestored") == 4
    made = listing(product(32, 32, 128, I8, I32))
    assert made.count("tdpbssd") == 8 and made.count("tilestored") == 4


def test_registers_are_loaded_for_the_next_step_between_the_products():
    """Each one as soon as it has been read for the last time; operands with more tiles than registers as well."""
    def steps(*sizes):
        made = listing(product(*sizes, BF16, F32))
        start, stop = made.index("tdpbf16ps"), made.index("tilestored")
        return "".join("p" if o == "tdpbf16ps" else "l" for o in made[start:stop])

    assert steps(32, 32, 64) == "pplplpll" + "pppp"
    assert steps(16, 64, 64) == "plplplpll" + "plplpp"
    assert steps(64, 16, 64) == "plplplpll" + "plplpp"
    assert steps(16, 16, 128) == "pll" * 3 + "p"


def test_a_kernel_without_them_has_no_use_for_the_registers():
    made = text_of(product(64, 64, 32, F32, F32))
    assert not made.metadata["tiles"] and "tilerelease" not in made.text


@needs_tiles
@pytest.mark.parametrize("depths", [(64, 64), (64, 32), (128, 16)])
def test_products_of_several_shapes(depths):
    both(chained(depths), (1,), chained_arguments(*depths))


def configuration():
    """What the registers of this thread are configured for: nothing but zeros if they are released."""
    if not hasattr(configuration, "loaded"):
        writer = ModuleWriter(target().machine.isa)
        f = writer.function("look", [("to", PTR)])
        f.do("call void @llvm.x86.sttilecfg(ptr %to)")
        f.ret()
        text = writer.text() + "declare void @llvm.x86.sttilecfg(ptr)\n"
        configuration.loader = Loader()
        configuration.loaded = configuration.loader.load(compile_object(text, target().machine).binary, "look")
    out = np.zeros(64, np.uint8)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(configuration.loaded.address)(out.ctypes.data)
    return out.tolist()


@needs_tiles
def test_a_launch_releases_them():
    both(product(16, 16, 64, I8, I32), (1,), chained_arguments(64, 16)[:2] + [np.zeros((16, 16), np.int32)])
    assert configuration() == [0] * 64


@needs_tiles
@pytest.mark.skipif(best_kind() != "linux", reason="the Linux host")
def test_a_fault_releases_them():
    """The second step reads a page that may not be read, after the first one has multiplied."""
    module = run_passes(k_loop(BF16, F32, looks=True), target().passes(Options(check_bounds=False)))
    args = k_arguments(BF16, F32, 2 * K)
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    code = target().compile(module, Options(check_bounds=False))
    slots = words(args, module.entry.params)
    slots[0] = start + page - K * 2
    slots[4] = 0                        # all rows are the same one
    with pytest.raises(MemoryFaultError):
        target().load(code).launch((1, 1, 1), slots)
    assert configuration() == [0] * 64
    assert np.any(args[2] == 0)         # that step was stored
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 3) == 0


@needs_tiles
def test_what_the_host_does_meanwhile_may_use_them():
    """A loop that polls; what it calls runs another kernel, with tiles of another shape."""
    module, loaded = entry_of(k_loop(I8, I32, looks=True))
    other, other_loaded = entry_of(product(8, 16, 32, I8, I32))
    depth = 5000 * K
    def shared(shape):
        return np.broadcast_to(numbers(np.random.default_rng(5), (shape[0], 1), I8), shape)
    x, y = np.ascontiguousarray(shared((M, depth))), np.ones((depth, N), np.int8)
    args = [x, y, np.zeros((M, N), np.int32), depth, depth, N, N]
    theirs = [np.ones((8, 32), np.int8), np.ones((32, 16), np.int8), np.zeros((8, 16), np.int32)]
    calls = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def poll(context):
        theirs[2][...] = 0
        other_loaded.launch((1, 1, 1), words(theirs, other.entry.params))
        calls.append(theirs[2].min())

    context = Context(module, loaded, args, (1,))
    context.words[7] = ctypes.cast(poll, ctypes.c_void_p).value
    context.run(0, 1)
    assert len(calls) > 1 and set(calls) == {32}
    np.testing.assert_array_equal(args[2], x[:, :1].astype(np.int32) * depth * np.ones((1, N), np.int32))
