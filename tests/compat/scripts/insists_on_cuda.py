"""A script that asks for the device "cuda" by name at every place where one can."""

import torch
import triton
import triton.language as tl

assert torch.cuda.is_available(), "this script needs a GPU"
assert triton.runtime.driver.active.get_current_target().backend == "cuda"
torch.cuda.manual_seed(0)


@triton.jit
def scale_kernel(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x * factor, mask=offsets < n)


def scale(x, factor):
    assert x.is_cuda and x.is_contiguous(), "a CUDA tensor, please"
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    with torch.cuda.device(x.device.index):
        scale_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), factor, BLOCK=256)
    return y


a = torch.randn(1000, device="cuda")
b = torch.linspace(0, 1, 500).cuda()
c = torch.ones(30, 30).to(torch.device("cuda"))
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
for t in (a, b, c):
    y = scale(t, 2.5)
    assert y.is_cuda and y.device.type == "cuda"
    torch.testing.assert_close(y.cpu(), t.cpu() * 2.5)
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
print("scaled on", torch.cuda.get_device_name())
