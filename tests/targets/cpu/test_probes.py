"""One function looks for lanes that are out of bounds, for all accesses of the common form; others have a nest."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.cpu.harness import F32, I32, WIDE, generated, kernel, ptr
from tilewright.diagnostics import OutOfBoundsError
from tilewright.targets.cpu.probes import FINDER
from tilewright.testing.engines import launch

ENGINES = ("cpu", "batched")
REPORT = "call void @report_outside"


def calls(module):
    """How often the function is called, and how many nests report by themselves."""
    text = generated(module, isa=WIDE).text
    assert text.count(f"define internal i1 @{FINDER}") == (f"call i1 @{FINDER}" in text)
    return text.count(f"call i1 @{FINDER}"), text.count(REPORT)


def copied(bound):
    """o = x where column < `bound`(builder, n); 8 rows of 32, n apart."""
    def body(b, x, o, n):
        column, row = b.iota(32), b.iota(8)
        place = b.add(b.mul(b.col(row), n), b.row(column))
        mask = b.row(b.binary("cmp_lt_s", column, bound(b, b.like(n, column))))
        b.store(b.at(o, place), b.load(b.at(x, place), b.like(mask, place)))
    return kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)


def test_accesses_of_the_common_form_call_one_function():
    assert calls(copied(lambda b, n: n)) == (2, 0)


def test_accesses_of_another_form_have_a_nest_of_their_own():
    """The bound is another one at each place."""
    assert calls(copied(lambda b, n: b.binary("rem_s", b.iota(32), n))) == (1, 1)


def test_one_row_looks_for_itself():
    """For one access at a time a nest is as short as a call."""
    def body(b, x, o, n):
        place = b.iota(64)
        values = b.load(b.at(x, place), b.binary("cmp_lt_s", place, b.like(n, place)))
        b.store(b.at(o, b.pid()), b.sum(values, 0))
    one = kernel([("x", ptr(F32)), ("o", ptr(F32)), ("n", I32)], body)
    assert calls(one) == (0, 2)


@triton.jit
def clipped(x, out, rows, columns, step, BM: tl.constexpr, BN: tl.constexpr, KIND: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    inside = (m < rows)[:, None]
    if KIND == "lt":
        inside = inside & (n[None, :] < columns)
    elif KIND == "le":
        inside = inside & (n <= columns - 1)[None, :]
    elif KIND == "gt":
        inside = inside & (columns > n)[None, :]
    elif KIND == "ge":
        inside = inside & (columns - 1 >= n)[None, :]
    elif KIND == "flag":
        inside = inside & (columns > 9)
    elif KIND == "odd":                        # of another form
        inside = inside & (n % 2 < columns)[None, :]
    elif KIND == "wide":
        inside = inside & (n.to(tl.int64) < columns)[None, :]
    v = tl.load(x + m[:, None] * step + n[None, :], mask=inside, other=0.0)
    tl.store(out + m[:, None] * BN + n[None, :], v)


def caught(engine, *args, **options):
    with pytest.raises(OutOfBoundsError) as info:
        launch(engine, clipped, (2,), *args, **options)
    error = info.value
    return error.argument, error.index, error.program, error.bad.access


@pytest.mark.parametrize("kind", ["lt", "le", "gt", "ge", "flag", "odd", "wide"])
@pytest.mark.parametrize("rows, columns, step", [
    (8, 16, 16), (8, 10, 16), (7, 16, 20), (8, 16, 17), (5, 16, 40), (8, 12, -16), (8, 16, 1 << 20), (3, 40, 60)])
def test_the_first_lane_outside_is_told_as_the_interpreter_tells_it(kind, rows, columns, step):
    x, out = np.ones(7 * 16 + 9, np.float32), np.zeros(8 * 16, np.float32)
    sizes = (x, out, rows, columns, step)
    try:
        launch("batched", clipped, (2,), *sizes, BM=4, BN=16, KIND=kind)
    except OutOfBoundsError:
        assert caught("cpu", *sizes, BM=4, BN=16, KIND=kind) == caught("batched", *sizes, BM=4, BN=16, KIND=kind)
    else:
        launch("cpu", clipped, (2,), *sizes, BM=4, BN=16, KIND=kind)


@triton.jit
def of_one_tile(x, out, rows, B: tl.constexpr):
    r = tl.arange(0, B)
    v = tl.load(x + r[:, None] * 8 + r[None, :], mask=(r < rows)[:, None] & (r < 8)[None, :], other=0.0)
    tl.store(out + r[:, None] * B + r[None, :], v)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows, index", [(8, None), (9, 64)])
def test_a_tile_that_counts_along_both_dimensions(engine, rows, index):
    x, out = np.ones(64, np.float32), np.zeros(256, np.float32)
    if index is None:
        launch(engine, of_one_tile, (1,), x, out, rows, 16)
        assert out.sum() == 64
        return
    with pytest.raises(OutOfBoundsError) as info:
        launch(engine, of_one_tile, (1,), x, out, rows, 16)
    assert (info.value.argument, info.value.index) == ("x", index)


@triton.jit
def wraps(x, out, start, B: tl.constexpr):
    i = start + tl.arange(0, B)
    tl.store(out + tl.arange(0, B), tl.load(x + tl.arange(0, B) * 2, mask=i < 0, other=0.0))
    tl.store(out + tl.arange(0, B), tl.load(x + tl.arange(0, B) * 3, mask=i < 0, other=0.0))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mask_that_wraps(engine):
    """Lanes 6 and 7 are active: 2**31 - 6 + 6 is negative in 32 bits."""
    x, out = np.ones(22, np.float32), np.zeros(8, np.float32)
    launch(engine, wraps, (1,), x, out, 2**31 - 6, 8)
    assert out.tolist() == [0] * 6 + [1] * 2
    with pytest.raises(OutOfBoundsError) as info:
        launch(engine, wraps, (1,), x[:21], out, 2**31 - 6, 8)
    assert info.value.index == 21
