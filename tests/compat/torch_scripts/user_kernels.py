"""User kernels in functions that torch compiles, under the alias: torch recognises them and asks for what they write.

Run by tests/compat/test_torch_compile.py; prints a line for each check.  The argument is a device; the CPU without.
"""

import logging
import sys

import torch
import triton
import triton.language as tl
from triton.language import load, store

torch.set_default_device(sys.argv[1] if len(sys.argv) > 1 else "cpu")
messages: list[str] = []


class Keep(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        messages.append(record.getMessage())


logging.getLogger("torch._higher_order_ops.triton_kernel_wrap").addHandler(Keep())


@triton.jit
def plus(x, y):
    return x + y


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    store(out + offsets, plus(load(x + offsets, mask=mask), load(y + offsets, mask=mask)), mask=mask)


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32}, num_warps=2)], key=["n"])
@triton.heuristics({"DOUBLE": lambda args: args["BLOCK"] * 2})      # (torch takes rules only that give constants)
@triton.jit
def increment(x, bias, n, BLOCK: tl.constexpr, DOUBLE: tl.constexpr):
    offsets = tl.program_id(0) * DOUBLE + tl.arange(0, DOUBLE)
    mask = offsets < n
    step = 1.0 if bias is None else tl.load(bias)
    tl.store(x + offsets, tl.load(x + offsets, mask=mask) + step, mask=mask)


@triton.jit
def count(x, bins, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        if start >= 0:
            tl.atomic_add(bins + tl.load(x + offsets, mask=offsets < n), 1, mask=offsets < n)


def use_add(x, y):
    out = torch.empty_like(x)
    add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel(), BLOCK=16)
    return out * 2, x + 1


def use_increment(x, y):
    z = x * 2
    increment[lambda meta: (triton.cdiv(z.numel(), meta["DOUBLE"]),)](z, None, z.numel())
    increment[lambda meta: (triton.cdiv(x.numel(), meta["DOUBLE"]),)](x, y, x.numel())
    return z, x


def use_increment_of_a_view(x, y):
    """(Not for Inductor of torch 2.13, which clones such a view wrongly, whatever a kernel is said to write.)"""
    z = x * 2
    increment[lambda meta: (triton.cdiv(z.numel(), meta["DOUBLE"]),)](z[1:], None, z.numel() - 1)
    return z


def use_count(x, y):
    bins = torch.zeros(4, dtype=torch.int32)
    count[(1,)]((x > 0).int(), bins, x.numel(), BLOCK=8)
    return bins


def check(function, backend):
    fast = torch.compile(function, fullgraph=True, backend=backend)
    for size in (32, 50, 70):
        x, y = torch.randn(size), torch.randn(size)
        first, second = x.clone(), x.clone()
        torch.testing.assert_close(fast(second, y), function(first, y))
        torch.testing.assert_close(second, first)
    print(function.__name__, backend)


def clones(function):
    """How many tensors torch copies to functionalise the launches of `function`."""
    from torch._dynamo.backends.common import aot_autograd
    found = []

    def look(module, inputs):
        found.extend(node.kwargs["tensors_to_clone"] for node in module.graph.nodes
                     if "triton_kernel_wrapper_functional" in str(node.target))
        return module

    torch.compiler.reset()
    torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=look))(torch.randn(8), torch.randn(8))
    return found


for function in (use_add, use_increment, use_increment_of_a_view, use_count):
    check(function, "aot_eager")
check(use_increment, "inductor")
print(clones(use_add), clones(use_count))
print("fallbacks", [m for m in messages if "assuming every input is mutated" in m])
