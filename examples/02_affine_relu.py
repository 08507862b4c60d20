"""A fused layer: out = max(x * weight + bias, 0), with one weight and one bias for each column.

NumPy makes three passes over memory for this (multiply, add, clip) and two temporary arrays. Here it is one kernel:
every number is loaded once, all arithmetic happens on the tile in registers, and the result is stored once. That is
what "fused" means, and for work that waits for memory it is most of what can be won.
"""

import numpy as np
from setting import Setting, to_numpy

import tilewright as triton
import tilewright.language as tl


@triton.jit
def affine_relu_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    column = offsets % columns                          # the matrix lies in memory row after row
    x = tl.load(x_ptr + offsets, mask=mask)
    weight = tl.load(weight_ptr + column)               # column < columns always: no mask needed
    bias = tl.load(bias_ptr + column)
    tl.store(out_ptr + offsets, tl.maximum(x * weight + bias, 0.0), mask=mask)


def affine_relu(x, weight, bias, out):
    """out = relu(x * weight + bias) for a contiguous matrix x and vectors weight and bias."""
    rows, columns = x.shape
    n = rows * columns

    def grid(meta):                                     # a grid may be computed from the kernel's arguments
        return (triton.cdiv(n, meta["BLOCK"]),)

    affine_relu_kernel[grid](x, weight, bias, out, n, columns, BLOCK=2048)


def main():
    here = Setting.from_command_line(__doc__)
    x, weight, bias = here.random(300, 1000), here.random(1000), here.random(1000)
    out = here.empty_like(x)
    affine_relu(x, weight, bias, out)
    expected = np.maximum(to_numpy(x) * to_numpy(weight) + to_numpy(bias), 0)
    here.check("affine + ReLU", out, expected, tolerance=1e-6)


if __name__ == "__main__":
    main()
