"""Row softmax: every row of a matrix becomes exp(row - max(row)) / sum(exp(row - max(row))).

One program takes one row, whole, as one tile: it is read once, reduced twice on the spot (`tl.max`, `tl.sum`) and
written once. A tile's size must be known when the kernel is compiled, so it is the number of columns rounded up to a
power of two. The places that stick out are loaded as minus infinity, which no maximum notices and whose exp is 0.
"""

import numpy as np
from setting import Setting, to_numpy

import tilewright as triton
import tilewright.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * x_stride + column, mask=mask, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))           # the largest exponent is 0: nothing overflows
    softmax = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * out_stride + column, softmax, mask=mask)


def softmax(x, out):
    """out = softmax of each row of x; both with neighbouring columns next to each other in memory."""
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, out, columns, columns, columns, BLOCK=triton.next_power_of_2(columns))


def main():
    here = Setting.from_command_line(__doc__)
    x = here.random(1823, 781)
    out = here.empty_like(x)
    softmax(x, out)
    exact = to_numpy(x).astype(np.float64)
    exact = np.exp(exact - exact.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    here.check("row softmax", out, exact, tolerance=1e-6)


if __name__ == "__main__":
    main()
