"""Names about GPUs can be imported; calling one says what to do instead."""

import pytest

from tilewright import testing

CALLS = {
    "get_dram_gbps": (), "get_max_tensorcore_tflops": (None, 1.0), "get_max_simd_tflops": (None, 1.0),
    "nvsmi": (["clocks.sm"],), "set_gpu_clock": (), "cuda_memcheck": (),
}


@pytest.mark.parametrize("name", CALLS)
def test_says_that_there_is_no_gpu(name):
    assert name in testing.__all__
    with pytest.raises(RuntimeError, match=f"triton.testing.{name} is about NVIDIA GPUs.*; .*"):
        getattr(testing, name)(*CALLS[name])


def test_cudagraph_timing_times_calls():
    calls = []
    found = testing.do_bench_cudagraph(lambda: calls.append(1), rep=2, quantiles=[0.0, 1.0])
    assert len(calls) > 5 and 0 <= found[0] <= found[1] < 100
