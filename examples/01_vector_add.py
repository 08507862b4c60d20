"""Vector addition: out = x + y.

The smallest complete kernel. It is written for one *program*, which handles one *tile* of BLOCK elements; the launch
`add_kernel[grid](...)` runs as many programs as the grid has, on all cores. Each program finds out which tile is its
own from `tl.program_id`. The last tile usually sticks out of the vector: a *mask* keeps it from touching what lies
behind the end.
"""

from setting import Setting

import tilewright as triton
import tilewright.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(axis=0)                     # 0, 1, 2, ...: which program am I?
    offsets = program * BLOCK + tl.arange(0, BLOCK)     # the indices of my tile, a vector of int32
    mask = offsets < n                                  # False for those behind the end
    x = tl.load(x_ptr + offsets, mask=mask)             # a pointer plus a tile is a tile of pointers
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y, out):
    """out[i] = x[i] + y[i] for vectors of one length."""
    n = len(x)
    block = 1024
    grid = (triton.cdiv(n, block),)                     # enough programs to cover n elements
    add_kernel[grid](x, y, out, n, BLOCK=block)


def main():
    here = Setting.from_command_line(__doc__)
    x, y = here.random(98_432), here.random(98_432)
    out = here.empty_like(x)
    add(x, y, out)
    here.check("vector add", out, x + y)


if __name__ == "__main__":
    main()
