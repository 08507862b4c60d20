"""Kernels that torch's Inductor writes itself, compiled under the alias, in a worker process too.

The argument is a device; the CPU without.
Run by tests/compat/test_torch_compile.py; prints a line for each check.
"""

import sys

import torch
import torch._inductor.config as config
from torch._inductor.async_compile import AsyncCompile

torch.set_default_device(sys.argv[1] if len(sys.argv) > 1 else "cpu")
config.cpu_backend = "triton"
FUNCTIONS = {
    "softmax": lambda x: torch.softmax(x.sin(), -1),
    "sum, argmax": lambda x: (x.sum(0), x.argmax(-1)),
    "cumsum, cast": lambda x: x.cumsum(-1).to(torch.bfloat16),
    "sort": lambda x: x[:4].sort(-1),
    "gather, where": lambda x: torch.where(x > 0, x[[3, 0, 1] * 2], 0.5),
}


def main():
    for name, function in FUNCTIONS.items():
        x = torch.randn(6, 70)
        torch.testing.assert_close(torch.compile(function, fullgraph=True)(x), function(x))
        print(name)
    AsyncCompile.warm_pool()
    AsyncCompile.wait_pool_ready()
    assert AsyncCompile.use_process_pool()
    x = torch.randn(6, 70)
    torch.testing.assert_close(torch.compile(lambda x: x.var(-1).cos(), fullgraph=True)(x), x.var(-1).cos())
    print("worker")


if __name__ == "__main__":
    main()
