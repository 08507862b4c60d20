"""The cases of benchmarks/gpu.py: kernels, sizes, what they are checked against, and the bar of each."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

KERNELS = Path(__file__).parent / "kernels.py"
Launch = Callable[[ModuleType], Callable[[], object]]


@dataclass(frozen=True)
class Case:
    """One row.  `launch(kernels)` gives the call that is timed, for the kernels of one package; `units` is what a call
    moves (bytes) or does (operations), as `unit` says; `bar` is the least ratio to triton's time, or the least rate."""

    name: str
    launch: Launch
    result: Any
    expected: Any
    tolerance: float
    units: float
    unit: str
    torch: Callable[[], object] | None = None
    ratio: float = 1.0
    rate: float = 0.0


def kernels_for(package: str, path: Path = KERNELS) -> ModuleType:
    """The kernels of a file with `triton` as the real one, or as Tilewright."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_{package}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "triton"}
    try:
        if package == "tilewright":
            import tilewright
            import tilewright.language
            sys.modules["triton"], sys.modules["triton.language"] = tilewright, tilewright.language
        else:
            sys.modules.update(before)
            before = {}
        spec.loader.exec_module(module)
    finally:
        if package == "tilewright":
            for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
                del sys.modules[name]
        sys.modules.update(before)
    return module


def memory_cases(torch: Any) -> Iterator[Case]:
    """Kernels that wait for memory."""
    n = 1 << 26
    x, y, out = (torch.randn(n, device="cuda") for _ in range(3))
    yield Case("add fp32 64M", lambda k: lambda: k.add[((n + 1023) // 1024,)](x, y, out, n, BLOCK=1024), out, x + y, 0,
               12 * n, "GB/s", lambda: torch.add(x, y, out=out))
    rows, columns = 1 << 14, 4096
    weight, bias = torch.randn(columns, device="cuda"), torch.randn(columns, device="cuda")
    matrix = x.view(rows, columns)
    yield Case("affine+relu fp32 64M",
               lambda k: lambda: k.affine_relu[((n + 1023) // 1024,)](x, weight, bias, out, n, columns, BLOCK=1024),
               out, torch.relu(matrix * weight + bias).view(-1), 1e-6, 8 * n, "GB/s")
    for rows, columns, dtype, warps, ratio in (
            (16384, 1000, torch.float32, 4, 1.0), (16384, 1024, torch.float32, 4, 1.0),
            (16384, 2048, torch.float32, 4, 1.0), (16384, 4096, torch.float32, 8, 1.0),
            (8192, 8192, torch.bfloat16, 8, 1.0), (4096, 32768, torch.bfloat16, 32, 1.1)):
        yield softmax_case(torch, rows, columns, dtype, warps, ratio)
    yield layer_norm_case(torch, 16384, 4096)


def softmax_case(torch: Any, rows: int, columns: int, dtype: Any, warps: int, ratio: float) -> Case:
    x = torch.randn(rows, columns, device="cuda").to(dtype)
    out = torch.empty_like(x)
    block = 1 << (columns - 1).bit_length()

    def launch(k: ModuleType) -> Callable[[], object]:
        return lambda: k.softmax[(rows,)](x, out, columns, columns, columns, BLOCK=block, num_warps=warps)

    tolerance = 1e-5 if dtype is torch.float32 else 1e-2
    return Case(f"softmax {rows}x{columns} {str(dtype).removeprefix('torch.')}", launch, out,
                torch.softmax(x.float(), 1).to(dtype), tolerance, 2 * x.numel() * x.element_size(), "GB/s",
                lambda: torch.softmax(x, 1), ratio)


def layer_norm_case(torch: Any, rows: int, columns: int) -> Case:
    x, weight, bias = (torch.randn(*s, device="cuda") for s in ((rows, columns), (columns,), (columns,)))
    out = torch.empty_like(x)
    block = 1 << (columns - 1).bit_length()

    def launch(k: ModuleType) -> Callable[[], object]:
        return lambda: k.layer_norm[(rows,)](x, weight, bias, out, columns, columns, 1e-5, BLOCK=block, num_warps=8)

    return Case(f"layer norm {rows}x{columns} float32", launch, out,
                torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5), 1e-5, 8 * x.numel(), "GB/s",
                lambda: torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5))


def product_cases(torch: Any) -> Iterator[Case]:
    """Matrix products; the rates are those of one size, 8192."""
    for size, dtype, tiles, warps, stages, rate in (
            (1024, torch.bfloat16, (128, 128, 32), 4, 3, 0), (4096, torch.float16, (128, 128, 64), 4, 3, 0),
            (8192, torch.bfloat16, (128, 128, 64), 4, 3, 400)):
        a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
        out = torch.empty(size, size, device="cuda", dtype=dtype)
        m, n, k_tile = tiles

        def launch(k: ModuleType, a: Any = a, b: Any = b, out: Any = out, size: int = size, warps: int = warps,
                   stages: int = stages, m: int = m, n: int = n, k_tile: int = k_tile) -> Callable[[], object]:
            grid = (-(-size // m) * -(-size // n),)
            return lambda: k.matmul[grid](a, b, out, size, size, size, size, 1, size, 1, size, 1, BLOCK_M=m, BLOCK_N=n,
                                          BLOCK_K=k_tile, GROUP=8, num_warps=warps, num_stages=stages)

        yield Case(f"matmul {size} {str(dtype).removeprefix('torch.')}", launch, out, a @ b, 2e-2, 2 * size**3,
                   "TFLOP/s", lambda a=a, b=b: a @ b, 0.0, rate)


def cases(torch: Any) -> Iterator[Case]:
    yield from memory_cases(torch)
    yield from product_cases(torch)
