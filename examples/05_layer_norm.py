"""Layer norm: every row gets mean 0 and variance 1, then a weight and a bias for each column.

A row may be longer than a tile here, so each program walks its row in steps of BLOCK, three times: for the mean, for
the variance, and to write the result. The running sums are tiles, added up element by element in the loop; only after
the loop does `tl.sum` turn each into one number.
"""

import numpy as np
from setting import Setting, to_numpy

import tilewright as triton
import tilewright.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, epsilon, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * columns                 # from here on x_ptr and out_ptr are my row's
    out_ptr += tl.program_id(0) * columns
    lanes = tl.arange(0, BLOCK)

    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + lanes
        total += tl.load(x_ptr + column, mask=column < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns

    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + lanes
        x = tl.load(x_ptr + column, mask=column < columns, other=0.0)
        distance = tl.where(column < columns, x - mean, 0.0)        # a masked 0.0 is not at distance 0 from the mean
        squares += distance * distance
    scale = tl.rsqrt(tl.sum(squares, axis=0) / columns + epsilon)

    for start in range(0, columns, BLOCK):
        column = start + lanes
        mask = column < columns
        x = tl.load(x_ptr + column, mask=mask)
        weight = tl.load(weight_ptr + column, mask=mask)
        bias = tl.load(bias_ptr + column, mask=mask)
        tl.store(out_ptr + column, (x - mean) * scale * weight + bias, mask=mask)


def layer_norm(x, weight, bias, out, epsilon=1e-5):
    """Normalise each row of a contiguous matrix x."""
    rows, columns = x.shape
    layer_norm_kernel[(rows,)](x, weight, bias, out, columns, epsilon, BLOCK=256)


def main():
    here = Setting.from_command_line(__doc__)
    x, weight, bias = here.random(500, 1100), here.random(1100), here.random(1100)
    out = here.empty_like(x)
    layer_norm(x, weight, bias, out)
    exact = to_numpy(x).astype(np.float64)
    exact -= exact.mean(axis=1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(axis=1, keepdims=True) + 1e-5)
    here.check("layer norm", out, exact * to_numpy(weight) + to_numpy(bias), tolerance=1e-6)


if __name__ == "__main__":
    main()
