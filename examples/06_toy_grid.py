"""A toy grid: who touches what?

Ten elements, tiles of four, so three programs, of which the last has two elements too many. Every program writes down
the offsets and the mask that it computed, and whose element it is. Play with N and BLOCK until the picture holds no
surprise: most faults in kernels are faults in these three lines.
"""

import numpy as np
from setting import Setting, to_numpy

import tilewright as triton
import tilewright.language as tl

N, BLOCK = 10, 4


@triton.jit
def toy_kernel(offsets_ptr, mask_ptr, owner_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n

    mine = program * BLOCK + tl.arange(0, BLOCK)        # a line of the notebook for each program, so no mask
    tl.store(offsets_ptr + mine, offsets)
    tl.store(mask_ptr + mine, mask)
    tl.store(owner_ptr + offsets, program, mask=mask)   # the elements themselves: masked


def main():
    here = Setting.from_command_line(__doc__)
    programs = triton.cdiv(N, BLOCK)
    offsets, mask = here.zeros(programs, BLOCK, dtype="int32"), here.zeros(programs, BLOCK, dtype="int32")
    owner = here.zeros(N, dtype="int32")
    toy_kernel[(programs,)](offsets, mask, owner, N, BLOCK=BLOCK)

    print(f"{N} elements, BLOCK = {BLOCK}: {programs} programs")
    for program in range(programs):
        row = [f"{at:3}" if inside else f"({at})" for at, inside in zip(offsets[program], mask[program])]
        print(f"  program {program}: offsets {' '.join(row)}    mask {' '.join(str(int(b)) for b in mask[program])}")
    print(f"  (in brackets: masked)  element -> program: {' '.join(str(int(p)) for p in owner)}")

    expected = np.arange(programs * BLOCK).reshape(programs, BLOCK)
    here.check("offsets", offsets, expected)
    here.check("masks", mask, (expected < N).astype(np.int32))
    here.check("owners", to_numpy(owner), np.arange(N) // BLOCK)


if __name__ == "__main__":
    main()
