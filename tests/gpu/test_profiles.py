"""Profiles on a GPU: time of kernels by events in the stream, and of what others launch in a scope."""

from __future__ import annotations

import json

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import profiler

torch = pytest.importorskip("torch")


@tw.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def test_times_are_those_of_the_stream(tmp_path) -> None:
    n = 1 << 28     # 2 GiB are moved: half a millisecond of an H200
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    grid = (tw.cdiv(n, 1024),)
    double[grid](x, out, n, BLOCK=1024)
    profiler.start(str(tmp_path / "run"))
    for _ in range(3):
        double[grid](x, out, n, BLOCK=1024)
    with profiler.scope("torch"):
        torch.mul(x, 2, out=out)
    profiler.finalize()
    root = json.loads((tmp_path / "run.hatchet").read_text())[0]
    frames = {child["frame"]["name"]: child["metrics"] for child in root["children"]}
    assert frames["double"]["count"] == 3 and frames["torch"]["count"] == 1
    assert 1e5 < frames["double"]["time (ns)"] / 3 < 2e7
    assert 1e5 < frames["torch"]["time (ns)"] < 2e7
