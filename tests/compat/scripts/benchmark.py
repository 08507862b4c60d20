"""A script with a performance report."""

import torch
import triton
import triton.language as tl
import triton.testing

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"], x_vals=[2**i for i in (10, 14)], x_log=True,
        line_arg="provider", line_vals=["triton", "torch"], line_names=["Triton", "Torch"],
        styles=[("blue", "-"), ("green", "-")], ylabel="GB/s", plot_name="copy-performance", args={}))
def benchmark(size, provider):
    x = torch.rand(size, device=DEVICE)
    y = torch.empty_like(x)
    quantiles = [0.5, 0.2, 0.8]
    if provider == "torch":
        work = lambda: y.copy_(x)                                                               # noqa: E731
    else:
        work = lambda: copy_kernel[(triton.cdiv(size, 1024),)](x, y, size, BLOCK=1024)        # noqa: E731
    ms, min_ms, max_ms = triton.testing.do_bench(work, warmup=1, rep=4, quantiles=quantiles)
    gbps = lambda ms: 2 * x.numel() * x.element_size() * 1e-9 / (ms * 1e-3)                     # noqa: E731
    return gbps(ms), gbps(max_ms), gbps(min_ms)


benchmark.run(print_data=True, show_plots=False)
