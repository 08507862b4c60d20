"""Shuffles, votes, matches, reductions, elections: against loops over lanes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import run_body


def lanes(body: str, x: np.ndarray, outputs: int = 1, block: int = 64) -> np.ndarray:
    """%r1 is the thread's value; results are %r10, %r11, ..."""
    out = np.zeros((outputs, block), "u4")
    stores = "\n".join(f"st.global.b32 [%rd3+{4 * block * i}], %r{10 + i};" for i in range(outputs))
    run_body(f"""mul.wide.u32 %rd1, %r100, 4; add.u64 %rd2, %rd100, %rd1; ld.global.b32 %r1, [%rd2];
        add.u64 %rd3, %rd101, %rd1; {body} {stores} ret;""", x, out, block=block)
    return out


X = np.random.default_rng(0).integers(0, 2**32, 64).astype("u4")


def source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """PTX ISA 9.7.9.6, as it stands there."""
    bval, cval, mask = b & 31, c & 31, c >> 8 & 31
    most, least = (lane & mask) | (cval & ~mask), lane & mask
    if mode == "up":
        j = lane - bval
        ok = j >= most
    elif mode == "down":
        j = lane + bval
        ok = j <= most
    elif mode == "bfly":
        j = lane ^ bval
        ok = j <= most
    else:
        j = least | (bval & ~mask)
        ok = j <= most
    return (j if ok else lane), ok


@pytest.mark.parametrize("mode, c", [("up", 0), ("up", 0x1800), ("down", 31), ("down", 0x181F), ("bfly", 31),
                                     ("bfly", 0x1C1F), ("idx", 31), ("idx", 0x101F)])
@pytest.mark.parametrize("b", [0, 1, 5, 16, 31])
def test_shuffles(mode: str, b: int, c: int) -> None:
    out = lanes(f"shfl.sync.{mode}.b32 %r10|%p1, %r1, {b}, {c}, -1; selp.b32 %r11, 1, 0, %p1;", X, 2)
    want = [source(mode, t % 32, b, c) for t in range(64)]
    assert (out[0] == [X[t // 32 * 32 + j] for t, (j, _) in enumerate(want)]).all()
    assert (out[1] == [ok for _, ok in want]).all()


def test_a_shuffle_by_a_register() -> None:
    out = lanes("and.b32 %r2, %r1, 31; shfl.sync.idx.b32 %r10, %r1, %r2, 31, -1;", X)
    assert (out[0] == [X[t // 32 * 32 + (int(X[t]) & 31)] for t in range(64)]).all()


def test_votes() -> None:
    x = np.where(np.arange(64) < 32, 1, np.arange(64) % 2).astype("u4")
    out = lanes("""setp.ne.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r10, %p1, -1; vote.sync.all.pred %p2, %p1, -1;
        vote.sync.any.pred %p3, !%p1, -1; vote.sync.uni.pred %p4, %p1, -1;
        selp.b32 %r11, 1, 0, %p2; selp.b32 %r12, 1, 0, %p3; selp.b32 %r13, 1, 0, %p4;""", x, 4)
    assert (out[0] == [2**32 - 1] * 32 + [0xAAAAAAAA] * 32).all()
    for row, (first, second) in zip(out[1:], [(1, 0), (0, 1), (1, 0)]):
        assert (row == [first] * 32 + [second] * 32).all()


def test_votes_of_some_lanes() -> None:
    out = lanes("""mov.u32 %r10, 7; and.b32 %r2, %r100, 3; setp.eq.u32 %p1, %r2, 0; setp.ne.u32 %p2, %r1, 0;
        @%p1 vote.sync.ballot.b32 %r10, %p2, 0x11111111;""", np.ones(64, "u4"))
    assert (out[0] == np.where(np.arange(64) % 4 == 0, 0x11111111, 7)).all()


def test_match() -> None:
    x = (np.arange(64) % 5).astype("u4")
    x[32:] = 9
    out = lanes("""match.any.sync.b32 %r10, %r1, -1; match.all.sync.b32 %r11|%p1, %r1, -1;
        selp.b32 %r12, 1, 0, %p1;""", x, 3)
    want = [sum(1 << j for j in range(32) if x[t // 32 * 32 + j] == x[t]) for t in range(64)]
    assert (out[0] == want).all()
    assert (out[1] == [0] * 32 + [2**32 - 1] * 32).all()
    assert (out[2] == [0] * 32 + [1] * 32).all()


@pytest.mark.parametrize("operation, type, meaning", [
    ("add", "u32", lambda v: sum(v) % 2**32), ("add", "s32", lambda v: sum(v) % 2**32), ("min", "u32", min),
    ("max", "u32", max), ("min", "s32", min), ("max", "s32", max), ("and", "b32", lambda v: np.bitwise_and.reduce(v)),
    ("or", "b32", lambda v: np.bitwise_or.reduce(v)), ("xor", "b32", lambda v: np.bitwise_xor.reduce(v))])
def test_reductions(operation: str, type: str, meaning) -> None:
    out = lanes(f"redux.sync.{operation}.{type} %r10, %r1, -1;", X)
    values = (X.view("i4") if type == "s32" else X).tolist()
    for warp in range(2):
        want = int(meaning(values[32 * warp:32 * warp + 32])) % 2**32
        assert (out[0][32 * warp:32 * warp + 32] == want).all()


def test_election() -> None:
    out = lanes("""setp.ge.u32 %p1, %r100, 5; mov.u32 %r10, 99; mov.u32 %r11, 99; @!%p1 bra join;
        activemask.b32 %r2; elect.sync %r10|%p2, %r2; selp.b32 %r11, 1, 0, %p2; join:""", X, 2)
    t = np.arange(64)
    assert (out[0] == np.where(t < 5, 99, np.where(t < 32, 5, 0))).all()
    assert (out[1] == np.where(t < 5, 99, (t == 5) | (t == 32))).all()
