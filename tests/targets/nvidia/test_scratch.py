"""What ops take of shared memory is known before code is generated, and is what the code takes."""

from dataclasses import replace

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.nvidia.harness import launch_code
from tests.targets.nvidia.test_persist import softmax
from tilewright.ir.node import Op
from tilewright.ir.ops import TABLE
from tilewright.targets.nvidia import NvidiaTarget, allocation, ptx, scratch
from tilewright.targets.nvidia.generate import HANDLERS
from tilewright.targets.nvidia.shared import Need, Stack
from tilewright.testing import ptx_machine


@triton.jit
def add_and_count(a, n, b, m):
    return a + b, n + m


@triton.jit
def keep_last(a, b):
    return b


@triton.jit
def kernel(x, y, out, counter, n, M: tl.constexpr, N: tl.constexpr, WHAT: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    tile = tl.load(x + at)
    if WHAT == "convert":
        tl.store(out + i[None, :] + j[:, None] * M, tl.trans(tile))
    elif WHAT == "sum":
        tl.store(out + i, tl.sum(tile, 1))
        tl.store(out + j, tl.sum(tile, 0))
    elif WHAT == "argmax":
        tl.store(out + j, tl.argmax(tile, 0))
    elif WHAT == "several":
        total, count = tl.reduce((tile, (tile > 0).to(tl.int8)), 0, add_and_count)
        tl.store(out + j, total + count)
    elif WHAT == "last":
        tl.store(out + j, tl.reduce(tile, 0, keep_last))
    elif WHAT == "cumsum":
        tl.store(out + at, tl.cumsum(tile, 0))
        tl.store(out + at, tl.cumsum(tile, 1))
    elif WHAT == "sort":
        tl.store(out + at, tl.sort(tile))
    elif WHAT == "gather":
        tl.store(out + at, tl.gather(tile, tl.load(y + at), 0))
    elif WHAT == "cat":
        tl.store(out + tl.arange(0, 2 * N), tl.cat(tl.load(x + j), tl.load(y + j), can_reorder=False))
    elif WHAT == "histogram":
        tl.store(out + tl.arange(0, 128), tl.histogram(tl.load(y + j), 128))
    elif WHAT == "reshape":
        tl.store(out + tl.arange(0, M * N), tl.reshape(tile, (M * N,)))
    elif WHAT == "atomics":
        old = tl.atomic_add(out + i[:, None] + j[None, :] * 0, 1)
        tl.store(out + at, old + tl.atomic_add(counter, 1))
    elif WHAT == "scalar":
        for _ in range(n):
            tl.atomic_add(counter, 1)
            tile += tl.load(counter)
        tl.store(out + at, tile)
    elif WHAT == "debug":
        tl.device_assert(tile > -1000, "small")
        tl.device_print("sum", tl.sum(tl.sum(tile, 0), 0))
    elif WHAT == "chain":
        a = tl.sum(tile, 0)
        b = tl.trans(tile) + a[:, None]
        if n > 1:
            b += tl.max(b, 1)[:, None]
        for _ in range(n):
            b += tl.cumsum(tl.min(b, 0), 0)[None, :]
        tl.store(out + i[None, :] + j[:, None] * M, b)


@triton.jit
def products(x, y, out, D: tl.constexpr, N: tl.constexpr, S: tl.constexpr, P: tl.constexpr):
    """Of whole operands, or in a pipelined loop; the second one of what the first has made."""
    i, j = tl.arange(0, N), tl.arange(0, D)
    total = tl.zeros((N, N), tl.float32)
    for k in tl.range(0, 4 * D, D, num_stages=S):
        a = tl.load(x + i[:, None] * 4 * D + k + j[None, :])
        b = tl.load(y + (k + j)[:, None] * N + i[None, :])
        total = tl.dot(a, b, total, input_precision=P)
    made = total.to(x.dtype.element_ty)
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(tl.trans(made), made, input_precision=P))


@triton.jit
def described(x, out, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, N], [N, 1], [M, N])
    b = tl.make_tensor_descriptor(out, [N, M], [M, 1], [N, M])
    b.store([0, 0], tl.trans(a.load([0, 0])))


WHATS = ("convert", "sum", "argmax", "several", "last", "cumsum", "gather", "cat", "histogram",
         "atomics", "scalar", "debug", "chain")
TARGETS = {name: NvidiaTarget(name, assemble=False) for name in (80, "90a")}


def integers(shape, low=0, high=16, dtype=np.int32):
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


def of_ops(what, dtype=np.int32, shape=(32, 64)):
    size = 4 * shape[0] * shape[1]
    args = (integers(size, dtype=dtype), integers(size, high=shape[0]), np.zeros(size, dtype), np.zeros(1, np.int32), 2)
    return kernel, args, {"M": shape[0], "N": shape[1], "WHAT": what}


def of_products(dtype, precision, stages, size, depth):
    x, y = integers((size, 4 * depth), dtype=dtype), integers((4 * depth, size), dtype=dtype)
    return products, (x, y, np.zeros((size, size), np.float32)), {"D": depth, "N": size, "S": stages, "P": precision}


def of_boxes(dtype=np.float32):
    return described, (integers((64, 32), dtype=dtype), np.zeros((32, 64), dtype)), {"M": 64, "N": 32}


def of_rows(columns=1 << 15):
    """Blocks run several programs."""
    x = integers((1, columns), dtype=np.float16)
    return softmax, (x, x.copy(), columns, columns), {"N": columns, "num_warps": 32}


CASES = {**{what: of_ops(what) for what in WHATS}, "sort": of_ops("sort", shape=(2, 512)),
         "sum of bytes": of_ops("sum", np.int8), "cumsum of f64": of_ops("cumsum", np.float64),
         "padded reshape": of_ops("reshape", shape=(3, 20)), "padded sum": of_ops("sum", shape=(20, 37)),
         "padded several": of_ops("several", shape=(20, 37)), "padded last": of_ops("last", shape=(20, 37)),
         "padded sort": of_ops("sort", shape=(1, 400)), "padded cumsum": of_ops("cumsum", shape=(20, 37)),
         "products of f16": of_products(np.float16, "tf32", 1, 64, 32),
         "pipelined products of f16": of_products(np.float16, "tf32", 3, 64, 64),
         "products of tf32": of_products(np.float32, "tf32", 2, 32, 32),
         "products of f32": of_products(np.float32, "ieee", 2, 16, 16), "boxes": of_boxes(),
         "programs in a loop": of_rows()}


def touched(code, args, size):
    """Run the code with `size` bytes of shared memory."""
    smaller = replace(code, metadata={**code.metadata, "shared": size})
    ptx_machine.launch(smaller, (1, 1, 1), [a.copy() if isinstance(a, np.ndarray) else a for a in args],
                       write=lambda text: None)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_the_code_takes_what_is_counted(name, target):
    """Shared memory of that size suffices, which the PTX machine tests to the byte; of a little less it does not: an
    array may end within a unit of its `Need`."""
    function, args, constants = CASES[name]
    code = launch_code(function, args, constants, TARGETS[target])
    size = code.metadata["shared"]
    assert size > 0
    touched(code, args, size)
    unit = 16 if size < 1024 else 128
    with pytest.raises(ptx.Fault, match="shared"):
        touched(code, args, max(0, size - unit))


def test_every_row_that_takes_shared_memory_has_a_rule():
    assert {*scratch.NEEDS, *scratch.BUFFERS} <= set(HANDLERS) and set(HANDLERS) <= set(TABLE)
    assert not set(scratch.NEEDS) & set(scratch.BUFFERS)


@pytest.mark.parametrize("what, row", [("sum", "reduce"), ("convert", "convert"), ("atomics", "atomic_rmw")])
def test_what_is_not_counted_is_not_taken(monkeypatch, what, row):
    """Code generation stops rather than take it, or leave out what was counted."""
    function, args, constants = of_ops(what)
    counted = scratch.NEEDS[row]

    def twice(program: scratch.Program, op: Op):
        return [*counted(program, op)] * 2

    monkeypatch.setitem(allocation.NEEDS, row, twice)
    with pytest.raises(AssertionError, match=f"{row} was to take shared memory|takes shared memory that was not"):
        launch_code(function, args, constants, TARGETS[80])
    if row != "atomic_rmw":     # which tells others only if it has scratch
        monkeypatch.setitem(allocation.NEEDS, row, lambda program, op: iter(()))
        with pytest.raises(AssertionError, match=f"{row} takes shared memory that was not counted"):
            launch_code(function, args, constants, TARGETS[80])


@triton.jit
def element_at(pointer):
    return tl.load(pointer)


@triton.jit
def loaded(x, out, times, N: tl.constexpr):
    i = tl.arange(0, N)
    for _ in range(times):
        tl.store(out + i, tl.map_elementwise(element_at, x + i))


def test_a_load_in_a_function_of_elements_is_none_for_all():
    """Where control flow depends on scalars, one thread reads those; an element is each thread's own."""
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    ptx_machine.run(loaded, (1,), (x, out, 2), {"N": 64})
    np.testing.assert_array_equal(out, x)


def test_arrays_of_a_need():
    need = Need((4, 40, 16), unit=16)
    assert need.offsets == (0, 16, 64) and need.bytes == 80
    assert Need((5,)).bytes == 5


def test_scratch_lies_on_buffers_and_small_uses_beside_each_other():
    stack = Stack()
    buffer = stack.allocate(Need((100,)))
    first, second, third = (stack.use(Need((16,))) for _ in range(3))
    assert (buffer.start, first.start, second.start, third.start) == (0, 128, 256, 128)
    assert not any(u.waits for u in (first, second, third))
    large = stack.use(Need((4096,)))
    assert large.start == 128 and large.waits and stack.size == 128 + 4096
    stack.free()
    assert stack.use(Need((16,))).waits         # a thread may still read the buffer
    stack.barrier()
    assert stack.use(Need((4096,))) == replace(large, start=0, waits=False)
