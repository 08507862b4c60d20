"""Small PTX kernels for tests: one instruction over arrays of operands, or a body of several lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx import Checks, Result, run

REGISTERS = {1: "rs", 2: "rs", 4: "r", 8: "rd"}
HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str = "", before: str = "") -> str:
    """A module with one entry `k`; registers %p, %rs, %r, %rd, %q of every width are declared."""
    return (f"{HEAD}{before}\n.visible .entry k({parameters})\n{{\n.reg .pred %p<64>;\n.reg .b16 %rs<64>;\n"
            f".reg .b32 %r<256>;\n.reg .b64 %rd<128>;\n.reg .b128 %q<8>;\n{body}\n}}\n")


def pointers(count: int) -> str:
    return ", ".join(f".param .u64 p{i}" for i in range(count))


def run_body(body: str, *arrays: Any, block: int = 128, grid: tuple[int, ...] = (1,), before: str = "",
             shared_bytes: int = 0, seed: int = 0, checks: Checks | None = None, **more: Any) -> Result:
    """Run a body whose parameters are pointers, loaded into %rd100, %rd101, ...; %r100 is %tid.x."""
    loads = "".join(f"ld.param.u64 %rd{100 + i}, [p{i}];\n" for i in range(len(arrays)))
    text = kernel(loads + "mov.u32 %r100, %tid.x;\n" + body, pointers(len(arrays)), before)
    return run(text, "k", grid, block, arrays, shared_bytes=shared_bytes, seed=seed, checks=checks, **more)


def apply(opcode: str, result: np.dtype[Any] | type, *sources: np.ndarray[Any, Any], predicate: bool = False,
          operands: str = "") -> np.ndarray[Any, Any]:
    """`opcode d, a, b, ...` over arrays; `operands` replaces the operand list ({d}, {0}, {1} are the registers)."""
    n = len(sources[0])
    out = np.zeros(n, result)
    block = 32
    total = -(-n // block) * block
    padded = [np.concatenate([s, np.repeat(s[-1:], total - n)]) for s in sources]
    outs = np.zeros(total, result)
    body, names = [], []
    for i, source in enumerate(padded):
        size = source.dtype.itemsize
        name = f"%{REGISTERS[size]}{i + 1}"
        body.append(f"mad.wide.u32 %rd{i + 1 + 20}, %r99, {size}, %rd{100 + i};\n"
                    f"ld.global.b{8 * size} {name}, [%rd{i + 1 + 20}];")
        names.append(name)
    size = outs.dtype.itemsize
    target = f"%{REGISTERS[size]}10"
    text = operands.format(*names, d=target) if operands else ", ".join([target, *names])
    if predicate:
        text = ", ".join(["%p1", *names])
        after = f"selp.b{8 * size} {target}, 1, 0, %p1;"
    else:
        after = ""
    body.append(f"{opcode} {text};\n{after}\nmad.wide.u32 %rd40, %r99, {size}, %rd{100 + len(padded)};\n"
                f"st.global.b{8 * size} [%rd40], {target};\nret;")
    first = "mov.u32 %r98, %ctaid.x;\nmad.lo.s32 %r99, %r98, 32, %r100;\n"
    run_body(first + "\n".join(body), *padded, outs, block=block, grid=(total // block,))
    out[:] = outs[:n]
    return out


def aligned(count: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Zeros whose first byte lies at a multiple of 128."""
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + 128, "u1")
    return raw[-raw.ctypes.data % 128:][:size].view(dtype)


def pairs(values: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """All pairs of values, as two arrays."""
    a, b = np.meshgrid(values, values)
    return [a.ravel().copy(), b.ravel().copy()]


INTEGERS = {
    bits: np.array(sorted({0, 1, 2, 3, 5, 7, 31, 32, 100, 2**(bits - 1) - 1, 2**(bits - 1), 2**(bits - 1) + 1,
                           2**bits - 1, 2**bits - 2, 0x1234567890ABCDEF % 2**bits, 2**(bits // 2), 2**(bits // 2) - 1}),
                   f"u{bits // 8}")
    for bits in (16, 32, 64)
}
FLOATS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -3.7, 1e-45, -1e-40, 1.1754944e-38, 3.4028235e38, -3.4e38,
                   np.inf, -np.inf, np.nan, 16777216.0, 16777218.0, 0.1, 1 / 3, 65504.0,
                   65520.0, 1e-8, 123456.79], np.float32)
