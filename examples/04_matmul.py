"""Matrix product c = a @ b, in tiles.

Program (i, j) computes one tile of c. It walks along the shared dimension K: at each step it multiplies a tile of a
with a tile of b by `tl.dot` and adds to an accumulator, which it stores at the end. Two-dimensional tiles of pointers
are made by broadcasting: `rows[:, None]` is a column, `columns[None, :]` a row, and their sum is a rectangle.

No size here is a multiple of the tile's: masks guard all three dimensions. Along K they matter twice, since a number
from outside would be *added* to the result; masked elements are loaded as `other=0.0`, which adds nothing.
"""

import numpy as np
from setting import Setting, to_numpy

import tilewright as triton
import tilewright.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, a_row, a_column, b_row, b_column, c_row, c_column,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)          # rows of my tile of c
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)          # its columns
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * a_row + k[None, :] * a_column     # BLOCK_M x BLOCK_K pointers into a
    b_ptrs = b_ptr + k[:, None] * b_row + n[None, :] * b_column     # BLOCK_K x BLOCK_N pointers into b

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k_left = K - start                                          # how much of K is still to come
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < k_left), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < k_left) & (n[None, :] < N), other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K * a_column
        b_ptrs += BLOCK_K * b_row

    c_ptrs = c_ptr + m[:, None] * c_row + n[None, :] * c_column
    tl.store(c_ptrs, accumulator, mask=(m[:, None] < M) & (n[None, :] < N))


def matmul(a, b, c):
    """c = a @ b for contiguous float32 matrices of any size."""
    (M, K), N = a.shape, b.shape[1]
    tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    grid = (triton.cdiv(M, tile["BLOCK_M"]), triton.cdiv(N, tile["BLOCK_N"]))
    matmul_kernel[grid](a, b, c, M, N, K, K, 1, N, 1, N, 1, **tile)


def main():
    here = Setting.from_command_line(__doc__)
    a, b = here.random(300, 200), here.random(200, 250)
    c = here.zeros(300, 250)
    matmul(a, b, c)
    exact = to_numpy(a).astype(np.float64) @ to_numpy(b).astype(np.float64)
    here.check("matrix product", c, exact, tolerance=1e-6)


if __name__ == "__main__":
    main()
