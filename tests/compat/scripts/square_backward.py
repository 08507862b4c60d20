"""An autograd function whose backward pass looks at the gradient's device."""

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x * x, mask=offsets < n)


@triton.jit
def gradient_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    dy = tl.load(dy_ptr + offsets, mask=offsets < n)
    tl.store(dx_ptr + offsets, 2 * x * dy, mask=offsets < n)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        square_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        assert dy.is_cuda and x.is_cuda
        dx = torch.zeros(x.shape, device="cuda")
        gradient_kernel[(triton.cdiv(x.numel(), 128),)](x, dy.contiguous(), dx, x.numel(), BLOCK=128)
        return dx


x = torch.randn(300, device="cuda", requires_grad=True)
Square.apply(x).sum().backward()
torch.testing.assert_close(x.grad, 2 * x.detach())
print("gradient agrees")
