"""CTAs of a cluster: their barrier, each other's shared memory, remote arrivals, multicast."""

from __future__ import annotations

import numpy as np
import pytest

from tests.targets.nvidia.ptx.harness import aligned, run_body
from tilewright.targets.nvidia.ptx import Fault

EXCHANGE = """
mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, cell; mad.lo.u32 %r3, %r1, 100, %r100; shl.b32 %r4, %r100, 2;
add.u32 %r2, %r2, %r4; st.shared.b32 [%r2], %r3;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
xor.b32 %r5, %r1, 1; mapa.shared::cluster.u32 %r6, %r2, %r5; ld.shared::cluster.b32 %r7, [%r6];
mov.u32 %r8, %ctaid.x; mad.lo.u32 %r9, %r8, 32, %r100; mul.wide.u32 %rd1, %r9, 4; add.u64 %rd2, %rd100, %rd1;
st.global.b32 [%rd2], %r7;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;
"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_exchange(seed: int) -> None:
    out = np.zeros((4, 32), "i4")
    run_body(EXCHANGE, out, block=32, grid=(4,), cluster=(2,), seed=seed, before=".shared .align 4 .b8 cell[128];")
    assert (out == np.array([[100], [0], [100], [0]]) + np.arange(32)).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_global_memory_between_ctas_of_a_cluster(seed: int) -> None:
    """Ordered by the cluster's barrier, and by nothing without it."""
    body = """mov.u32 %r1, %cluster_ctarank; mad.lo.u32 %r2, %r1, 32, %r100; mul.wide.u32 %rd1, %r2, 4;
        add.u64 %rd2, %rd100, %rd1; st.global.b32 [%rd2], %r2; bar.sync 0; BARRIER xor.b32 %r3, %r2, 33;
        mul.wide.u32 %rd3, %r3, 4; add.u64 %rd4, %rd100, %rd3; ld.global.b32 %r4, [%rd4]; add.u64 %rd5, %rd101, %rd1;
        st.global.b32 [%rd5], %r4; ret;"""
    x, out = np.zeros(64, "i4"), np.zeros(64, "i4")
    barrier = "barrier.cluster.arrive; barrier.cluster.wait;"
    run_body(body.replace("BARRIER", barrier), x, out, block=32, grid=(2,), cluster=(2,), seed=seed)
    assert (out == np.arange(64) ^ 33).all()
    with pytest.raises(Fault, match="another CTA") as caught:
        run_body(body.replace("BARRIER", ""), x, out, block=32, grid=(2,), cluster=(2,), seed=seed)
    assert caught.value.kind == "race"


def test_a_cta_that_does_not_come() -> None:
    body = "mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 1; @%p1 bra skip; barrier.cluster.arrive; " \
        "barrier.cluster.wait; skip: bar.sync 0, 64; ret;"
    with pytest.raises(Fault) as caught:
        run_body(body, block=32, grid=(2,), cluster=(2,))
    assert caught.value.kind == "deadlock"


def test_remote_arrival_and_multicast() -> None:
    """Rank 0 copies into both CTAs; each waits for its own bytes; rank 1 tells rank 0 that it is done."""
    x, out = aligned(64, "i4"), aligned(128, "i4")
    x[:] = np.arange(64)
    run_body("""mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, full; mov.u32 %r3, done; mov.u32 %r4, tile;
        setp.ne.u32 %p1, %r100, 0; @%p1 bra ready; mbarrier.init.shared.b64 [%r2], 1; mbarrier.init.shared.b64 [%r3], 1;
        fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
        ready: barrier.cluster.arrive; barrier.cluster.wait;
        or.b32 %r5, %r1, %r100; setp.ne.u32 %p2, %r5, 0; @%p2 bra wait; mov.b16 %rs1, 3;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd100], 256, [%r2];
        mapa.shared::cluster.u32 %r6, %r4, 1; mapa.shared::cluster.u32 %r7, %r2, 1;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd100], 256, [%r7];
        wait: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra wait;
        shl.b32 %r8, %r100, 2; add.u32 %r9, %r4, %r8; ld.shared.b32 %r10, [%r9]; mad.lo.u32 %r11, %r1, 1000, %r10;
        mad.lo.u32 %r12, %r1, 64, %r100; mul.wide.u32 %rd1, %r12, 4; add.u64 %rd2, %rd101, %rd1;
        st.global.b32 [%rd2], %r11;
        setp.ne.u32 %p4, %r1, 1; @%p4 bra first; @%p1 bra end; mapa.shared::cluster.u32 %r13, %r3, 0;
        mbarrier.arrive.shared::cluster.b64 _, [%r13]; bra end;
        first: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra first;
        end: barrier.cluster.arrive; barrier.cluster.wait; ret;""", x, out, block=64, grid=(2,), cluster=(2,),
             before=".shared .align 128 .b8 tile[256]; .shared .align 8 .b8 full[8]; .shared .align 8 .b8 done[8];")
    assert (out == np.concatenate([x, x + 1000])).all()


def test_a_rank_that_does_not_exist() -> None:
    with pytest.raises(Fault, match="where nothing is"):
        run_body("mov.u32 %r2, cell; mapa.shared::cluster.u32 %r6, %r2, 5; ld.shared::cluster.b32 %r7, [%r6]; ret;",
                 block=32, grid=(2,), cluster=(2,), before=".shared .align 4 .b8 cell[128];")


def test_a_grid_that_is_no_multiple_of_the_cluster() -> None:
    with pytest.raises(ValueError, match="not made of clusters"):
        run_body("ret;", block=32, grid=(3,), cluster=(2,))
