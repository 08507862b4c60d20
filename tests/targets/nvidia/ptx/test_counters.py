"""Counts of sectors, wavefronts and instructions, where they can be told by hand."""

from __future__ import annotations

import pytest

from tests.targets.nvidia.ptx.harness import aligned, run_body
from tilewright.targets.nvidia.ptx import Checks

COUNTING = Checks(memory_counters=True)


@pytest.mark.parametrize("stride, sectors", [(1, 4), (2, 8), (8, 32), (100, 32), (0, 1)])
def test_sectors_of_a_load(stride: int, sectors: int) -> None:
    x = aligned(32 * 100, "f4")
    counters = run_body(f"mul.lo.u32 %r1, %r100, {stride}; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %rd100, %rd1;"
                        "ld.global.f32 %r2, [%rd2]; ret;", x, block=32, checks=COUNTING).counters
    assert counters["global load sectors"] == sectors
    assert counters["global load requests"] == 1
    assert counters["global load bytes"] == 128


def test_sectors_of_vectors_and_of_several_warps() -> None:
    x = aligned(512, "f4")
    counters = run_body("""mul.wide.u32 %rd1, %r100, 16; add.u64 %rd2, %rd100, %rd1;
        ld.global.v4.f32 {%r1, %r2, %r3, %r4}, [%rd2];
        st.global.v4.f32 [%rd2], {%r1, %r2, %r3, %r4}; ret;""", x, checks=COUNTING).counters
    assert counters["global load sectors"] == counters["global store sectors"] == 64
    assert counters["global load requests"] == 4


@pytest.mark.parametrize("stride, width, wavefronts", [
    (1, 1, 1), (2, 1, 2), (32, 1, 32), (33, 1, 1), (0, 1, 1), (4, 4, 4), (2, 2, 2), (8, 4, 8), (32, 4, 32)])
def test_bank_conflicts(stride: int, width: int, wavefronts: int) -> None:
    """Words a lane apart; a request of v4 is served by eight lanes at a time."""
    vector = f".v{width}" if width > 1 else ""
    registers = "{" + ", ".join(["%r9"] * width) + "}" if width > 1 else "%r9"
    counters = run_body(f"""mov.u32 %r1, area; mul.lo.u32 %r2, %r100, {4 * stride}; add.u32 %r1, %r1, %r2;
        mov.b32 %r9, 1; st.shared{vector}.b32 [%r1], {registers}; ret;""", block=32, checks=COUNTING,
                        before=".shared .align 16 .b8 area[8192];").counters
    assert counters["shared store wavefronts"] == wavefronts
    assert counters["shared store requests"] == 1


def test_matrix_rows_are_served_eight_at_a_time() -> None:
    for pitch, wavefronts in ((16, 4), (128, 32), (144, 4)):
        counters = run_body(f"""mov.u32 %r1, area; mad.lo.u32 %r1, %r100, {pitch}, %r1;
            st.shared.v4.b32 [%r1], {{%r100, %r100, %r100, %r100}}; bar.warp.sync -1;
            ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r2, %r3, %r4, %r5}}, [%r1]; ret;""", block=32, checks=COUNTING,
                            before=".shared .align 16 .b8 area[8192];").counters
        assert counters["shared load wavefronts"] == wavefronts


def test_counts_by_line() -> None:
    x = aligned(32, "f4")
    counters = run_body("mul.wide.u32 %rd1, %r100, 4; add.u64 %rd2, %rd100, %rd1;\nld.global.f32 %r2, [%rd2];\nret;", x,
                        block=32, checks=COUNTING).counters
    ((line, counts),) = counters.by_line.items()
    assert counts["global load sectors"] == 4
    assert line > 10


def test_instructions_and_divergence() -> None:
    counters = run_body("""mov.u32 %r1, 0; setp.lt.u32 %p1, %r100, 40; @%p1 bra a; mov.u32 %r1, 1; a: bar.sync 0;
        shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; ret;""", block=64, grid=(3,)).counters
    assert counters["ctas"] == 3
    assert counters["divergent_branches"] == 3       # warp 1 of each CTA
    assert counters["barriers"] == 3
    assert counters["shuffles"] >= 3
    assert counters["instructions"] >= 3 * 7


def test_no_memory_is_counted_unless_asked() -> None:
    counters = run_body("ld.global.f32 %r2, [%rd100]; ret;", aligned(1, "f4"), block=32).counters
    assert counters["global load sectors"] == 0
