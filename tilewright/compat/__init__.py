"""Programs that say `import triton`: they get Tilewright under that name, unchanged.

`tilewright run script.py` does all of it for a script.  Inside a program, `tilewright.compat.install()` does it before
the first `import triton`.  `cuda_on_cpu()` lets a program that insists on CUDA run on a machine without a GPU.
Tests: tests/compat/.
"""

from tilewright.compat.alias import SHADOW, install
from tilewright.compat.on_cpu import cuda_is_missing, cuda_on_cpu

__all__ = ["SHADOW", "cuda_is_missing", "cuda_on_cpu", "install"]
