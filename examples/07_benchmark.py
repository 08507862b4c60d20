"""How fast is it?  Vector addition in GB/s against NumPy's own, for growing vectors.

`triton.testing.do_bench` calls a function until its time is known and returns milliseconds: first calls, which
compile, are not counted. Adding two vectors reads 8 bytes and writes 4 for each element, so bytes over time is the
bandwidth; small vectors show what a launch costs, large ones what the memory gives.
"""

import numpy as np
from setting import Setting, to_numpy

import tilewright as triton
import tilewright.language as tl

SIZES = [2**exponent for exponent in (12, 16, 20, 23)]


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def measure(work):
    """Milliseconds of one call of `work`."""
    return triton.testing.do_bench(work, warmup=20, rep=60, return_mode="median")


def main():
    here = Setting.from_command_line(__doc__)
    rival = "NumPy" if here.device == "cpu" else "torch"
    print(f"{'elements':>10} {'Tilewright':>14} {rival:>14}")
    for n in SIZES:
        x, y = here.random(n), here.random(n)
        out = here.empty_like(x)
        grid = (triton.cdiv(n, 4096),)
        ours = measure(lambda: add_kernel[grid](x, y, out, n, BLOCK=4096))     # noqa: B023 (called right here)
        if not np.array_equal(to_numpy(out), to_numpy(x + y)):
            raise SystemExit(f"vector add of {n} elements is WRONG")
        if rival == "NumPy":
            theirs = measure(lambda: np.add(x, y, out=out))                    # noqa: B023
        else:
            theirs = measure(lambda: x.add_(y))                                # noqa: B023
        speeds = [12 * n / milliseconds * 1e-6 for milliseconds in (ours, theirs)]
        print(f"{n:>10} {speeds[0]:>9.2f} GB/s {speeds[1]:>9.2f} GB/s")
    print(f"vector add on {here.device}: {len(SIZES)} sizes measured, results the same as {rival}'s ... OK")


if __name__ == "__main__":
    main()
