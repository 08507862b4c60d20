"""A differentiable operation: y = x * x with a backward pass of our own, through `torch.autograd.Function`.

torch cannot look into a kernel, so it has to be told the derivative: `forward` launches one kernel and saves x,
`backward` gets the gradient of the loss with respect to y and launches another that returns it with respect to x.
The answer is compared with the one that torch finds by itself for the same formula.
"""

import importlib.util

from setting import Setting, parse_arguments, to_numpy

import tilewright as triton
import tilewright.language as tl

BLOCK = 1024


@triton.jit
def square_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x * x, mask=mask)


@triton.jit
def square_backward_kernel(x_ptr, grad_y_ptr, grad_x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    grad_y = tl.load(grad_y_ptr + offsets, mask=mask)
    tl.store(grad_x_ptr + offsets, 2.0 * x * grad_y, mask=mask)     # dy/dx = 2x, and the chain rule


def make_square():
    """The operation; made here, since a class that extends torch's needs torch."""
    import torch

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            y = torch.empty_like(x)
            square_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
            return y

        @staticmethod
        def backward(ctx, grad_y):
            (x,) = ctx.saved_tensors
            grad_y = grad_y.contiguous()                # a gradient may be an expanded scalar
            grad_x = torch.empty_like(x)
            square_backward_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, grad_y, grad_x, x.numel(), BLOCK=BLOCK)
            return grad_x

    return Square.apply


def main():
    device = parse_arguments(__doc__).device
    if importlib.util.find_spec("torch") is None:
        print("SKIPPED (needs torch: the gradient is torch's business; `pip install torch`, then run this again)")
        return
    import torch
    here = Setting(device)
    square = make_square()
    x = torch.as_tensor(here.random(10_000)).requires_grad_()
    weight = torch.as_tensor(here.random(10_000))

    y = square(x)
    (y * weight).sum().backward()
    ours, x.grad = x.grad, None
    (x * x * weight).sum().backward()
    here.check("square", y, to_numpy(x) ** 2)
    here.check("its gradient", ours, to_numpy(x.grad), tolerance=1e-6)


if __name__ == "__main__":
    main()
